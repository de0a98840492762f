/* SPDX-License-Identifier: Apache-2.0 */
/* pooling.c - maximum and average pooling, and their gradients. */
#include "base/mem.h"
#include "graph/rows.h"
#include "ops/array/strided_copy.h"
#include "ops/control/grad_util.h"
#include "ops/math/fused.h"
#include "ops/nn/pooling_run.h"
#include "ops/nn/window_grad.h"
#include "ops/nn/window_split.h"
#include "ops/quant/widen.h"

#include <string.h>

static mf_status pooling_pool_prepare(mf_prepare *p)
{
    mf_window_attrs *a = MF_ARENA_NEW(p->arena, mf_window_attrs);

    if (!a)
        return MF_NOMEM("a pooling");
    MF_TRY(mf_window_read(p->node, 2, a));
    p->state = a;
    return MF_OK;
}

/* ---- shapes ---- */

/* Channels of the output; windows over channels have restrictions. */
static mf_status out_channels(const mf_window_attrs *a, const char *op, int64_t channels,
                              int64_t *out)
{
    *out = channels;
    if (a->channel_size == 1) /* whatever the stride */
        return MF_OK;
    if (strncmp(op, "Avg", 3) == 0 || a->channels_first || a->size[0] != 1 || a->size[1] != 1 ||
        a->stride[0] != 1 || a->stride[1] != 1)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "%s supports exactly one of pooling across depth or "
                       "pooling across width/height.",
                       op);
    if (a->channel_size != a->channel_stride)
        return MF_FAIL(MF_UNIMPLEMENTED, "Depthwise max pooling requires the depth window to equal "
                                         "the depth stride.");
    if (channels >= 0 && channels % a->channel_size != 0)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "Depthwise max pooling requires the depth window to evenly "
                       "divide the input depth.");
    *out = channels < 0 ? -1 : channels / a->channel_size;
    return MF_OK;
}

static mf_status pooling_pooled_shape(const mf_window_attrs *a, const char *op, const mf_shape *in,
                                      mf_shape *out)
{
    int64_t spatial[MF_WINDOW_DIMS], channels = -1, lo, hi;
    char text[MF_SHAPE_TEXT];

    if (in->rank >= 0 && in->rank != 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "tensor_in must be 4-dimensional: %s",
                       mf_shape_text(in, text));
    if (in->rank < 0) {
        *out = MF_SHAPE(-1, -1, -1, -1);
        return MF_OK;
    }
    MF_TRY(out_channels(a, op, in->dims[mf_window_axis(a, 3)], &channels));
    for (int d = 0; d < 2; d++)
        MF_TRY(mf_window_length(a, d, in->dims[mf_window_axis(a, d + 1)], a->size[d], &spatial[d],
                                &lo, &hi));
    *out = mf_window_shape(a, in->dims[0], spatial, channels);
    return MF_OK;
}

/* ksize and strides as inputs; false if their values are unknown. */
static mf_status pooling_read_inputs(mf_window_attrs *a, const mf_tensor *ksize,
                                     const mf_tensor *strides)
{
    int64_t values[2][4];
    const mf_tensor *const in[2] = { ksize, strides };

    for (int i = 0; i < 2; i++) {
        if (in[i]->count != 4 || in[i]->shape.rank != 1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Sliding window %s field must specify 4 dimensions",
                           i ? "stride" : "ksize");
        for (int d = 0; d < 4; d++)
            values[i][d] = mf_tensor_int_at(in[i], d);
    }
    return mf_window_set_pool(a, values[0], values[1]);
}

static mf_status pooling_pool_infer(mf_infer *in)
{
    mf_window_attrs a;

    MF_TRY(mf_window_read(in->node, 2, &a));
    if (in->n_in == 3) { /* MaxPoolV2 */
        if (!in->in_value[1] || !in->in_value[2]) {
            in->out[0] = MF_SHAPE(-1, -1, -1, -1);
            return MF_OK;
        }
        MF_TRY(pooling_read_inputs(&a, in->in_value[1], in->in_value[2]));
    }
    MF_TRY(pooling_pooled_shape(&a, in->node->op_name, &in->in[0], &in->out[0]));
    if (in->n_out == 2)
        in->out[1] = in->out[0];
    return MF_OK;
}

