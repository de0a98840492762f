/* SPDX-License-Identifier: Apache-2.0 */
/* batch_norm.c - batch normalisation and its gradient. Everything is computed in float; statistics
 * as described in channel_sum.h. */
#include "base/mem.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/nn/batch_norm_grad.h"
#include "ops/nn/channel_sum.h"
#include "ops/quant/widen.h"

#include <math.h>

typedef struct norm_state {
    float epsilon, factor;
    bool training, channels_first;
} norm_state;

typedef struct norm_job {
    mf_channel_sums sums;
    float *out;
    /* out = (x - mean) * a + b, or dx = (dy - b - (x - mean) * c) * a, per channel */
    const float *a, *b, *c;
    bool x_counts; /* for dx; otherwise dx is dy * a, even where x is not finite */
} norm_job;

static mf_status norm_prepare(mf_prepare *p)
{
    norm_state *s = MF_ARENA_NEW(p->arena, norm_state);
    const char *format = mf_node_string(p->node, "data_format");

    if (!s)
        return MF_NOMEM("a batch normalisation");
    s->epsilon = mf_node_float(p->node, "epsilon");
    s->factor = mf_node_float(p->node, "exponential_avg_factor");
    s->training = mf_node_bool(p->node, "is_training");
    s->channels_first = format[1] == 'C';
    p->state = s;
    return MF_OK;
}

/* ---- loops ---- */

/* n channels from ch on, of `rows` rows at `at`. */
static void apply_rows(const norm_job *job, int64_t at, int64_t ch, int64_t n, int64_t rows)
{
    const float *x = job->sums.x + at, *dy = job->sums.dy ? job->sums.dy + at : NULL;
    const float *mean = job->sums.mean + ch, *a = job->a + ch, *b = job->b + ch, *c = job->c + ch;
    float *out = job->out + at;

    for (int64_t r = 0; r < rows; r++, x += n, out += n) {
        if (dy && !job->x_counts) {
            for (int64_t i = 0; i < n; i++)
                out[i] = dy[i] * a[i];
            dy += n;
        } else if (dy) {
            for (int64_t i = 0; i < n; i++)
                out[i] = (dy[i] - b[i] - (x[i] - mean[i]) * c[i]) * a[i];
            dy += n;
        } else {
            for (int64_t i = 0; i < n; i++)
                out[i] = (x[i] - mean[i]) * a[i] + b[i];
        }
    }
}

/* The plane of one channel, channels first. */
static void apply_plane(const norm_job *job, int64_t plane)
{
    const int64_t n = job->sums.at.pixels, ch = plane % job->sums.channels;
    const float *x = job->sums.x + plane * n, *dy = job->sums.dy ? job->sums.dy + plane * n : NULL;
    const float mean = job->sums.mean[ch], a = job->a[ch], b = job->b[ch], c = job->c[ch];
    float *out = job->out + plane * n;

    for (int64_t j = 0; dy && !job->x_counts && j < n; j++)
        out[j] = dy[j] * a;
    for (int64_t j = 0; (!dy || job->x_counts) && j < n; j++)
        out[j] = dy ? (dy[j] - b - (x[j] - mean) * c) * a : (x[j] - mean) * a + b;
}

static void apply_piece(void *ctx, int64_t piece)
{
    const norm_job *job = ctx;
    const mf_channels *at = &job->sums.at;
    int64_t from, to;

    mf_channel_rows(&job->sums, piece, &from, &to);
    if (at->run == 1 && at->groups > 1) {
        for (int64_t plane = from * at->groups; plane < to * at->groups; plane++)
            apply_plane(job, plane);
        return;
    }
    for (int64_t g = 0; g < at->groups; g++) {
        for (int64_t r = from, rows; r < to; r += rows) {
            const int64_t start = mf_channel_run(at, g, r, to, &rows);

            apply_rows(job, start, g * at->run, at->run, rows);
        }
    }
}

/* ---- shapes ---- */

/* Number of channels; -1: unknown. */
static int64_t channels_of(const mf_node *node, const mf_shape *x)
{
    if (x->rank < 1)
        return -1;
    return x->dims[mf_node_string(node, "data_format")[1] == 'C' ? 1 : x->rank - 1];
}

