/* SPDX-License-Identifier: Apache-2.0 */
/* depthwise.c - depthwise convolutions and their gradients.
 *
 * input[batch][height][width][channels], filter[height][width][channels][multiplier], output
 * channel = channel * multiplier + m. Loops run over channels, so they vectorise if multiplier is
 * 1. */
#include "base/mem.h"
#include "graph/rows.h"
#include "ops/control/grad_util.h"
#include "ops/nn/window.h"
#include "ops/nn/window_grad.h"
#include "ops/nn/window_split.h"
#include "ops/quant/widen.h"

enum { MAX_PIECES = 16, GRAIN = 65536 };

typedef enum depth_kind { DEPTH_FORWARD, DEPTH_INPUT, DEPTH_FILTER } depth_kind;

typedef struct depth_job {
    depth_kind kind;
    mf_dtype type;
    mf_window w;
    int64_t multiplier;
    const void *x, *f, *y; /* input, filter, output; the result is written through `out` */
    void *out;
    int64_t per_piece, pieces; /* images */
    int64_t filter_count;
} depth_job;

static depth_kind depthwise_kind_of(const mf_node *node)
{
    if (strstr(node->op_name, "BackpropInput"))
        return DEPTH_INPUT;
    return strstr(node->op_name, "BackpropFilter") ? DEPTH_FILTER : DEPTH_FORWARD;
}

static mf_status depthwise_depth_prepare(mf_prepare *p)
{
    mf_window_attrs *a = MF_ARENA_NEW(p->arena, mf_window_attrs);

    if (!a)
        return MF_NOMEM("a convolution");
    MF_TRY(mf_window_read(p->node, 2, a));
    if (a->channels_first)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "Depthwise convolution on CPU is only supported for NHWC format");
    p->state = a;
    return MF_OK;
}

/* ---- loops: one tap at one output position, all channels ---- */

