/* SPDX-License-Identifier: Apache-2.0 */
/* pooling3d.c - pooling over depth, height and width. Simple loops: three-dimensional images are
 * rare. Every image of the batch is a piece; outputs are processed in order. */
#include "base/mem.h"
#include "ops/control/grad_util.h"
#include "ops/nn/window.h"
#include "ops/nn/window_grad.h"
#include "ops/nn/window_split.h"
#include "ops/quant/widen.h"

#include <math.h>
#include <string.h>

typedef enum pool_kind { MAX, MAX_GRAD, MAX_GRAD2, AVG, AVG_GRAD } pool_kind;

typedef struct pooling3d_pool_job {
    mf_window w;
    pool_kind kind;
    const mf_tensor *x, *y, *d; /* input, output, gradient */
    mf_tensor *out;
    int64_t in_step, in_channel, out_step, out_channel; /* strides between positions, and between
                                                           channels */
} pooling3d_pool_job;

static double pooling3d_get(const mf_tensor *t, int64_t i)
{
    return t->dtype == MF_DTYPE_F64 ? ((const double *)t->data)[i]
                                    : (double)((const float *)t->data)[i];
}

static void pooling3d_add(mf_tensor *t, int64_t i, double v)
{
    if (t->dtype == MF_DTYPE_F64)
        ((double *)t->data)[i] += v;
    else
        ((float *)t->data)[i] += (float)v;
}

/* The window of one output: up to `n` positions of the input. */
typedef struct pooling3d_taps {
    int64_t from[3], to[3], n;
} pooling3d_taps;

static pooling3d_taps taps_of(const mf_window *w, const int64_t *o)
{
    pooling3d_taps t = { .n = 1 };

    for (int d = 0; d < 3; d++) {
        t.from[d] = o[d] * w->stride[d] - w->pad_lo[d];
        t.to[d] = t.from[d] + w->size[d] < w->in[d] ? t.from[d] + w->size[d] : w->in[d];
        t.from[d] = t.from[d] < 0 ? 0 : t.from[d];
        t.n *= t.to[d] > t.from[d] ? t.to[d] - t.from[d] : 0;
    }
    return t;
}

/* One output element: `in` and `out` are the start of its channel in both images. */
static void pool_element(const pooling3d_pool_job *job, const pooling3d_taps *t, int64_t in,
                         int64_t out)
{
    const mf_window *w = &job->w;
    double value = job->kind == MAX || job->kind == MAX_GRAD2 ? -INFINITY : 0;
    int64_t best = -1;

    for (int64_t a = t->from[0]; a < t->to[0]; a++) {
        for (int64_t b = t->from[1]; b < t->to[1]; b++) {
            for (int64_t c = t->from[2]; c < t->to[2]; c++) {
                const int64_t at = in + ((a * w->in[1] + b) * w->in[2] + c) * job->in_step;

                switch (job->kind) {
                case MAX:
                case MAX_GRAD2:
                    if (best < 0 || pooling3d_get(job->x, at) > value ||
                        isnan(pooling3d_get(job->x, at))) {
                        value = pooling3d_get(job->x, at);
                        best = at;
                    }
                    break;
                case MAX_GRAD: /* all positions that equal the maximum */
                    if (pooling3d_get(job->x, at) == pooling3d_get(job->y, out))
                        pooling3d_add(job->out, at, pooling3d_get(job->d, out));
                    break;
                case AVG:
                    value += pooling3d_get(job->x, at);
                    break;
                case AVG_GRAD:
                    pooling3d_add(job->out, at, pooling3d_get(job->d, out) / (double)t->n);
                    break;
                }
            }
        }
    }
    if (job->kind == MAX)
        pooling3d_add(job->out, out, value);
    else if (job->kind == MAX_GRAD2 && best >= 0)
        pooling3d_add(job->out, out, pooling3d_get(job->d, best));
    else if (job->kind == AVG)
        pooling3d_add(job->out, out, value / (double)t->n);
}