static mf_status check_x(const mf_node *node, const mf_shape *x)
{
    const bool five = strlen(mf_node_string(node, "data_format")) == 5;
    char text[MF_SHAPE_TEXT];

    /* TensorFlow's V3 accepts 5 dimensions with the formats for 4, too. */
    if (x->rank < 0 || x->rank == (five ? 5 : 4) ||
        (x->rank == 5 && strstr(node->op_name, "V3") != NULL))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "input must be %d-dimensional: %s", five ? 5 : 4,
                   mf_shape_text(x, text));
}

static mf_status check_rank1(const mf_shape *s, const char *what)
{
    char text[MF_SHAPE_TEXT];

    if (s->rank < 0 || s->rank == 1)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be 1-dimensional: %s", what,
                   mf_shape_text(s, text));
}

static mf_status check_vector(const mf_shape *s, const char *what, int64_t *channels)
{
    MF_TRY(check_rank1(s, what));
    if (s->rank == 1 && s->dims[0] >= 0 && *channels >= 0 && s->dims[0] != *channels)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "%s must have the same number of elements as the channels of x, got %lld and "
            "%lld",
            what, (long long)s->dims[0], (long long)*channels);
    if (s->rank == 1 && *channels < 0)
        *channels = s->dims[0];
    return MF_OK;
}

/* FusedBatchNorm: (x, scale, offset, mean, variance). Training without averaging ignores the last
 * two, including their lengths. */
static mf_status check_norm(const mf_node *node, const mf_shape *const in[5], int64_t *channels)
{
    const bool training = mf_node_bool(node, "is_training");
    const float factor = mf_node_float(node, "exponential_avg_factor");

    MF_TRY(check_x(node, in[0]));
    *channels = channels_of(node, in[0]);
    MF_TRY(check_vector(in[1], "scale", channels));
    MF_TRY(check_vector(in[2], "offset", channels));
    MF_TRY(check_rank1(in[3], "estimated_mean"));
    MF_TRY(check_rank1(in[4], "estimated_variance"));
    if (training && factor == 1.0f)
        return MF_OK;
    MF_TRY(check_vector(in[3], "estimated_mean", channels));
    return check_vector(in[4], "estimated_variance", channels);
}

static mf_status norm_infer(mf_infer *in)
{
    const mf_shape *shapes[5];
    int64_t channels;

    for (int i = 0; i < 5; i++)
        shapes[i] = &in->in[i];
    MF_TRY(check_norm(in->node, shapes, &channels));
    in->out[0] = in->in[0];
    for (int i = 1; i < 5; i++)
        in->out[i] = MF_SHAPE(channels);
    if (in->n_out == 6)
        in->out[5] = MF_SCALAR;
    return MF_OK;
}

/* (dy, x, scale, mean, variance, ...) */
static mf_status batch_norm_check_grad(const mf_node *node, const mf_shape *const in[5],
                                       int64_t *channels)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    MF_TRY(check_x(node, in[1]));
    if (!mf_shape_compatible(in[0], in[1]))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "x and y_backprop must have same shape, but x has shape "
                       "%s and y_backprop has shape %s",
                       mf_shape_text(in[1], a), mf_shape_text(in[0], b));
    *channels = channels_of(node, in[1]);
    MF_TRY(check_vector(in[2], "scale", channels));
    MF_TRY(check_vector(in[3], "saved mean", channels));
    return check_vector(in[4], "saved variance", channels);
}

static mf_status norm_grad_infer(mf_infer *in)
{
    const mf_shape *shapes[5];
    int64_t channels;

    for (int i = 0; i < 5; i++)
        shapes[i] = &in->in[i];
    MF_TRY(batch_norm_check_grad(in->node, shapes, &channels));
    in->out[0] = in->in[1];
    in->out[1] = in->out[2] = MF_SHAPE(channels);
    in->out[3] = in->out[4] = MF_SHAPE(0);
    return MF_OK;
}

/* ---- kernels ---- */

enum { WORK_ARRAYS = 4 };

