/* SPDX-License-Identifier: Apache-2.0 */
/* bias.c - adds a vector to every position of a feature map, and its gradient. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/math/elementwise.h"
#include "ops/math/reduce_engine.h"
#include "ops/nn/channel_sum.h"

enum { GRAIN = 16384 }; /* elements in a piece */

/* value[outer][channels][inner] + bias[channels] */
typedef struct bias_job {
    void (*run)(const struct bias_job *job, int64_t from, int64_t to);
    const void *value, *bias;
    void *out;
    int64_t rows, channels, inner,
        rows_per_piece; /* a row: [channels] or, with inner > 1, [inner] */
} bias_job;

/* A row is all channels when they are innermost, else one channel's plane. */
#define BIAS_ROWS(NAME, KIND, ADD)                                                                 \
    static void NAME##_##KIND(const bias_job *job, int64_t from, int64_t to)                       \
    {                                                                                              \
        const MF_S_##KIND *x = job->value, *b = job->bias;                                         \
        MF_S_##KIND *o = job->out;                                                                 \
        const int64_t n = job->inner > 1 ? job->inner : job->channels;                             \
                                                                                                   \
        for (int64_t r = from; r < to; r++) {                                                      \
            const MF_S_##KIND *xr = x + r * n;                                                     \
            MF_S_##KIND *y = o + r * n;                                                            \
                                                                                                   \
            if (job->inner > 1) {                                                                  \
                const MF_C_##KIND v = MF_LD_##KIND(b, r % job->channels);                          \
                MF_IVDEP                                                                           \
                for (int64_t i = 0; i < n; i++)                                                    \
                    y[i] = MF_ST_##KIND(ADD(MF_LD_##KIND(xr, i), v));                              \
            } else {                                                                               \
                MF_IVDEP                                                                           \
                for (int64_t i = 0; i < n; i++)                                                    \
                    y[i] = MF_ST_##KIND(ADD(MF_LD_##KIND(xr, i), MF_LD_##KIND(b, i)));             \
            }                                                                                      \
        }                                                                                          \
    }
#define PLUS(x, y) ((x) + (y))
MF_EACH_FLOAT(BIAS_ROWS, bias, PLUS)
MF_EACH_UNSIGNED(BIAS_ROWS, bias, PLUS)
MF_EACH_COMPLEX(BIAS_ROWS, bias, PLUS)

/* Signed integers add like unsigned ones. */
static void (*const rows_fn[MF_DTYPE_COUNT])(const bias_job *, int64_t, int64_t) = {
    MF_FN_FLOATS(bias),        MF_FN_UNSIGNED(bias),      MF_FN_COMPLEX(bias),
    [MF_DTYPE_I8] = bias_u8,   [MF_DTYPE_I16] = bias_u16, [MF_DTYPE_I32] = bias_u32,
    [MF_DTYPE_I64] = bias_u64,
};

static bool channels_first(const mf_node *node)
{
    return strcmp(mf_node_string(node, "data_format"), "NCHW") == 0;
}

/* Index of the channel dimension. Fails: INVALID_ARGUMENT. */
static mf_status channel_dim(const mf_node *node, const mf_shape *value, int *out)
{
    const int least = channels_first(node) ? 3 : 2;
    char text[MF_SHAPE_TEXT];

    if (value->rank < least)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input tensor must be at least %dD: %s", least,
                       mf_shape_text(value, text));
    *out = channels_first(node) ? 1 : value->rank - 1;
    return MF_OK;
}

static mf_status check_bias(const mf_node *node, const mf_shape *value, const mf_shape *bias,
                            int *channel)
{
    char vt[MF_SHAPE_TEXT], bt[MF_SHAPE_TEXT];

    *channel = -1;
    if (bias->rank >= 0 && bias->rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Biases must be 1D: %s", mf_shape_text(bias, bt));
    if (value->rank < 0)
        return MF_OK;
    MF_TRY(channel_dim(node, value, channel));
    if (bias->rank == 1 && bias->dims[0] >= 0 && value->dims[*channel] >= 0 &&
        bias->dims[0] != value->dims[*channel])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Must provide as many biases as the channel dimension of the input tensor: "
                       "%s vs. %s",
                       mf_shape_text(bias, bt), mf_shape_text(value, vt));
    return MF_OK;
}