static void pool_image(void *ctx, int64_t n)
{
    const pooling3d_pool_job *job = ctx;
    const mf_window *w = &job->w;
    const int64_t in = n * w->in[0] * w->in[1] * w->in[2] * w->channels;
    const int64_t out = n * w->out[0] * w->out[1] * w->out[2] * w->channels;
    int64_t o[3], at = 0;

    for (o[0] = 0; o[0] < w->out[0]; o[0]++) {
        for (o[1] = 0; o[1] < w->out[1]; o[1]++) {
            for (o[2] = 0; o[2] < w->out[2]; o[2]++, at++) {
                const pooling3d_taps t = taps_of(w, o);

                if (mf_stopped_after(t.n * w->channels))
                    return;
                for (int64_t c = 0; c < w->channels; c++)
                    pool_element(job, &t, in + c * job->in_channel,
                                 out + at * job->out_step + c * job->out_channel);
            }
        }
    }
}

/* ---- shapes ---- */

static mf_status pooling3d_pool_prepare(mf_prepare *p)
{
    mf_window_attrs *a = MF_ARENA_NEW(p->arena, mf_window_attrs);

    if (!a)
        return MF_NOMEM("a pooling");
    MF_TRY(mf_window_read(p->node, 3, a));
    p->state = a;
    return MF_OK;
}

static mf_status pooling3d_pooled_shape(const mf_window_attrs *a, const mf_shape *in, mf_shape *out)
{
    int64_t spatial[MF_WINDOW_DIMS], lo, hi;
    char text[MF_SHAPE_TEXT];

    if (in->rank < 0) {
        *out = MF_SHAPE(-1, -1, -1, -1, -1);
        return MF_OK;
    }
    if (in->rank != 5)
        return MF_FAIL(MF_INVALID_ARGUMENT, "tensor_in must be 5-dimensional, got shape %s",
                       mf_shape_text(in, text));
    if (a->channel_size != 1 || a->channel_stride != 1)
        return MF_FAIL(MF_UNIMPLEMENTED, "Pooling is not yet supported on the depth dimension.");
    for (int d = 0; d < 3; d++)
        MF_TRY(mf_window_length(a, d, in->dims[mf_window_axis(a, d + 1)], a->size[d], &spatial[d],
                                &lo, &hi));
    *out = mf_window_shape(a, in->dims[0], spatial, in->dims[mf_window_axis(a, 4)]);
    return MF_OK;
}

static mf_status pooling3d_pool_infer(mf_infer *in)
{
    mf_window_attrs a;

    MF_TRY(mf_window_read(in->node, 3, &a));
    return pooling3d_pooled_shape(&a, &in->in[0], &in->out[0]);
}

static mf_status pooling3d_grad_infer(mf_infer *in)
{
    mf_window_attrs a;

    MF_TRY(mf_window_read(in->node, 3, &a));
    if (in->n_in == 2)
        return mf_infer_shape_input(in, 0, &in->out[0]);
    in->out[0] = in->in[strcmp(in->node->op_name, "MaxPool3DGradGrad") == 0 ? 1 : 0];
    return MF_OK;
}

static mf_status pooling3d_check_shape(const char *what, const mf_shape *got, const mf_shape *want)
{
    char g[MF_SHAPE_TEXT], w[MF_SHAPE_TEXT];

    if (mf_shape_equal(got, want))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "Expected %s shape to be %s, but got %s", what,
                   mf_shape_text(want, w), mf_shape_text(got, g));
}

/* ---- kernels ---- */

/* Sets the window for an input of this shape; `pooled` is the output's shape. */
static mf_status set_window(pooling3d_pool_job *job, const mf_window_attrs *a, const mf_shape *in,
                            mf_shape *pooled)
{
    mf_window *w = &job->w;
    int64_t count;

    MF_TRY(pooling3d_pooled_shape(a, in, pooled));
    MF_TRY(mf_shape_count(pooled, &count));
    MF_TRY(mf_window_init(a, in, a->size, w));
    job->in_step = job->out_step = a->channels_first ? 1 : w->channels;
    job->in_channel = a->channels_first ? w->in[0] * w->in[1] * w->in[2] : 1;
    job->out_channel = a->channels_first ? w->out[0] * w->out[1] * w->out[2] : 1;
    return MF_OK;
}