/* A job over x's shape, with `work` (WORK_ARRAYS float vectors) and partial sums allocated. */
static mf_status batch_norm_job_init(const norm_state *s, const mf_shape *x, norm_job *job,
                                     mf_tensor *work)
{
    const mf_channels at = s->channels_first ? mf_channels_first(x) : mf_channels_last(x);

    MF_TRY(mf_channel_sums_init(&job->sums, &at));
    return mf_tensor_alloc(work, MF_DTYPE_F32, &MF_SHAPE(WORK_ARRAYS, job->sums.channels));
}

/* Number of elements of a channel. */
static double positions(const norm_job *job)
{
    return (double)(job->sums.at.images * job->sums.at.pixels);
}

/* Mean and (biased) variance of each channel. */
static void batch_norm_statistics(const mf_kernel *k, norm_job *job, float *mean, float *variance)
{
    const double n = positions(job);
    const double *sums = mf_channel_sums_run(k, &job->sums, MF_TERM_X);

    for (int64_t c = 0; c < job->sums.channels; c++)
        mean[c] = (float)(sums[c] / n);
    job->sums.mean = mean;
    sums = mf_channel_sums_run(k, &job->sums, MF_TERM_SQUARE);
    for (int64_t c = 0; c < job->sums.channels; c++)
        variance[c] = (float)(sums[c] / n);
}

static void batch_norm_fill(mf_tensor *t, float value)
{
    for (int64_t i = 0; i < t->count; i++)
        ((float *)t->data)[i] = value;
}

/* in: x scale offset mean variance, all float; out: y, running mean and variance, saved ones. */
static mf_status batch_norm_normalise(const mf_kernel *k, const mf_tensor *in, mf_tensor *out)
{
    const norm_state *s = k->state;
    const float *scale = in[1].data, *offset = in[2].data, *old_mean = in[3].data;
    const float *old_variance = in[4].data;
    float *const run_mean = out[1].data, *const run_variance = out[2].data;
    mf_tensor work = { 0 };
    norm_job job = { .sums.x = in[0].data, .out = out[0].data };
    float *a, *zero;
    mf_status st;

    if (in[0].count == 0) {
        batch_norm_fill(&out[1], NAN);
        batch_norm_fill(&out[2], NAN);
        batch_norm_fill(&out[3], 0);
        batch_norm_fill(&out[4], 0);
        return MF_OK;
    }
    MF_TRY_TO(done, batch_norm_job_init(s, &in[0].shape, &job, &work));
    a = work.data;
    zero = a + job.sums.channels;
    memset(zero, 0, (size_t)job.sums.channels * sizeof *zero);
    if (s->training) {
        float *mean = out[3].data, *variance = out[4].data;
        const double n = positions(&job);
        const float unbias = (float)(n > 1 ? n / (n - 1) : 1), f = s->factor;

        batch_norm_statistics(k, &job, mean, variance);
        for (int64_t c = 0; c < job.sums.channels; c++) {
            const float v = variance[c] * unbias;

            run_mean[c] = f == 1 ? mean[c] : (1 - f) * old_mean[c] + f * mean[c];
            run_variance[c] = f == 1 ? v : (1 - f) * old_variance[c] + f * v;
        }
        old_variance = variance;
    } else {
        memcpy(run_mean, old_mean, (size_t)job.sums.channels * sizeof *run_mean);
        memcpy(run_variance, old_variance, (size_t)job.sums.channels * sizeof *run_mean);
        batch_norm_fill(&out[3], 0);
        batch_norm_fill(&out[4], 0);
        job.sums.mean = old_mean;
    }
    for (int64_t c = 0; c < job.sums.channels; c++)
        a[c] = scale[c] / sqrtf(old_variance[c] + s->epsilon);
    job.a = a;
    job.b = offset;
    job.c = zero;
    mf_channel_pieces(k, &job.sums, apply_piece, &job);
done:
    mf_tensor_clear(&work);
    mf_tensor_clear(&job.sums.partial);
    return st;
}