/* MaxPoolGradGrad, MaxPoolGradGradV2. */
static bool is_second(const mf_node *node)
{
    return strncmp(node->op_name, "MaxPoolGradGrad", strlen("MaxPoolGradGrad")) == 0;
}

/* The shape of an image (of rank 4) without the cropped rows around a shard; unknown sizes are
 * kept. */
static mf_status without_crop(const mf_window_attrs *a, const mf_shape *image, mf_shape *out)
{
    *out = *image;
    for (int d = 0; d < a->nd && image->rank == 4; d++) {
        int64_t *size = &out->dims[mf_window_axis(a, d + 1)];

        if (*size >= 0 && *size < a->crop_lo[d] + a->crop_hi[d])
            return MF_FAIL(MF_INVALID_ARGUMENT, "cannot crop %lld rows from %lld",
                           (long long)(a->crop_lo[d] + a->crop_hi[d]), (long long)*size);
        *size -= *size >= 0 ? a->crop_lo[d] + a->crop_hi[d] : 0;
    }
    return MF_OK;
}

/* Gradients: the shape of the pooling's input, or (GradGrad) output. */
static mf_status pooling_grad_infer(mf_infer *in)
{
    mf_window_attrs a;

    MF_TRY(mf_window_read(in->node, 2, &a));
    in->out[0] = in->in[1];
    return is_second(in->node) ? MF_OK : without_crop(&a, &in->in[0], &in->out[0]);
}

static mf_status avg_grad_infer(mf_infer *in)
{
    mf_window_attrs a;

    MF_TRY(mf_window_read(in->node, 2, &a));
    return mf_infer_shape_input(in, 0, &in->out[0]);
}

/* The window over an input of this shape, and the output's shape. */
static mf_status pool_window(const mf_kernel *k, const mf_window_attrs *a, const mf_shape *in,
                             mf_window *w, mf_shape *out)
{
    int64_t count;

    MF_TRY(pooling_pooled_shape(a, k->node->op_name, in, out));
    MF_TRY(mf_shape_count(out, &count));
    MF_TRY(mf_window_init(a, in, a->size, w));
    mf_pool_normalise(a, w);
    return MF_OK;
}

static mf_status pooling_check_shape(const char *what, const mf_shape *got, const mf_shape *want)
{
    char g[MF_SHAPE_TEXT], w[MF_SHAPE_TEXT];

    if (mf_shape_equal(got, want))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "Expected %s shape to be %s, but got %s", what,
                   mf_shape_text(want, w), mf_shape_text(got, g));
}

/* ---- kernels ---- */

