/* SPDX-License-Identifier: Apache-2.0 */
/* lrn.c - local response normalisation over adjacent channels, and its gradient:
 *   y[c] = x[c] / norm[c]^beta,   norm[c] = bias + alpha * sum of x^2 over c - radius .. c + radius
 */
#include "base/mem.h"
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/math/row_math.h"
#include "ops/quant/widen.h"

enum { GRAIN = 4096 };

typedef struct lrn_state {
    int64_t radius;
    float bias, alpha, beta;
} lrn_state;

typedef struct lrn_job {
    const lrn_state *s;
    const float *x, *y, *dy;
    float *out;
    int64_t rows, channels, rows_per_piece;
} lrn_job;

static mf_status lrn_prepare(mf_prepare *p)
{
    lrn_state *s = MF_ARENA_NEW(p->arena, lrn_state);

    if (!s)
        return MF_NOMEM("a normalisation");
    s->radius = mf_node_int(p->node, "depth_radius");
    if (s->radius < 0 || s->radius >= INT32_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "depth_radius = %lld is not in [0, 2^31 - 1)",
                       (long long)s->radius);
    s->bias = mf_node_float(p->node, "bias");
    s->alpha = mf_node_float(p->node, "alpha");
    s->beta = mf_node_float(p->node, "beta");
    p->state = s;
    return MF_OK;
}

static int64_t lrn_first_of(const lrn_job *job, int64_t c)
{
    return c > job->s->radius ? c - job->s->radius : 0;
}

static int64_t lrn_end_of(const lrn_job *job, int64_t c)
{
    return job->channels - c > job->s->radius ? c + job->s->radius + 1 : job->channels;
}

static float lrn_norm_of(const lrn_job *job, const float *x, int64_t c)
{
    float sum = 0;

    for (int64_t i = lrn_first_of(job, c); i < lrn_end_of(job, c); i++)
        sum += x[i] * x[i];
    return job->s->bias + job->s->alpha * sum;
}

static void lrn_row(const lrn_job *job, int64_t row)
{
    const float *x = job->x + row * job->channels;
    float *out = job->out + row * job->channels;

    for (int64_t c = 0;
         c < job->channels && !mf_stopped_after(lrn_end_of(job, c) - lrn_first_of(job, c)); c++)
        out[c] = x[c] * Sleef_powf_u10(lrn_norm_of(job, x, c), -job->s->beta);
}

/* Each output contributes to the inputs in its window. */
static void grad_row(const lrn_job *job, int64_t row)
{
    const int64_t at = row * job->channels;
    const float *x = job->x + at, *y = job->y + at, *dy = job->dy + at;
    const float slope = -2 * job->s->alpha * job->s->beta;
    float *dx = job->out + at;

    memset(dx, 0, (size_t)job->channels * sizeof *dx);
    for (int64_t c = 0; c < job->channels; c++) {
        if (mf_stopped_after(2 * (lrn_end_of(job, c) - lrn_first_of(job, c))))
            return;
        const float norm = lrn_norm_of(job, x, c), share = slope * y[c] / norm * dy[c];

        for (int64_t i = lrn_first_of(job, c); i < lrn_end_of(job, c); i++)
            dx[i] += share * x[i];
        dx[c] += Sleef_powf_u10(norm, -job->s->beta) * dy[c];
    }
}

static void lrn_piece(void *ctx, int64_t piece)
{
    const lrn_job *job = ctx;
    const int64_t end = (piece + 1) * job->rows_per_piece;

    for (int64_t r = piece * job->rows_per_piece; r < end && r < job->rows; r++) {
        if (job->dy)
            grad_row(job, r);
        else
            lrn_row(job, r);
    }
}

static mf_status lrn_run_rows(const mf_kernel *k, lrn_job *job, const mf_tensor *t)
{
    int64_t pieces;

    if (t->count == 0)
        return MF_OK;
    job->channels = t->shape.dims[3];
    job->rows = t->count / job->channels;
    job->rows_per_piece = job->channels < GRAIN ? GRAIN / job->channels : 1;
    pieces = (job->rows + job->rows_per_piece - 1) / job->rows_per_piece;
    return mf_kernel_parallel(k, pieces, lrn_piece, job);
}