/* All inputs and the output in the type of the computation. */
static mf_status pooling3d_run_wide(mf_kernel *k, const pooling3d_pool_job *job, const mf_tensor *x,
                                    const mf_tensor *y, const mf_tensor *d, mf_tensor *out)
{
    const mf_tensor *const in[3] = { x, y, d };
    mf_tensor wide[4] = { { 0 } };
    pooling3d_pool_job widened = *job;
    mf_status st = MF_OK;

    for (int i = 0; i < 3; i++) {
        if (in[i])
            MF_TRY_TO(done, mf_widen(k, in[i], &wide[i]));
    }
    MF_TRY_TO(done, mf_widen_out(out, &wide[3]));
    widened.x = &wide[0];
    widened.y = &wide[1];
    widened.d = &wide[2];
    widened.out = &wide[3];
    if (wide[3].count > 0)
        memset(wide[3].data, 0, (size_t)wide[3].count * mf_dtype_cell(wide[3].dtype));
    MF_TRY_TO(done, mf_kernel_parallel(k, job->w.batch, pool_image, &widened));
    mf_narrow(k, &wide[3], out);
done:
    for (int i = 0; i < 4; i++)
        mf_tensor_clear(&wide[i]);
    return st;
}

static mf_status pooling3d_pool_run(mf_kernel *k)
{
    pooling3d_pool_job job = { .kind = k->node->op_name[0] == 'A' ? AVG : MAX };
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(set_window(&job, k->state, &k->in[0]->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    return pooling3d_run_wide(k, &job, k->in[0], NULL, NULL, out);
}

/* (input, output, gradient of either) */
static mf_status pooling3d_max_grad_run(mf_kernel *k)
{
    const bool second = strcmp(k->node->op_name, "MaxPool3DGradGrad") == 0;
    const mf_shape *in = &k->in[0]->shape;
    pooling3d_pool_job job = { .kind = second ? MAX_GRAD2 : MAX_GRAD };
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(set_window(&job, k->state, in, &shape));
    MF_TRY(pooling3d_check_shape("orig_output", &k->in[1]->shape, &shape));
    MF_TRY(pooling3d_check_shape("grad", &k->in[2]->shape, second ? in : &shape));
    MF_TRY(mf_kernel_out(k, 0, second ? &shape : in, &out));
    return pooling3d_run_wide(k, &job, k->in[0], k->in[1], k->in[2], out);
}

/* (shape of the input, gradient) */
static mf_status pooling3d_avg_grad_run(mf_kernel *k)
{
    pooling3d_pool_job job = { .kind = AVG_GRAD };
    const mf_tensor *sizes = k->in[0];
    int64_t dims[5], count;
    mf_shape in, shape;
    mf_tensor *out;

    if (sizes->shape.rank != 1 || sizes->count != 5)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "orig_input_shape must be 1-dimensional and 5 elements");
    for (int d = 0; d < 5; d++)
        dims[d] = mf_tensor_int_at(sizes, d);
    MF_TRY(mf_shape_from_dims(dims, 5, &in));
    MF_TRY(mf_shape_count(&in, &count));
    MF_TRY(set_window(&job, k->state, &in, &shape));
    MF_TRY(pooling3d_check_shape("grad", &k->in[1]->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &in, &out));
    return pooling3d_run_wide(k, &job, NULL, NULL, k->in[1], out);
}

/* ---- gradients ---- */

static mf_status pooling3d_max_grad(mf_grad *g)
{
    g->dx[0] = mf_window_apply(g, "MaxPool3DGrad", MF_IN(g->x[0], g->y[0], g->dy[0]));
    return MF_OK;
}

static mf_status pooling3d_max_grad_grad(mf_grad *g)
{
    const bool second = strcmp(g->node->op_name, "MaxPool3DGradGrad") == 0;

    g->dx[2] = mf_window_apply(g, second ? "MaxPool3DGrad" : "MaxPool3DGradGrad",
                               MF_IN(g->x[0], g->x[1], g->dy[0]));
    return MF_OK;
}

static mf_status pooling3d_avg_grad(mf_grad *g)
{
    g->dx[0] = mf_window_apply(g, "AvgPool3DGrad", MF_IN(MF_G1("Shape", g->x[0]), g->dy[0]));
    return MF_OK;
}

static mf_status pooling3d_avg_grad_grad(mf_grad *g)
{
    g->dx[1] = mf_window_apply(g, "AvgPool3D", MF_IN(g->dy[0]));
    return MF_OK;
}

#define WINDOW                                                                                     \
    "ksize:list(int)>=5, strides:list(int)>=5, padding:string in ['SAME','VALID'], "               \
    "data_format:string='NDHWC' in ['NDHWC','NCDHW'], "
#define POOL_OP(NAME, DEF, INFER, RUN, GRAD, ...)                                                  \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = GRAD, .prepare = pooling3d_pool_prepare, \
        .run = RUN, .split = mf_pool_split, .samples = MF_SAMPLES(__VA_ARGS__)                     \
    }