/* in: dy x scale mean variance; out: dx, dscale, doffset. */
static mf_status batch_norm_normalise_grad(const mf_kernel *k, const mf_tensor *in, mf_tensor *out)
{
    const norm_state *s = k->state;
    const float *scale = in[2].data, *variance = in[4].data;
    float *dscale = out[1].data, *doffset = out[2].data, *a, *b, *c;
    mf_tensor work = { 0 };
    norm_job job = { .sums = { .dy = in[0].data, .x = in[1].data, .mean = in[3].data },
                     .x_counts = s->training,
                     .out = out[0].data };
    const double *sums;
    double n;
    mf_status st;

    if (in[1].count == 0) {
        batch_norm_fill(&out[1], 0);
        batch_norm_fill(&out[2], 0);
        return MF_OK;
    }
    MF_TRY_TO(done, batch_norm_job_init(s, &in[1].shape, &job, &work));
    a = work.data;
    b = a + job.sums.channels;
    c = b + job.sums.channels;
    n = positions(&job);
    sums = mf_channel_sums_run(k, &job.sums, MF_TERM_GRAD);
    for (int64_t i = 0; i < job.sums.channels; i++) {
        const double inverse = 1 / sqrt((double)variance[i] + (double)s->epsilon);
        const double dy_sum = sums[i], dy_x = sums[job.sums.channels + i];

        dscale[i] = (float)(dy_x * inverse);
        doffset[i] = (float)dy_sum;
        a[i] = (float)((double)scale[i] * inverse);
        b[i] = s->training ? (float)(dy_sum / n) : 0;
        c[i] = s->training ? (float)(inverse * inverse * dy_x / n) : 0;
    }
    job.a = a;
    job.b = b;
    job.c = c;
    mf_channel_pieces(k, &job.sums, apply_piece, &job);
done:
    mf_tensor_clear(&work);
    mf_tensor_clear(&job.sums.partial);
    return st;
}

/* Both kernels: five inputs and n outputs, computed in float whatever their type. */
static mf_status batch_norm_run_wide(mf_kernel *k, mf_tensor *const *out, int n_out,
                                     mf_status (*fn)(const mf_kernel *, const mf_tensor *,
                                                     mf_tensor *))
{
    mf_tensor in[5] = { { 0 } }, wide[5] = { { 0 } };
    mf_status st = MF_OK;

    for (int i = 0; i < 5; i++)
        MF_TRY_TO(done, mf_widen(k, k->in[i], &in[i]));
    for (int i = 0; i < n_out; i++)
        MF_TRY_TO(done, mf_widen_out(out[i], &wide[i]));
    MF_TRY_TO(done, fn(k, in, wide));
    for (int i = 0; i < n_out; i++)
        mf_narrow(k, &wide[i], out[i]);
done:
    for (int i = 0; i < 5; i++) {
        mf_tensor_clear(&in[i]);
        mf_tensor_clear(&wide[i]);
    }
    return st;
}

static mf_status norm_run(mf_kernel *k)
{
    const mf_shape *const shapes[5] = { &k->in[0]->shape, &k->in[1]->shape, &k->in[2]->shape,
                                        &k->in[3]->shape, &k->in[4]->shape };
    mf_tensor *out[5], *extra;
    int64_t channels = 0;

    MF_TRY(check_norm(k->node, shapes, &channels));
    MF_TRY(mf_kernel_out(k, 0, shapes[0], &out[0]));
    for (int i = 1; i < 5; i++)
        MF_TRY(mf_kernel_out(k, i, &MF_SHAPE(channels), &out[i]));
    if (k->n_out == 6) {
        MF_TRY(mf_kernel_out(k, 5, &MF_SCALAR, &extra));
        mf_tensor_put(extra, 0, 0);
    }
    return batch_norm_run_wide(k, out, 5, batch_norm_normalise);
}

static mf_status norm_grad_run(mf_kernel *k)
{
    const mf_shape *const shapes[5] = { &k->in[0]->shape, &k->in[1]->shape, &k->in[2]->shape,
                                        &k->in[3]->shape, &k->in[4]->shape };
    mf_tensor *out[3], *unused;
    int64_t channels = 0;

    MF_TRY(batch_norm_check_grad(k->node, shapes, &channels));
    MF_TRY(mf_kernel_out(k, 0, shapes[1], &out[0]));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(channels), &out[1]));
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(channels), &out[2]));
    MF_TRY(mf_kernel_out(k, 3, &MF_SHAPE(0), &unused));
    MF_TRY(mf_kernel_out(k, 4, &MF_SHAPE(0), &unused));
    return batch_norm_run_wide(k, out, 3, batch_norm_normalise_grad);
}

/* ---- gradient ---- */