static mf_status bias_infer(mf_infer *in)
{
    int channel = 0;

    MF_TRY(check_bias(in->node, &in->in[0], &in->in[1], &channel));
    in->out[0] = in->in[0];
    if (channel >= 0 && in->in[1].rank == 1 && in->out[0].dims[channel] < 0)
        in->out[0].dims[channel] = in->in[1].dims[0];
    return MF_OK;
}

static void bias_piece(void *ctx, int64_t piece)
{
    const bias_job *job = ctx;
    const int64_t from = piece * job->rows_per_piece, to = from + job->rows_per_piece;

    job->run(job, from, to < job->rows ? to : job->rows);
}

static mf_status bias_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    mf_tensor *out;
    bias_job job = { .run = rows_fn[x->dtype], .value = x->data, .bias = k->in[1]->data };
    int64_t row, pieces;
    int channel = 0;

    MF_TRY(check_bias(k->node, &x->shape, &k->in[1]->shape, &channel));
    if (!job.run)
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel for type %s", k->node->op_name,
                       mf_dtype_name(x->dtype));
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    if (out->count == 0)
        return MF_OK;
    job.out = out->data;
    job.channels = x->shape.dims[channel];
    job.inner = mf_shape_span(&x->shape, channel + 1, x->shape.rank);
    row = job.inner > 1 ? job.inner : job.channels;
    job.rows = out->count / row;
    job.rows_per_piece = row < GRAIN ? GRAIN / row : 1;
    pieces = (job.rows + job.rows_per_piece - 1) / job.rows_per_piece;
    return mf_kernel_parallel(k, pieces, bias_piece, &job);
}

static mf_status bias_grad(mf_grad *g)
{
    g->dx[0] = g->dy[0];
    g->dx[1] = mf_applyf(g->graph, "BiasAddGrad", MF_IN(g->dy[0]), "data_format='%s'",
                         channels_first(g->node) ? "NCHW" : "NHWC");
    return MF_OK;
}

/* ---- BiasAddGrad: the sum over all dimensions but the channels ---- */

static mf_status sum_infer(mf_infer *in)
{
    int channel = 0;

    in->out[0] = MF_SHAPE(-1);
    if (in->in[0].rank < 0)
        return MF_OK;
    MF_TRY(channel_dim(in->node, &in->in[0], &channel));
    in->out[0].dims[0] = in->in[0].dims[channel];
    return MF_OK;
}

static mf_status sum_floats(mf_kernel *k, const mf_channels *at, mf_tensor *out)
{
    mf_channel_sums s = { .x = k->in[0]->data };
    const double *sums;
    mf_status st;

    MF_TRY_TO(done, mf_channel_sums_init(&s, at));
    sums = mf_channel_sums_run(k, &s, MF_TERM_X);
    for (int64_t c = 0; c < s.channels; c++)
        ((float *)out->data)[c] = (float)sums[c];
done:
    mf_tensor_clear(&s.partial);
    return st;
}

static mf_status bias_sum_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    const bool complex_parts = mf_dtype_is_complex(x->dtype);
    const mf_dtype part = x->dtype == MF_DTYPE_C64    ? MF_DTYPE_F32
                          : x->dtype == MF_DTYPE_C128 ? MF_DTYPE_F64
                                                      : x->dtype;
    const mf_reduce_engine *fold = mf_reduce_engine_find(MF_REDUCE_ENGINE_SUM, part);
    const bool reduced[MF_MAX_RANK + 1] = { true, false, true, false };
    mf_tensor *out;
    mf_shape shape;
    int channel = 0;

    MF_TRY(channel_dim(k->node, &x->shape, &channel));
    if (!fold)
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel for type %s", k->node->op_name,
                       mf_dtype_name(x->dtype));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(x->shape.dims[channel]), &out));
    if (x->dtype == MF_DTYPE_F32 && channel == x->shape.rank - 1 && x->count > 0) {
        const mf_channels at = mf_channels_last(&x->shape);

        return sum_floats(k, &at, out);
    }
    shape = MF_SHAPE(mf_shape_span(&x->shape, 0, channel), x->shape.dims[channel],
                     mf_shape_span(&x->shape, channel + 1, x->shape.rank));
    if (complex_parts) /* a complex sum is two sums of the parts */
        shape.dims[shape.rank++] = 2;
    return mf_reduce_engine_run(fold, k->step->pool, &shape, reduced, mf_dtype_cell(part), x->data,
                                out->data);
}