#define TWO " ; ksize=[1,2,2,2,1] strides=[1,2,2,2,1] padding='VALID'"
#define THREE " ; ksize=[1,3,2,3,1] strides=[1,2,1,2,1] padding='SAME'"
#define FIRST " ; ksize=[1,1,2,2,2] strides=[1,1,2,2,2] padding='VALID' data_format='NCDHW'"

const mf_op mf_ops_pool3d[] = {
    POOL_OP("MaxPool3D", "(input:T) -> (output:T) {" WINDOW "T:type in [half,bfloat16,float]}",
            pooling3d_pool_infer, pooling3d_pool_run, pooling3d_max_grad, "f32[2,4,5,6,2]" TWO,
            "f32[1,5,3,4,3]" THREE " !nograd", "f32[2,3,2,4,3]" FIRST " !notf",
            "f16[1,4,4,4,1]" TWO, "f32[0,4,4,4,1]" TWO, "f32[4,4,4,1]" TWO " !fails",
            "f32[1,4,4,4,2] ; ksize=[1,2,2,2,2] strides=[1,2,2,2,1] padding='VALID' !fails"),
    POOL_OP("MaxPool3DGrad",
            "(orig_input:TInput, orig_output:TInput, grad:T) -> (output:T) {" WINDOW
            "T:type=float in [half,bfloat16,float], TInput:type=float in [half,bfloat16,float]}",
            pooling3d_grad_infer, pooling3d_max_grad_run, pooling3d_max_grad_grad,
            "f32[1,2,2,2,1]{1,3,1,1,1,3,1,1}~ f32[1,1,1,1,1]{3}~ f32[1,1,1,1,1]" TWO " !nograd",
            "f32[1,2,2,2,1]{1,3,1,1,1,2,1,1}~ f32[1,1,1,1,1]{3}~ f32[1,1,1,1,1]" TWO,
            "f32[1,5,3,4,3]~ f32[1,3,3,2,3]~ f32[1,3,3,2,3]" THREE " !nograd",
            "f32[1,4,4,4,1]~ f32[1,2,2,2,1]~ f32[1,2,2,1,1]" TWO " !fails"),
    POOL_OP("MaxPool3DGradGrad",
            "(orig_input:T, orig_output:T, grad:T) -> (output:T) {" WINDOW "T:type in reals}",
            pooling3d_grad_infer, pooling3d_max_grad_run, pooling3d_max_grad_grad,
            "f32[1,2,2,2,1]{1,3,1,1,1,2,1,1}~ f32[1,1,1,1,1]{3}~ f32[1,2,2,2,1]" TWO " !nograd"),
    POOL_OP("AvgPool3D", "(input:T) -> (output:T) {" WINDOW "T:type in floats}",
            pooling3d_pool_infer, pooling3d_pool_run, pooling3d_avg_grad, "f32[2,4,5,6,2]" TWO,
            "f64[1,5,3,4,3]" THREE, "f32[2,3,2,4,3]" FIRST " !notf", "f16[1,4,4,4,1]" TWO,
            "f32[0,4,4,4,1]" TWO, "f32[4,4,4,1]" TWO " !fails"),
    POOL_OP("AvgPool3DGrad",
            "(orig_input_shape:int32, grad:T) -> (output:T) {" WINDOW "T:type in floats}",
            pooling3d_grad_infer, pooling3d_avg_grad_run, pooling3d_avg_grad_grad,
            "i32[5]{1,4,4,4,2} f32[1,2,2,2,2]" TWO, "i32[5]{1,5,3,4,3} f64[1,3,3,2,3]" THREE,
            "i32[4]{4,4,4,2} f32[1,2,2,2,2]" TWO " !fails",
            "i32[5]{1,4,4,4,2} f32[1,2,2,1,2]" TWO " !fails !notf"),
    { 0 },
};