static mf_status batch_norm_grad(mf_grad *g)
{
    const bool training = mf_node_bool(g->node, "is_training");
    const mf_output mean = training ? (mf_output){ g->node, 3 } : g->x[3];
    const mf_output variance = training ? (mf_output){ g->node, 4 } : g->x[4];
    const char *op = g->n_out == 6                                       ? "FusedBatchNormGradV3"
                     : strcmp(g->node->op_name, "FusedBatchNormV2") == 0 ? "FusedBatchNormGradV2"
                                                                         : "FusedBatchNormGrad";
    mf_output in[7] = { g->dy[0], g->x[0], g->x[1], mean, variance, MF_END, MF_END };
    mf_output r;

    if (!g->dy[0].node)
        return MF_OK;
    if (g->n_out == 6)
        in[5] = (mf_output){ g->node, 5 };
    r = mf_applyf(g->graph, op, in, "epsilon=%.9g data_format='%s' is_training=%s",
                  (double)mf_node_float(g->node, "epsilon"), mf_node_string(g->node, "data_format"),
                  training ? "true" : "false");
    for (int i = 0; r.node && i < 3; i++)
        g->dx[i] = (mf_output){ r.node, i };
    return MF_OK;
}

#define FORMAT4 "data_format:string='NHWC' in ['NHWC','NCHW'], is_training:bool=true}"
#define FORMAT5                                                                                    \
    "data_format:string='NHWC' in ['NHWC','NCHW','NDHWC','NCDHW'], is_training:bool=true}"
#define EPSILON "epsilon:float=9.99999975e-05, "
#define AVERAGE "exponential_avg_factor:float=1, "
/* Channels are independent; statistics reduce all other dimensions. */
static void norm_split(mf_split *s)
{
    const bool first = mf_node_string(s->node, "data_format")[1] == 'C';
    const int rank = s->out[0].rank, c = first ? 1 : rank - 1;
    const int64_t n = s->out[0].dims[c];
    const int letter = mf_split_new(s, n, MF_CUT_FREE);

    s->letters[letter].least = MF_SPLIT_ROUNDS; /* neighbours are added in one vector */
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].rank == rank || (s->in[i].rank == 1 && s->in[i].dims[0] == n))
            mf_split_in(s, i, s->in[i].rank == rank ? c : 0, letter);
    }
    for (int i = 0; i < s->n_out; i++) {
        if (s->out[i].rank == rank || (s->out[i].rank == 1 && s->out[i].dims[0] == n))
            mf_split_out(s, i, s->out[i].rank == rank ? c : 0, letter);
    }
}

#define NORM_OP(NAME, DEF, INFER, RUN, GRAD, ...)                                                  \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = GRAD, .prepare = norm_prepare,           \
        .run = RUN, .split = norm_split, .samples = MF_SAMPLES(__VA_ARGS__)                        \
    }