static mf_status lrn_infer(mf_infer *in)
{
    in->out[0] = in->in[0];
    for (int i = 0; i < in->n_in; i++) {
        MF_TRY(mf_infer_rank(in, i, 4));
        MF_TRY(mf_shape_merge(&in->out[0], &in->in[i], &in->out[0]));
    }
    return MF_OK;
}

/* LRN: (x). LRNGrad: (dy, x, y). */
static mf_status lrn_run(mf_kernel *k)
{
    const int n = k->n_in;
    const bool grad = n == 3;
    mf_tensor in[3] = { { 0 } }, wide = { 0 }, *out;
    lrn_job job = { .s = k->state };
    mf_status st = MF_OK;

    MF_ASSERT(n == 1 || grad);
    for (int i = 0; i < n; i++) {
        if (k->in[i]->shape.rank != 4 || !mf_shape_equal(&k->in[i]->shape, &k->in[0]->shape))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "input %d must be 4-dimensional and have the shape of the first", i);
    }
    MF_TRY(mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    for (int i = 0; i < n; i++)
        MF_TRY_TO(done, mf_widen(k, k->in[i], &in[i]));
    MF_TRY_TO(done, mf_widen_out(out, &wide));
    job.x = in[grad ? 1 : 0].data;
    job.y = grad ? in[2].data : NULL;
    job.dy = grad ? in[0].data : NULL;
    job.out = wide.data;
    MF_TRY_TO(done, lrn_run_rows(k, &job, out));
    mf_narrow(k, &wide, out);
done:
    for (int i = 0; i < 3; i++)
        mf_tensor_clear(&in[i]);
    mf_tensor_clear(&wide);
    return st;
}

static mf_status lrn_grad(mf_grad *g)
{
    g->dx[0] = mf_applyf(
        g->graph, "LRNGrad", MF_IN(g->dy[0], g->x[0], g->y[0]),
        "depth_radius=%lld bias=%.9g alpha=%.9g beta=%.9g",
        (long long)mf_node_int(g->node, "depth_radius"), (double)mf_node_float(g->node, "bias"),
        (double)mf_node_float(g->node, "alpha"), (double)mf_node_float(g->node, "beta"));
    return MF_OK;
}

/* Channels are not split; all other dimensions are independent. */
static void lrn_split(mf_split *s)
{
    mf_split_around(s, 0, s->n_in, 3, true, true);
}

#define ATTRS                                                                                      \
    " {depth_radius:int=5, bias:float=1, alpha:float=1, beta:float=0.5, T:type=float in "          \
    "[half,bfloat16,float]}"

const mf_op mf_ops_lrn[] = {
    { .name = "LRN",
      .rows = mf_rows_first,
      .def = "(input:T) -> (output:T)" ATTRS,
      .infer = lrn_infer,
      .grad = lrn_grad,
      .prepare = lrn_prepare,
      .run = lrn_run,
      .split = lrn_split,
      .samples = MF_SAMPLES("f32[1,2,3,7]", "f32[3,4,5,6] !nograd",
                            "f32[2,2,2,9] ; depth_radius=2 bias=2 alpha=0.1 beta=0.75",
                            "f16[1,2,2,5]", "bf16[1,2,2,5] !notf", "f32[0,2,2,5]",
                            "f32[2,3] !fails", "f32[1,2,2,5] ; depth_radius=-1 !fails") },
    { .name = "LRNGrad",
      .def = "(input_grads:T, input_image:T, output_image:T) -> (output:T)" ATTRS,
      .infer = lrn_infer,
      .grad = mf_grad_missing,
      .prepare = lrn_prepare,
      .run = lrn_run,
      .split = lrn_split,
      .samples = MF_SAMPLES("f32[1,2,3,7] f32[1,2,3,7] f32[1,2,3,7] !nograd",
                            "f32[1,2,3,7] f32[1,2,3,7] f32[1,2,3,7] ; depth_radius=1 beta=0.75 "
                            "!nograd",
                            "f32[1,2,3,7] f32[1,2,3,6] f32[1,2,3,7] !fails") },
    { 0 },
};