/* MaxPool, MaxPoolV2, MaxPoolWithArgmax, AvgPool. */
static mf_status pooling_pool_run(mf_kernel *k)
{
    mf_window_attrs a = *(const mf_window_attrs *)k->state;
    const bool average = k->node->op_name[0] == 'A';
    mf_pooling p = { .kind = average ? MF_POOL_AVG : k->n_out == 2 ? MF_POOL_ARGMAX : MF_POOL_MAX };
    mf_tensor x = { 0 }, y = { 0 }, *out, *arg = NULL;
    char text[MF_SHAPE_TEXT];
    mf_shape shape;
    mf_status st;

    if (k->n_in == 3)
        MF_TRY(pooling_read_inputs(&a, k->in[1], k->in[2]));
    MF_TRY(pool_window(k, &a, &k->in[0]->shape, &p.w, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (k->n_out == 2) {
        if (k->in[0]->count == 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "tensor_in must not be empty: %s",
                           mf_shape_text(&k->in[0]->shape, text));
        MF_TRY(mf_kernel_out(k, 1, &shape, &arg));
        p.arg = arg->data;
        p.arg_type = arg->dtype;
        p.batch_in_index = mf_node_bool(k->node, "include_batch_in_index");
    }
    if (p.kind == MF_POOL_MAX) { /* needs no wider type */
        mf_tensor_set(&x, k->in[0]);
        mf_tensor_set(&y, out);
    } else {
        MF_TRY_TO(done, mf_widen(k, k->in[0], &x));
        MF_TRY_TO(done, mf_widen_out(out, &y));
    }
    p.type = x.dtype;
    p.x = x.data;
    p.y = y.data;
    MF_TRY_TO(done, mf_pooling_run(k, &p));
    if (p.kind != MF_POOL_MAX)
        mf_narrow(k, &y, out);
done:
    mf_tensor_clear(&x);
    mf_tensor_clear(&y);
    return st;
}

static bool is_cropped(const mf_window_attrs *a)
{
    return a->crop_lo[0] || a->crop_hi[0] || a->crop_lo[1] || a->crop_hi[1];
}

/* Allocates the gradient of an image in the type of the computation; `out` receives the part that
 * is not cropped. */
static mf_status image_grad_begin(const mf_window_attrs *a, const mf_shape *image,
                                  const mf_tensor *out, mf_tensor *dx)
{
    if (!is_cropped(a))
        return mf_widen_out(out, dx);
    return mf_tensor_alloc(dx, mf_is_half(out->dtype) ? MF_DTYPE_F32 : out->dtype, image);
}

static mf_status image_grad_end(const mf_kernel *k, const mf_window_attrs *a, const mf_tensor *dx,
                                mf_tensor *out)
{
    mf_strided_copy move = { .dtype = dx->dtype };
    int64_t from[MF_MAX_RANK], to[MF_MAX_RANK], at = 0;
    mf_tensor part = { 0 };
    mf_status st;

    if (!is_cropped(a)) {
        mf_narrow(k, dx, out);
        return MF_OK;
    }
    MF_TRY(mf_widen_out(out, &part));
    mf_strides_of(&dx->shape, from);
    mf_strides_of(&part.shape, to);
    for (int d = 0; d < 2; d++)
        at += a->crop_lo[d] * from[mf_window_axis(a, d + 1)];
    for (int d = 0; d < 4; d++)
        mf_strided_copy_add(&move, part.shape.dims[d], to[d], from[d]);
    move.src = mf_cell_at(dx->dtype, dx->data, at);
    move.dst = part.data;
    st = part.count > 0 ? mf_strided_copy_run(k->step->pool, &move) : MF_OK;
    if (st == MF_OK)
        mf_narrow(k, &part, out);
    mf_tensor_clear(&part);
    return st;
}

/* MaxPoolGrad, MaxPoolGradGrad and their V2: (x, y, gradient) -> the other gradient. */
static mf_status pooling_max_grad_run(mf_kernel *k)
{
    mf_window_attrs a = *(const mf_window_attrs *)k->state;
    const bool second = is_second(k->node);
    const mf_shape *in = &k->in[0]->shape;
    mf_pooling p = { .kind = second ? MF_POOL_MAX_GRAD2 : MF_POOL_MAX_GRAD };
    mf_tensor x = { 0 }, given = { 0 }, result = { 0 }, *out;
    mf_shape shape, part;
    mf_status st;

    if (k->n_in == 5)
        MF_TRY(pooling_read_inputs(&a, k->in[3], k->in[4]));
    MF_TRY(pool_window(k, &a, in, &p.w, &shape));
    MF_TRY(pooling_check_shape("orig_output", &k->in[1]->shape, &shape));
    MF_TRY(pooling_check_shape("grad", &k->in[2]->shape, second ? in : &shape));
    MF_TRY(without_crop(&a, in, &part));
    MF_TRY(mf_kernel_out(k, 0, second ? &shape : &part, &out));
    MF_TRY_TO(done, mf_widen(k, k->in[0], &x));
    MF_TRY_TO(done, mf_widen(k, k->in[2], &given));
    MF_TRY_TO(done, second ? mf_widen_out(out, &result) : image_grad_begin(&a, in, out, &result));
    p.type = x.dtype;
    p.x = x.data;
    p.dy = second ? NULL : given.data;
    p.dx = second ? given.data : result.data;
    p.y = second ? result.data : NULL;
    p.then = is_cropped(&a) ? NULL : k->then;
    MF_TRY_TO(done, mf_pooling_run(k, &p));
    if (second)
        mf_narrow(k, &result, out);
    else
        st = image_grad_end(k, &a, &result, out);
    if (st == MF_OK && k->then && is_cropped(&a) && out->count > 0)
        k->then->run(k->then, 0, out->count);
done:
    mf_tensor_clear(&x);
    mf_tensor_clear(&given);
    mf_tensor_clear(&result);
    return st;
}

static mf_status pooling_avg_grad_run(mf_kernel *k)
{
    const mf_window_attrs *a = k->state;
    const mf_tensor *sizes = k->in[0];
    mf_pooling p = { .kind = MF_POOL_AVG_GRAD };
    mf_tensor dy = { 0 }, dx = { 0 }, *out;
    int64_t dims[4], count;
    mf_shape in, part, shape;
    mf_status st;

    if (sizes->shape.rank != 1 || sizes->count != 4)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "orig_input_shape must be 1-dimensional and 4 elements");
    for (int d = 0; d < 4; d++)
        dims[d] = mf_tensor_int_at(sizes, d);
    MF_TRY(mf_shape_from_dims(dims, 4, &part));
    in = part;
    for (int d = 0; d < 2; d++) {
        int64_t *size = &in.dims[mf_window_axis(a, d + 1)];

        if (!mf_add_i64(*size, a->crop_lo[d] + a->crop_hi[d], size))
            return MF_FAIL(MF_INVALID_ARGUMENT, "too many rows");
    }
    MF_TRY(mf_shape_count(&in, &count));
    MF_TRY(pool_window(k, a, &in, &p.w, &shape));
    MF_TRY(pooling_check_shape("grad", &k->in[1]->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &part, &out));
    MF_TRY_TO(done, mf_widen(k, k->in[1], &dy));
    MF_TRY_TO(done, image_grad_begin(a, &in, out, &dx));
    p.type = dy.dtype;
    p.dy = dy.data;
    p.dx = dx.data;
    MF_TRY_TO(done, mf_pooling_run(k, &p));
    st = image_grad_end(k, a, &dx, out);
done:
    mf_tensor_clear(&dy);
    mf_tensor_clear(&dx);
    return st;
}

/* dx[argmax] += dy, in the order of the outputs. */
static mf_status argmax_grad_run(mf_kernel *k)
{
    const mf_window_attrs *a = k->state;
    const mf_tensor *arg = k->in[2];
    const mf_shape *in = &k->in[0]->shape;
    const bool whole = mf_node_bool(k->node, "include_batch_in_index");
    mf_tensor dy = { 0 }, dx = { 0 }, *out;
    int64_t per_image, in_image;
    mf_shape shape;
    mf_window w;
    mf_status st;

    MF_TRY(pool_window(k, a, in, &w, &shape));
    MF_TRY(pooling_check_shape("grad", &k->in[1]->shape, &shape));
    MF_TRY(pooling_check_shape("argmax", &arg->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, in, &out));
    MF_TRY_TO(done, mf_widen(k, k->in[1], &dy));
    MF_TRY_TO(done, mf_widen_out(out, &dx));
    memset(dx.data, 0, (size_t)dx.count * mf_dtype_cell(dx.dtype));
    per_image = shape.dims[0] ? arg->count / shape.dims[0] : 0;
    in_image = in->dims[0] ? dx.count / in->dims[0] : 0;
    for (int64_t i = 0; i < arg->count; i++) {
        const int64_t base = whole || per_image == 0 ? 0 : i / per_image * in_image;
        const int64_t limit = whole ? dx.count : in_image, at = mf_tensor_int_at(arg, i);

        if (at < 0 || at >= limit) {
            st = MF_FAIL(MF_INVALID_ARGUMENT, "argmax[%lld] = %lld is not in [0, %lld)",
                         (long long)i, (long long)at, (long long)limit);
            goto done;
        }
        if (dx.dtype == MF_DTYPE_F32)
            ((float *)dx.data)[base + at] += ((const float *)dy.data)[i];
        else
            mf_tensor_put(&dx, base + at,
                          mf_tensor_float_at(&dx, base + at) + mf_tensor_float_at(&dy, i));
    }
    mf_narrow(k, &dx, out);
done:
    mf_tensor_clear(&dy);
    mf_tensor_clear(&dx);
    return st;
}

/* ---- gradients ---- */

static mf_status pooling_max_grad(mf_grad *g)
{
    if (g->n_in == 3)
        g->dx[0] = mf_window_apply(g, "MaxPoolGradV2",
                                   MF_IN(g->x[0], g->y[0], g->dy[0], g->x[1], g->x[2]));
    else
        g->dx[0] = mf_window_apply(g, "MaxPoolGrad", MF_IN(g->x[0], g->y[0], g->dy[0]));
    return MF_OK;
}

static mf_status pooling_max_grad_grad(mf_grad *g)
{
    if (g->n_in == 5)
        g->dx[2] = mf_window_apply(g, "MaxPoolGradGradV2",
                                   MF_IN(g->x[0], g->x[1], g->dy[0], g->x[3], g->x[4]));
    else
        g->dx[2] = mf_window_apply(g, is_second(g->node) ? "MaxPoolGrad" : "MaxPoolGradGrad",
                                   MF_IN(g->x[0], g->x[1], g->dy[0]));
    return MF_OK;
}

static mf_status argmax_grad(mf_grad *g)
{
    mf_output dx;

    if (!g->dy[0].node)
        return MF_OK;
    dx = mf_window_apply(g, "MaxPoolGradWithArgmax",
                         MF_IN(g->x[0], g->dy[0], ((mf_output){ g->node, 1 })));
    if (dx.node && mf_node_bool(g->node, "include_batch_in_index"))
        MF_TRY(mf_node_set_attr(g->graph, dx.node, "include_batch_in_index",
                                mf_node_attr(g->node, "include_batch_in_index")));
    g->dx[0] = dx;
    return MF_OK;
}

static mf_status pooling_avg_grad(mf_grad *g)
{
    g->dx[0] = mf_window_apply(g, "AvgPoolGrad", MF_IN(MF_G1("Shape", g->x[0]), g->dy[0]));
    return MF_OK;
}

static mf_status pooling_avg_grad_grad(mf_grad *g)
{
    g->dx[1] = mf_window_apply(g, "AvgPool", MF_IN(g->dy[0]));
    return MF_OK;
}

#define WINDOW "ksize:list(int)>=4, strides:list(int)>=4, "
#define PAD2 "padding:string in ['SAME','VALID'], "
#define PAD3 "padding:string in ['SAME','VALID','EXPLICIT'], explicit_paddings:list(int)=[], "
#define FORMAT2 "data_format:string='NHWC' in ['NHWC','NCHW']"
#define FORMAT3 "data_format:string='NHWC' in ['NHWC','NCHW','NCHW_VECT_C']"
#define MAX_TYPES                                                                                  \
    "T:type=float in [half,bfloat16,float,double,int32,int64,uint8,int16,int8,uint16,qint8]"
#define POOL_OP(ROWS, NAME, DEF, INFER, RUN, GRAD, ...)                                            \
    POOL_OP_FLAGS(ROWS, NAME, DEF, 0, INFER, RUN, GRAD, __VA_ARGS__)
#define POOL_OP_FLAGS(ROWS, NAME, DEF, FLAGS, INFER, RUN, GRAD, ...)                               \
    {                                                                                              \
        .name = NAME, .rows = ROWS, .def = DEF, .flags = FLAGS, .infer = INFER, .grad = GRAD,      \
        .prepare = pooling_pool_prepare, .run = RUN, .split = mf_pool_split,                       \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_pool[] = {
    POOL_OP(
        mf_rows_first, "MaxPool",
        "(input:T) -> (output:T) {" MAX_TYPES ", " WINDOW PAD3 FORMAT3 "}", pooling_pool_infer,
        pooling_pool_run, pooling_max_grad,
        "f32[2,5,6,3] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
        "f32[1,5,6,3] ; ksize=[1,3,3,1] strides=[1,2,2,1] padding='SAME'",
        "f32[1,5,6,70] ; ksize=[1,3,2,1] strides=[1,1,1,1] padding='SAME' !nograd",
        "f32[2,3,5,6] ; ksize=[1,1,2,2] strides=[1,1,2,2] padding='VALID' data_format='NCHW' !notf",
        "f32[1,5,5,2] ; ksize=[1,3,3,1] strides=[1,2,2,1] padding='EXPLICIT' "
        "explicit_paddings=[0,0,1,1,0,1,0,0]",
        "f32[2,3,3,6] ; ksize=[1,1,1,2] strides=[1,1,1,2] padding='SAME' !nograd",
        "f64[1,4,4,2] ; ksize=[1,2,2,1] strides=[1,1,1,1] padding='VALID'",
        "f16[1,4,4,2] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
        "bf16[1,4,4,2] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
        "i32[1,4,4,2] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
        "i8[1,4,4,2] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID' !notf",
        "f32[0,4,4,2] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
        "f32[2,8,9,3] ; ksize=[1,4,3,1] strides=[1,2,1,1] padding='SAME' !nograd",
        "f32[4,4,2] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID' !fails",
        "f32[1,4,4,2] ; ksize=[2,2,2,1] strides=[1,2,2,1] padding='VALID' !fails",
        "f32[1,4,4,2] ; ksize=[1,0,2,1] strides=[1,2,2,1] padding='VALID' !fails"),
    POOL_OP(NULL, "MaxPoolV2",
            "(input:T, ksize:int32, strides:int32) -> (output:T) {" MAX_TYPES ", " PAD2 FORMAT3 "}",
            pooling_pool_infer, pooling_pool_run, pooling_max_grad,
            "f32[2,5,6,3] i32[4]{1,2,2,1} i32[4]{1,2,2,1} ; padding='VALID'",
            "f64[1,5,6,3] i32[4]{1,3,3,1} i32[4]{1,2,2,1} ; padding='SAME'",
            "f32[1,5,6,3] i32[4]{1,3,3,1} i32[3]{1,2,2} ; padding='SAME' !fails"),
    POOL_OP_FLAGS(mf_rows_all, "MaxPoolGrad",
                  "(orig_input:T, orig_output:T, grad:T) -> (output:T) {" WINDOW PAD3 FORMAT2
                  ", T:type=float in reals}",
                  MF_OP_THEN, pooling_grad_infer, pooling_max_grad_run, pooling_max_grad_grad,
                  "f32[2,4,6,3]~ f32[2,2,3,3]~ f32[2,2,3,3] ; ksize=[1,2,2,1] strides=[1,2,2,1] "
                  "padding='VALID'",
                  "f32[1,5,6,70]~ f32[1,3,3,70]~ f32[1,3,3,70] ; ksize=[1,3,3,1] strides=[1,2,2,1] "
                  "padding='SAME' !nograd",
                  "f32[1,4,4,1]{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}~ f32[1,2,2,1]~ f32[1,2,2,1] ; "
                  "ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID' !nograd",
                  "f16[1,4,4,2]~ f16[1,2,2,2]~ f16[1,2,2,2] ; ksize=[1,2,2,1] strides=[1,2,2,1] "
                  "padding='VALID' !nograd",
                  "f32[2,8,6,3]~ f32[2,4,3,3]~ f32[2,4,3,3] ; ksize=[1,4,3,1] strides=[1,2,2,1] "
                  "padding='SAME' !nograd",
                  "f32[2,7,8,3]~ f32[2,5,3,3]~ f32[2,5,3,3] ; ksize=[1,3,3,1] strides=[1,1,2,1] "
                  "padding='VALID' !nograd",
                  "f16[1,6,6,2]~ f16[1,6,6,2]~ f16[1,6,6,2] ; ksize=[1,3,3,1] strides=[1,1,1,1] "
                  "padding='SAME' !nograd",
                  "f32[2,4,6,3]~ f32[2,2,3,3]~ f32[2,2,2,3] ; ksize=[1,2,2,1] strides=[1,2,2,1] "
                  "padding='VALID' !fails",
                  "f32[1,4,6,3]~ f32[1,4,3,3]~ f32[1,4,3,3] ; ksize=[1,3,3,1] strides=[1,1,2,1] "
                  "padding='VALID' _pad=[1,1,1,0] _crop=[1,0,2,0] !nograd !notf",
                  "f32[1,4,6,3]~ f32[1,4,3,3]~ f32[1,4,3,3] ; ksize=[1,3,3,1] strides=[1,1,2,1] "
                  "padding='VALID' _pad=[1,1,1,0] _crop=[1,4,2,0] !fails !notf"),
    POOL_OP(NULL, "MaxPoolGradV2",
            "(orig_input:T, orig_output:T, grad:T, ksize:int32, strides:int32) -> (output:T) {" PAD2
                FORMAT2 ", T:type=float in reals}",
            pooling_grad_infer, pooling_max_grad_run, pooling_max_grad_grad,
            "f32[2,4,6,3]~ f32[2,2,3,3]~ f32[2,2,3,3] i32[4]{1,2,2,1} i32[4]{1,2,2,1} ; "
            "padding='VALID'",
            "f64[1,5,5,3]~ f64[1,3,3,3]~ f64[1,3,3,3] i32[4]{1,3,3,1} i32[4]{1,2,2,1} ; "
            "padding='SAME'"),
    POOL_OP(NULL, "MaxPoolGradGrad",
            "(orig_input:T, orig_output:T, grad:T) -> (output:T) {" WINDOW PAD2 FORMAT2
            ", T:type in reals}",
            pooling_grad_infer, pooling_max_grad_run, pooling_max_grad_grad,
            "f32[2,4,6,3]~ f32[2,2,3,3]~ f32[2,4,6,3] ; ksize=[1,2,2,1] strides=[1,2,2,1] "
            "padding='VALID' !notf",
            "f32[1,7,6,3]~ f32[1,7,3,3]~ f32[1,7,6,3] ; ksize=[1,3,3,1] strides=[1,1,2,1] "
            "padding='SAME' !nograd !notf"),
    POOL_OP(NULL, "MaxPoolGradGradV2",
            "(orig_input:T, orig_output:T, grad:T, ksize:int32, strides:int32) -> (output:T) {" PAD2
                FORMAT2 ", T:type in reals}",
            pooling_grad_infer, pooling_max_grad_run, mf_grad_missing,
            "f32[2,4,6,3]~ f32[2,2,3,3]~ f32[2,4,6,3] i32[4]{1,2,2,1} i32[4]{1,2,2,1} ; "
            "padding='VALID' !nograd !notf"),
    POOL_OP(NULL, "MaxPoolWithArgmax",
            "(input:T) -> (output:T, argmax:Targmax) {" WINDOW "Targmax:type=int64 in index, " PAD2
            "include_batch_in_index:bool=false, T:type in reals}",
            pooling_pool_infer, pooling_pool_run, argmax_grad,
            "f32[2,5,6,3] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
            "f64[2,5,6,3] ; ksize=[1,3,3,1] strides=[1,2,2,1] padding='SAME' Targmax=int32 "
            "include_batch_in_index=true",
            "f32[1,2,2,1] ; ksize=[1,2,2,1] strides=[1,1,1,1] padding='VALID' _pad=[9,0,9,0] "
            "!fails !notf",
            "f32[0,5,6,3] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID' !fails"),
    POOL_OP(NULL, "MaxPoolGradWithArgmax",
            "(input:T, grad:T, argmax:Targmax) -> (output:T) {" WINDOW PAD2
            "include_batch_in_index:bool=false, Targmax:type in index, T:type in reals}",
            pooling_grad_infer, argmax_grad_run, mf_grad_missing,
            "f32[2,4,4,1]~ f32[2,2,2,1] i64[2,2,2,1]@0:16 ; ksize=[1,2,2,1] strides=[1,2,2,1] "
            "padding='VALID' !nograd",
            "f32[1,4,4,1]~ f32[1,2,2,1] i64[1,2,2,1]{0,1,2,16} ; ksize=[1,2,2,1] strides=[1,2,2,1] "
            "padding='VALID' !fails !notf"),
    POOL_OP(
        mf_rows_first, "AvgPool",
        "(value:T) -> (output:T) {" WINDOW PAD2 FORMAT2 ", T:type in floats}", pooling_pool_infer,
        pooling_pool_run, pooling_avg_grad,
        "f32[2,5,6,3] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
        "f32[1,5,6,3] ; ksize=[1,3,3,1] strides=[1,2,2,1] padding='SAME'",
        "f32[2,3,5,6] ; ksize=[1,1,2,2] strides=[1,1,2,2] padding='VALID' data_format='NCHW' !notf",
        "f64[1,4,4,2] ; ksize=[1,2,2,1] strides=[1,1,1,1] padding='VALID'",
        "f16[1,4,4,2] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
        "bf16[1,4,4,2] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
        "f32[0,4,4,2] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
        "f32[2,8,9,3] ; ksize=[1,4,3,1] strides=[1,2,1,1] padding='SAME' !nograd",
        "f32[1,4,4,2] ; ksize=[1,1,1,2] strides=[1,1,1,2] padding='VALID' !fails"),
    POOL_OP(
        mf_rows_last, "AvgPoolGrad",
        "(orig_input_shape:int32, grad:T) -> (output:T) {" WINDOW PAD2 FORMAT2
        ", T:type in floats}",
        avg_grad_infer, pooling_avg_grad_run, pooling_avg_grad_grad,
        "i32[4]{2,5,6,3} f32[2,2,3,3] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
        "i32[4]{1,5,6,3} f64[1,3,3,3] ; ksize=[1,3,3,1] strides=[1,2,2,1] padding='SAME'",
        "i32[4]{1,5,6,3} f16[1,3,3,3] ; ksize=[1,3,3,1] strides=[1,2,2,1] padding='SAME'",
        "i32[4]{2,8,6,3} f32[2,4,3,3] ; ksize=[1,4,3,1] strides=[1,2,2,1] padding='SAME' !nograd",
        "i32[4]{2,7,8,3} f32[2,5,3,3] ; ksize=[1,3,3,1] strides=[1,1,2,1] padding='VALID' !nograd",
        "i32[4]{1,5,6,3} f32[1,3,2,3] ; ksize=[1,3,3,1] strides=[1,2,2,1] padding='SAME' !fails "
        "!notf",
        "i32[4]{1,-5,6,3} f32[1,3,2,3] ; ksize=[1,3,3,1] strides=[1,2,2,1] padding='SAME' !fails"),
    { .name = "_MaxPoolGradThen",
      .def =
          "(orig_input:T, orig_output:T, grad:T, more:*Tmore) -> (output:T) {" WINDOW PAD3 FORMAT2
          ", T:type in [float,double], " MF_EPILOGUE_ATTRS "}",
      .infer = pooling_grad_infer,
      .grad = mf_grad_missing,
      .prepare = mf_epilogue_prepare,
      .release = mf_epilogue_release,
      .run = mf_epilogue_run,
      .samples = MF_SAMPLES(
          "f32[2,4,6,3] f32[2,2,3,3] f32[2,2,3,3] f32[2,4,6,3] ; ksize=[1,2,2,1] "
          "strides=[1,2,2,1] padding='VALID' ops=['ReluGrad'] types=[float] args=[0,1] params=[0]",
          "f32[3,5,6,7] f32[3,3,3,7] f32[3,3,3,7] f32[7] ; ksize=[1,3,3,1] strides=[1,2,2,1] "
          "padding='SAME' ops=['Mul'] types=[float] args=[0,1] params=[0]",
          "f64[2,3,4,6] f64[2,3,2,3] f64[2,3,2,3] f64[] ; ksize=[1,1,2,2] strides=[1,1,2,2] "
          "padding='VALID' data_format='NCHW' ops=['Mul'] types=[double] args=[0,1] params=[0]",
          "f32[0,4,6,3] f32[0,2,3,3] f32[0,2,3,3] f32[3] ; ksize=[1,2,2,1] strides=[1,2,2,1] "
          "padding='VALID' ops=['AddV2'] types=[float] args=[0,1] params=[0]",
          "f32[1,4,6,3] f32[1,4,3,3] f32[1,4,3,3] f32[] ; ksize=[1,3,3,1] strides=[1,1,2,1] "
          "padding='VALID' _pad=[1,1,1,0] _crop=[1,0,2,0] ops=['Mul'] types=[float] args=[0,1] "
          "params=[0]") },
    { 0 },
};