/* TensorFlow leaves the saved statistics uninitialised in inference: !unordered. */
const mf_op mf_ops_batch_norm[] = {
    NORM_OP(
        "FusedBatchNorm",
        "(x:T, scale:T, offset:T, mean:T, variance:T) -> (y:T, batch_mean:T, batch_variance:T, "
        "reserve_space_1:T, reserve_space_2:T) {T:type in [float], " EPSILON AVERAGE FORMAT4,
        norm_infer, norm_run, batch_norm_grad, "f32[2,3,4,3] f32[3] f32[3] f32[0]~ f32[0]~ !nograd",
        "f32[2,3,4,3] f32[3] f32[3] f32[3]~ f32[3]@0.5:2~ ; is_training=false !nograd !unordered",
        "f32[2,3,4,3] f32[2] f32[3] f32[0] f32[0] !fails"),
    NORM_OP(
        "FusedBatchNormV2",
        "(x:T, scale:U, offset:U, mean:U, variance:U) -> (y:T, batch_mean:U, batch_variance:U, "
        "reserve_space_1:U, reserve_space_2:U) {T:type in [half,bfloat16,float], U:type in "
        "[float], " EPSILON AVERAGE FORMAT4,
        norm_infer, norm_run, batch_norm_grad, "f32[2,3,4,3] f32[3] f32[3] f32[0]~ f32[0]~ !nograd",
        "f16[2,3,4,3] f32[3] f32[3] f32[3]~ f32[3]@0.5:2~ ; is_training=false !nograd !unordered"),
    NORM_OP("FusedBatchNormV3",
            "(x:T, scale:U, offset:U, mean:U, variance:U) -> (y:T, batch_mean:U, batch_variance:U, "
            "reserve_space_1:U, reserve_space_2:U, reserve_space_3:U) {T:type in [half,bfloat16,"
            "float], U:type in [bfloat16,float], " EPSILON AVERAGE FORMAT5,
            norm_infer, norm_run, batch_norm_grad,
            "f32[2,3,4,3] f32[3] f32[3] f32[0]~ f32[0]~ !nograd",
            "f32[2,3,4,5] f32[5] f32[5] f32[5]~ f32[5]@0.5:2~ ; exponential_avg_factor=0.3 !nograd",
            "f32[2,3,4,5] f32[3] f32[3] f32[0]~ f32[0]~ ; data_format='NCHW' !nograd !notf",
            "f32[2,3,4,3] f32[3] f32[3] f32[3]~ f32[3]@0.5:2~ ; is_training=false epsilon=0.01 "
            "!nograd !unordered",
            "bf16[2,3,4,3] f32[3] f32[3] f32[0]~ f32[0]~ !nograd !tol:0.05",
            "f32[60,5,5,70] f32[70] f32[70] f32[0]~ f32[0]~ !nograd",
            "f32[1,1,1,3] f32[3] f32[3] f32[0]~ f32[0]~ !nograd",
            "f32[2,3,3] f32[3] f32[3] f32[3] f32[3] !fails",
            "f32[2,3,4,3] f32[3] f32[3] f32[2] f32[3] ; is_training=false !fails"),
    NORM_OP("FusedBatchNormGrad",
            "(y_backprop:T, x:T, scale:T, reserve_space_1:T, reserve_space_2:T) -> (x_backprop:T, "
            "scale_backprop:T, offset_backprop:T, reserve_space_3:T, reserve_space_4:T) {T:type in "
            "[float], " EPSILON FORMAT4,
            norm_grad_infer, norm_grad_run, mf_batch_norm_grad_grad,
            "f32[2,3,4,3] f32[2,3,4,3] f32[3] f32[3] f32[3]@0.5:2 !nograd"),
    NORM_OP(
        "FusedBatchNormGradV2",
        "(y_backprop:T, x:T, scale:float, reserve_space_1:U, reserve_space_2:U) -> "
        "(x_backprop:T, scale_backprop:U, offset_backprop:U, reserve_space_3:U, "
        "reserve_space_4:U) {T:type in [half,bfloat16,float], U:type in [float], " EPSILON FORMAT4,
        norm_grad_infer, norm_grad_run, mf_batch_norm_grad_grad,
        "f32[2,3,4,3] f32[2,3,4,3] f32[3] f32[3] f32[3]@0.5:2 !nograd"),
    NORM_OP(
        "FusedBatchNormGradV3",
        "(y_backprop:T, x:T, scale:float, reserve_space_1:U, reserve_space_2:U, "
        "reserve_space_3:U) -> (x_backprop:T, scale_backprop:U, offset_backprop:U, "
        "reserve_space_4:U, reserve_space_5:U) {T:type in [half,bfloat16,float], U:type in "
        "[float], " EPSILON FORMAT5,
        norm_grad_infer, norm_grad_run, mf_batch_norm_grad_grad,
        "f32[2,3,4,3] f32[2,3,4,3] f32[3] f32[3] f32[3]@0.5:2 f32[] !nograd",
        "f32[2,3,4,3] f32[2,3,4,3] f32[3] f32[3]~ f32[3]@0.5:2~ f32[]~ ; is_training=false",
        "f16[2,3,4,3] f16[2,3,4,3] f32[3] f32[3] f32[3]@0.5:2 f32[] !nograd",
        "f32[2,3,4,5] f32[2,3,4,5] f32[3] f32[3] f32[3]@0.5:2 f32[] ; data_format='NCHW' !nograd "
        "!notf",
        "f32[2,3,4,3] f32[2,3,4,2] f32[3] f32[3] f32[3] f32[] !fails"),
    { 0 },
};