/* The gradient of each channel is broadcast to all its positions. */
static mf_status bias_sum_grad(mf_grad *g)
{
    g->dx[0] = mf_applyf(g->graph, "BiasAdd", MF_IN(MF_G1("ZerosLike", g->x[0]), g->dy[0]),
                         "data_format='%s'", channels_first(g->node) ? "NCHW" : "NHWC");
    return MF_OK;
}

static int split_channel(const mf_split *s)
{
    return channels_first(s->node) ? 1 : s->in[0].rank - 1;
}

static void bias_split(mf_split *s)
{
    mf_split_leading(s, s->in[0].rank);
    if (s->in[1].rank == 1)
        mf_split_in(s, 1, 0, s->in_dims[0].dims[split_channel(s)].letter);
}

/* A sum over all dimensions except the channels. */
static void sum_split(mf_split *s)
{
    bool axes[MF_MAX_RANK];

    for (int d = 0; d < s->in[0].rank; d++)
        axes[d] = d != split_channel(s);
    mf_split_reduce(s, axes, false, MF_CUT_SUM);
    s->additive = 1;
}

const mf_op mf_ops_bias[] = {
    { .name = "BiasAdd",
      .rows = mf_rows_first,
      .def = "(value:T, bias:T) -> (output:T) {T:type in numbers, data_format:string='NHWC' in "
             "['NHWC','NCHW']}",
      .flags = MF_OP_INPLACE,
      .infer = bias_infer,
      .grad = bias_grad,
      .run = bias_run,
      .split = bias_split,
      .samples =
          MF_SAMPLES("f32[3,5] f32[5]", "f32[2,3,4,5] f32[3] ; data_format='NCHW'",
                     "f64[2,3,5] f64[5]", "f16[2,5] f16[5]", "bf16[2,3,2,2] bf16[2]",
                     "i32[2,3] i32[3]", "i8[2,3] i8[3]", "c64[2,3] c64[3]", "f32[0,5] f32[5]",
                     "f32[5000,7] f32[7] !nograd", "f32[2,5] f32[4] !fails", "f32[5] f32[5] !fails",
                     "f32[2,5] f32[1,5] !fails", "f32[2,5] f32[5] ; data_format='NCHW' !fails") },
    { .name = "BiasAddV1",
      .def = "(value:T, bias:T) -> (output:T) {T:type in numbers}",
      .flags = MF_OP_INPLACE,
      .infer = bias_infer,
      .grad = bias_grad,
      .run = bias_run,
      .split = bias_split,
      .samples = MF_SAMPLES("f32[3,5] f32[5]", "f64[2,3,5] f64[5]", "i32[2,3] i32[3]",
                            "f32[2,5] f32[4] !fails") },
    { .name = "BiasAddGrad",
      .def = "(out_backprop:T) -> (output:T) {T:type in numbers, data_format:string='NHWC' in "
             "['NHWC','NCHW']}",
      .infer = sum_infer,
      .grad = bias_sum_grad,
      .run = bias_sum_run,
      .split = sum_split,
      .samples = MF_SAMPLES("f32[3,5]", "f32[2,3,4,5] ; data_format='NCHW'", "f64[2,3,5]",
                            "f16[2,5]", "bf16[2,3,2,2] !notf",
                            /* TensorFlow adds up in bfloat16 */ "i32[2,3]", "c64[2,3]", "f32[0,5]",
                            "f32[3000,7] !nograd", "f32[5] !fails") },
    { 0 },
};
