/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c - L2Loss, and InTopK. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/math/row_math.h"
#include "ops/quant/widen.h"

enum { GRAIN = 32768, MAX_PIECES = 256 };

/* ---- L2Loss ---- */

typedef struct square_job {
    const mf_tensor *x;
    int64_t per_piece;
    double partial[MAX_PIECES];
} square_job;

static void square_piece(void *ctx, int64_t piece)
{
    square_job *job = ctx;
    const int64_t at = piece * job->per_piece;
    const int64_t n = job->x->count - at < job->per_piece ? job->x->count - at : job->per_piece;

#define SQUARE(i) (x[i] * x[i])
    if (job->x->dtype == MF_DTYPE_F32) {
        const float *x = (const float *)job->x->data + at;

        MF_ROW_SUM(float, job->partial[piece], n, SQUARE);
    } else {
        const double *x = (const double *)job->x->data + at;

        MF_ROW_SUM(double, job->partial[piece], n, SQUARE);
    }
}

static mf_status l2_run(mf_kernel *k)
{
    mf_tensor x = { 0 }, *out;
    square_job job = { .x = &x };
    int64_t pieces;
    double sum = 0;

    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    MF_TRY(mf_widen(k, k->in[0], &x));
    job.per_piece =
        x.count > (int64_t)GRAIN * MAX_PIECES ? (x.count + MAX_PIECES - 1) / MAX_PIECES : GRAIN;
    pieces = (x.count + job.per_piece - 1) / job.per_piece;
    mf_kernel_complete(k, pieces, square_piece, &job);
    for (int64_t p = 0; p < pieces; p++)
        sum += job.partial[p];
    mf_tensor_put(out, 0, sum / 2);
    mf_tensor_clear(&x);
    return MF_OK;
}

static mf_status l2_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("Mul", g->x[0], g->dy[0]);
    return MF_OK;
}

/* ---- InTopK, InTopKV2 ---- */

static mf_status top_shapes(const mf_shape *predictions, const mf_shape *targets)
{
    char text[MF_SHAPE_TEXT];

    if (predictions->rank >= 0 && predictions->rank != 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "predictions must be 2-dimensional, got shape %s",
                       mf_shape_text(predictions, text));
    if (targets->rank >= 0 && targets->rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "targets must be 1-dimensional, got shape %s",
                       mf_shape_text(targets, text));
    if (predictions->rank == 2 && targets->rank == 1 && predictions->dims[0] >= 0 &&
        targets->dims[0] >= 0 && predictions->dims[0] != targets->dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "First dimension of predictions %lld must match length of targets %lld",
                       (long long)predictions->dims[0], (long long)targets->dims[0]);
    return MF_OK;
}

static mf_status top_infer(mf_infer *in)
{
    MF_TRY(top_shapes(&in->in[0], &in->in[1]));
    if (in->n_in == 3)
        MF_TRY(mf_infer_rank(in, 2, 0));
    in->out[0] =
        in->in[1].rank == 1 ? in->in[1] : MF_SHAPE(in->in[0].rank == 2 ? in->in[0].dims[0] : -1);
    return MF_OK;
}

/* True if fewer than k classes are more probable; false if any value is not finite. */
static bool in_top(const float *p, int64_t classes, int64_t target, int64_t k)
{
    int64_t more = 0;

    if (target < 0 || target >= classes)
        return false;
    for (int64_t c = 0; c < classes; c++) {
        if (!isfinite(p[c]))
            return false;
        more += p[c] > p[target];
    }
    return more < k;
}

static mf_status top_run(mf_kernel *k)
{
    const mf_tensor *predictions = k->in[0], *targets = k->in[1];
    const bool k_is_input = k->n_in == 3;
    int64_t classes, top;
    mf_tensor *out;

    MF_TRY(top_shapes(&predictions->shape, &targets->shape));
    if (k_is_input && k->in[2]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "k must be 0-D, got rank %d", k->in[2]->shape.rank);
    top = k_is_input ? mf_tensor_int_at(k->in[2], 0) : mf_node_int(k->node, "k");
    classes = predictions->shape.dims[1];
    MF_TRY(mf_kernel_out(k, 0, &targets->shape, &out));
    for (int64_t i = 0; i < targets->count; i++)
        ((uint8_t *)out->data)[i] = in_top((const float *)predictions->data + i * classes, classes,
                                           mf_tensor_int_at(targets, i), top);
    return MF_OK;
}

static void l2_split(mf_split *s)
{
    for (int d = 0; d < s->in[0].rank; d++)
        mf_split_in(s, 0, d, mf_split_new(s, s->in[0].dims[d], MF_CUT_SUM));
}

static void top_split(mf_split *s)
{
    mf_split_text(s, s->n_in == 2 ? "b.,b->b" : "b.,b,->b", MF_CUT_SUM);
}

const mf_op mf_ops_loss[] = {
    { .name = "L2Loss",
      .def = "(t:T) -> (output:T) {T:type in floats}",
      .infer = mf_infer_scalar,
      .grad = l2_grad,
      .run = l2_run,
      .split = l2_split,
      .samples = MF_SAMPLES("f32[3,5]", "f64[2,3,4]", "f16[7]", "bf16[7]", "f32[]", "f32[0]",
                            "f32[70000] !nograd") },
    { .name = "InTopK",
      .def = "(predictions:float, targets:T) -> (precision:bool) {k:int, T:type=int32 in index}",
      .infer = top_infer,
      .grad = mf_grad_none,
      .run = top_run,
      .split = top_split,
      .samples = MF_SAMPLES("f32[4,6] i32[4]@0:6 ; k=2", "f32[4,6] i64[4]{0,7,-1,5} ; k=3",
                            "f32[0,6] i32[0] ; k=1", "f32[4,6] i32[3]@0:6 ; k=2 !fails") },
    { .name = "InTopKV2",
      .rows = mf_rows_in_top_k,
      .def = "(predictions:float, targets:T, k:T) -> (precision:bool) {T:type=int32 in index}",
      .infer = top_infer,
      .grad = mf_grad_none,
      .run = top_run,
      .split = top_split,
      .samples = MF_SAMPLES("f32[4,6] i32[4]@0:6 i32[]{2}", "f32[4,6] i64[4]{0,7,-1,5} i64[]{3}",
                            "f32[4,6] i32[4]@0:6 i32[1]{2} !fails") },
    { 0 },
};