#define DEPTH_LOOPS(S, T)                                                                          \
    static void tap_##S(const depth_job *job, const T *x, const T *f, const T *y, T *out)          \
    {                                                                                              \
        const int64_t channels = job->w.channels, m = job->multiplier;                             \
                                                                                                   \
        if (job->kind == DEPTH_FORWARD && m == 1) {                                                \
            for (int64_t c = 0; c < channels; c++)                                                 \
                out[c] += x[c] * f[c];                                                             \
        } else if (job->kind == DEPTH_FORWARD) {                                                   \
            for (int64_t c = 0; c < channels; c++)                                                 \
                for (int64_t i = 0; i < m; i++)                                                    \
                    out[c * m + i] += x[c] * f[c * m + i];                                         \
        } else if (job->kind == DEPTH_INPUT && m == 1) {                                           \
            for (int64_t c = 0; c < channels; c++)                                                 \
                out[c] += y[c] * f[c];                                                             \
        } else if (job->kind == DEPTH_INPUT) {                                                     \
            for (int64_t c = 0; c < channels; c++)                                                 \
                for (int64_t i = 0; i < m; i++)                                                    \
                    out[c] += y[c * m + i] * f[c * m + i];                                         \
        } else if (m == 1) {                                                                       \
            for (int64_t c = 0; c < channels; c++)                                                 \
                out[c] += x[c] * y[c];                                                             \
        } else {                                                                                   \
            for (int64_t c = 0; c < channels; c++)                                                 \
                for (int64_t i = 0; i < m; i++)                                                    \
                    out[c * m + i] += x[c] * y[c * m + i];                                         \
        }                                                                                          \
    }                                                                                              \
    static void position_##S(const depth_job *job, int64_t n, int64_t oh, int64_t ow, T *filter)   \
    {                                                                                              \
        const mf_window *w = &job->w;                                                              \
        const int64_t ch = w->channels, oc = ch * job->multiplier;                                 \
        const int64_t y_at = ((n * w->out[0] + oh) * w->out[1] + ow) * oc;                         \
        const T *y = job->y ? (const T *)job->y + y_at : NULL;                                     \
                                                                                                   \
        for (int64_t kh = 0; kh < w->size[0]; kh++) {                                              \
            const int64_t ih = oh * w->stride[0] - w->pad_lo[0] + kh * w->dilation[0];             \
                                                                                                   \
            for (int64_t kw = 0; ih >= 0 && ih < w->in[0] && kw < w->size[1]; kw++) {              \
                const int64_t iw = ow * w->stride[1] - w->pad_lo[1] + kw * w->dilation[1];         \
                const int64_t x_at = ((n * w->in[0] + ih) * w->in[1] + iw) * ch;                   \
                const int64_t f_at = (kh * w->size[1] + kw) * oc;                                  \
                T *out = job->kind == DEPTH_FORWARD ? (T *)job->out + y_at                         \
                         : job->kind == DEPTH_INPUT ? (T *)job->out + x_at                         \
                                                    : filter + f_at;                               \
                                                                                                   \
                if (iw >= 0 && iw < w->in[1])                                                      \
                    tap_##S(job, job->x ? (const T *)job->x + x_at : NULL,                         \
                            job->f ? (const T *)job->f + f_at : NULL, y, out);                     \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void images_##S(const depth_job *job, int64_t piece)                                    \
    {                                                                                              \
        const mf_window *w = &job->w;                                                              \
        const int64_t from = piece * job->per_piece;                                               \
        const int64_t to = from + job->per_piece < w->batch ? from + job->per_piece : w->batch;    \
        const int64_t image = job->kind == DEPTH_FORWARD                                           \
                                  ? w->out[0] * w->out[1] * w->channels * job->multiplier          \
                                  : w->in[0] * w->in[1] * w->channels;                             \
        const bool filter = job->kind == DEPTH_FILTER;                                             \
        T *out = (T *)job->out + (filter ? piece * job->filter_count : from * image);              \
                                                                                                   \
        memset(out, 0, (size_t)(filter ? job->filter_count : (to - from) * image) * sizeof(T));    \
        for (int64_t n = from; n < to; n++)                                                        \
            for (int64_t oh = 0; oh < w->out[0]; oh++)                                             \
                for (int64_t ow = 0; ow < w->out[1]; ow++)                                         \
                    position_##S(job, n, oh, ow, filter ? out : NULL);                             \
    }                                                                                              \
    static void sum_##S(const depth_job *job, const T *partial, T *out)                            \
    {                                                                                              \
        memcpy(out, partial, (size_t)job->filter_count * sizeof(T));                               \
        for (int64_t p = 1; p < job->pieces; p++)                                                  \
            for (int64_t i = 0; i < job->filter_count; i++)                                        \
                out[i] += partial[p * job->filter_count + i];                                      \
    }
DEPTH_LOOPS(f32, float)
DEPTH_LOOPS(f64, double)

static void depth_piece(void *ctx, int64_t piece)
{
    const depth_job *job = ctx;

    if (job->type == MF_DTYPE_F32)
        images_f32(job, piece);
    else
        images_f64(job, piece);
}

static void depthwise_cut(depth_job *job)
{
    const double work = (double)(job->w.out[0] * job->w.out[1]) * (double)job->filter_count;

    job->per_piece = work < GRAIN ? (int64_t)(GRAIN / (work + 1)) + 1 : 1;
    if (job->per_piece * MAX_PIECES < job->w.batch)
        job->per_piece = (job->w.batch + MAX_PIECES - 1) / MAX_PIECES;
    job->pieces = (job->w.batch + job->per_piece - 1) / job->per_piece;
}

/* operand: input, filter, output; `result` is the one to compute. */
static mf_status depth_compute(const mf_kernel *k, depth_job *job, mf_tensor *operand, int result)
{
    mf_tensor partial = { 0 };
    mf_tensor *out = &operand[result];
    mf_status st;
    const bool filter = job->kind == DEPTH_FILTER;
    const bool empty = operand[0].count == 0 || operand[1].count == 0 || operand[2].count == 0;

    if (empty) {
        memset(out->data, 0, (size_t)out->count * mf_dtype_cell(out->dtype));
        return MF_OK;
    }
    job->type = out->dtype;
    job->filter_count = operand[1].count;
    job->x = result == 0 ? NULL : operand[0].data;
    job->f = result == 1 ? NULL : operand[1].data;
    job->y = result == 2 ? NULL : operand[2].data;
    job->out = out->data;
    depthwise_cut(job);
    if (filter) {
        MF_TRY(mf_tensor_alloc(&partial, out->dtype, &MF_SHAPE(job->pieces, job->filter_count)));
        job->out = partial.data;
    }
    st = mf_kernel_parallel(k, job->pieces, depth_piece, job);
    if (st == MF_OK && filter && job->type == MF_DTYPE_F32)
        sum_f32(job, partial.data, out->data);
    else if (st == MF_OK && filter)
        sum_f64(job, partial.data, out->data);
    mf_tensor_clear(&partial);
    return st;
}

/* ---- shapes ---- */

static mf_status depthwise_check_rank(const mf_shape *s, const char *what)
{
    char text[MF_SHAPE_TEXT];

    if (s->rank >= 0 && s->rank != 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be 4-dimensional: %s", what,
                       mf_shape_text(s, text));
    return MF_OK;
}

static mf_status depthwise_output_shape(const mf_window_attrs *a, const mf_shape *x,
                                        const mf_shape *f, mf_shape *out)
{
    const int64_t channels = x->dims[mf_window_axis(a, 3)];
    int64_t spatial[2], lo, hi, out_channels = -1;

    if (channels >= 0 && f->dims[2] >= 0 && channels != f->dims[2])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "input and filter must have the same depth: %lld vs %lld",
                       (long long)channels, (long long)f->dims[2]);
    if (f->dims[2] >= 0 && f->dims[3] >= 0 && !mf_mul_i64(f->dims[2], f->dims[3], &out_channels))
        return MF_FAIL(MF_INVALID_ARGUMENT, "too many output channels");
    for (int d = 0; d < 2; d++)
        MF_TRY(mf_window_length(a, d, x->dims[mf_window_axis(a, d + 1)], f->dims[d], &spatial[d],
                                &lo, &hi));
    *out = mf_window_shape(a, x->dims[0], spatial, out_channels);
    return MF_OK;
}

static mf_status depthwise_depth_infer(mf_infer *in)
{
    mf_window_attrs a;

    MF_TRY(mf_window_read(in->node, 2, &a));
    MF_TRY(depthwise_check_rank(&in->in[0], "input"));
    MF_TRY(depthwise_check_rank(&in->in[1], "filter"));
    if (in->in[0].rank < 0 || in->in[1].rank < 0) {
        in->out[0] = MF_SHAPE(-1, -1, -1, -1);
        return MF_OK;
    }
    return depthwise_output_shape(&a, &in->in[0], &in->in[1], &in->out[0]);
}

static mf_status depthwise_backprop_infer(mf_infer *in)
{
    mf_window_attrs a;

    MF_TRY(mf_window_read(in->node, 2, &a));
    MF_TRY(
        mf_infer_shape_input(in, depthwise_kind_of(in->node) == DEPTH_INPUT ? 0 : 1, &in->out[0]));
    return depthwise_check_rank(&in->out[0], "the shape given");
}

static mf_status depthwise_read_sizes(const mf_tensor *sizes, mf_shape *out)
{
    int64_t dims[4], count;

    if (sizes->shape.rank != 1 || sizes->count != 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the sizes must be a vector of 4 integers");
    for (int i = 0; i < 4; i++)
        dims[i] = mf_tensor_int_at(sizes, i);
    MF_TRY(mf_shape_from_dims(dims, 4, out));
    return mf_shape_count(out, &count);
}

/* ---- kernels ---- */

static mf_status depthwise_depth_run(mf_kernel *k)
{
    const mf_window_attrs *a = k->state;
    const depth_kind kind = depthwise_kind_of(k->node);
    const int result = kind == DEPTH_FORWARD ? 2 : kind == DEPTH_INPUT ? 0 : 1;
    const mf_tensor *given[3] = { k->in[0], k->in[1], kind == DEPTH_FORWARD ? NULL : k->in[2] };
    depth_job job = { .kind = kind };
    mf_shape shape[3], expected;
    mf_tensor wide[3] = { { 0 } }, *out;
    char got[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];
    mf_status st = MF_OK;

    for (int i = 0; i < (kind == DEPTH_FORWARD ? 2 : 3); i++)
        shape[i] = given[i]->shape;
    if (kind != DEPTH_FORWARD)
        MF_TRY(depthwise_read_sizes(given[result], &shape[result]));
    MF_TRY(depthwise_check_rank(&shape[0], "input"));
    MF_TRY(depthwise_check_rank(&shape[1], "filter"));
    MF_TRY(depthwise_output_shape(a, &shape[0], &shape[1], &expected));
    if (kind == DEPTH_FORWARD)
        shape[2] = expected;
    if (!mf_shape_equal(&shape[2], &expected))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Size of out_backprop doesn't match computed: actual = %s, computed = %s",
                       mf_shape_text(&shape[2], got), mf_shape_text(&expected, want));
    MF_TRY(mf_window_init(a, &shape[0], shape[1].dims, &job.w));
    job.multiplier = shape[1].dims[3];
    MF_TRY(mf_kernel_out(k, 0, &shape[result], &out));
    for (int i = 0; i < 3; i++) {
        if (i == result)
            MF_TRY_TO(done, mf_widen_out(out, &wide[i]));
        else
            MF_TRY_TO(done, mf_widen(k, given[i], &wide[i]));
    }
    MF_TRY_TO(done, depth_compute(k, &job, wide, result));
    mf_narrow(k, &wide[result], out);
done:
    for (int i = 0; i < 3; i++)
        mf_tensor_clear(&wide[i]);
    return st;
}

/* ---- gradients ---- */

#define FORWARD "DepthwiseConv2dNative"
#define INPUT "DepthwiseConv2dNativeBackpropInput"
#define FILTER "DepthwiseConv2dNativeBackpropFilter"

static mf_status depthwise_depth_grad(mf_grad *g)
{
    g->dx[0] = mf_window_apply(g, INPUT, MF_IN(MF_G1("Shape", g->x[0]), g->x[1], g->dy[0]));
    g->dx[1] = mf_window_apply(g, FILTER, MF_IN(g->x[0], MF_G1("Shape", g->x[1]), g->dy[0]));
    return MF_OK;
}

static mf_status depthwise_input_grad(mf_grad *g)
{
    g->dx[1] = mf_window_apply(g, FILTER, MF_IN(g->dy[0], MF_G1("Shape", g->x[1]), g->x[2]));
    g->dx[2] = mf_window_apply(g, FORWARD, MF_IN(g->dy[0], g->x[1]));
    return MF_OK;
}

static mf_status depthwise_filter_grad(mf_grad *g)
{
    g->dx[0] = mf_window_apply(g, INPUT, MF_IN(MF_G1("Shape", g->x[0]), g->dy[0], g->x[2]));
    g->dx[2] = mf_window_apply(g, FORWARD, MF_IN(g->x[0], g->dy[0]));
    return MF_OK;
}

#define ATTRS                                                                                      \
    " {T:type in floats, strides:list(int), padding:string in ['SAME','VALID','EXPLICIT'], "       \
    "explicit_paddings:list(int)=[], data_format:string='NHWC' in ['NHWC','NCHW'], "               \
    "dilations:list(int)=[1,1,1,1]}"
#define DEPTH_OP(ROWS, NAME, DEF, INFER, GRAD, ...)                                                \
    {                                                                                              \
        .name = NAME, .rows = ROWS, .def = DEF ATTRS, .infer = INFER, .grad = GRAD,                \
        .prepare = depthwise_depth_prepare, .run = depthwise_depth_run, .split = mf_conv_split,    \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_depthwise[] = {
    DEPTH_OP(mf_rows_first, "DepthwiseConv2dNative", "(input:T, filter:T) -> (output:T)",
             depthwise_depth_infer, depthwise_depth_grad,
             "f32[2,5,6,3] f32[3,3,3,1] ; strides=[1,1,1,1] padding='SAME'",
             "f32[1,5,6,3] f32[3,2,3,2] ; strides=[1,2,2,1] padding='VALID'",
             "f32[1,5,6,2] f32[3,3,2,1] ; strides=[1,1,1,1] padding='EXPLICIT' "
             "explicit_paddings=[0,0,1,2,0,1,0,0]",
             "f64[1,5,6,3] f64[2,2,3,2] ; strides=[1,1,1,1] padding='SAME'",
             "f16[1,4,4,2] f16[3,3,2,1] ; strides=[1,1,1,1] padding='SAME'",
             "bf16[1,4,4,2] bf16[3,3,2,1] ; strides=[1,1,1,1] padding='SAME'",
             "f32[40,9,9,16] f32[3,3,16,1] ; strides=[1,1,1,1] padding='SAME' !nograd",
             "f32[0,5,6,3] f32[3,3,3,1] ; strides=[1,1,1,1] padding='SAME'",
             "f32[3,9,8,4] f32[4,3,4,2] ; strides=[1,2,2,1] padding='SAME' !nograd",
             "f32[1,5,6,3] f32[3,3,2,1] ; strides=[1,1,1,1] padding='SAME' !fails"),
    DEPTH_OP(mf_rows_last, "DepthwiseConv2dNativeBackpropInput",
             "(input_sizes:int32, filter:T, out_backprop:T) -> (output:T)",
             depthwise_backprop_infer, depthwise_input_grad,
             "i32[4]{2,5,6,3} f32[3,3,3,1] f32[2,5,6,3] ; strides=[1,1,1,1] padding='SAME'",
             "i32[4]{1,5,6,3} f64[3,2,3,2] f64[1,2,3,6] ; strides=[1,2,2,1] padding='VALID'",
             "i32[4]{3,8,6,4} f32[4,3,4,2] f32[3,4,3,8] ; strides=[1,2,2,1] padding='SAME' !nograd",
             "i32[4]{2,5,6,3} f32[3,3,3,1] f32[2,5,5,3] ; strides=[1,1,1,1] padding='SAME' !fails"),
    DEPTH_OP(NULL, "DepthwiseConv2dNativeBackpropFilter",
             "(input:T, filter_sizes:int32, out_backprop:T) -> (output:T)",
             depthwise_backprop_infer, depthwise_filter_grad,
             "f32[2,5,6,3] i32[4]{3,3,3,1} f32[2,5,6,3] ; strides=[1,1,1,1] padding='SAME'",
             "f64[1,5,6,3] i32[4]{3,2,3,2} f64[1,2,3,6] ; strides=[1,2,2,1] padding='VALID'",
             "f32[3,8,6,4] i32[4]{4,3,4,2} f32[3,4,3,8] ; strides=[1,2,2,1] padding='SAME' !nograd",
             "f32[60,5,6,30] i32[4]{3,3,30,1} f32[60,5,6,30] ; strides=[1,1,1,1] padding='SAME' "
             "!nograd !tol:1e-3",
             "f32[2,5,6,3] i32[4]{3,3,3,1} f32[2,5,5,3] ; strides=[1,1,1,1] padding='SAME' !fails"),
    { 0 },
};
