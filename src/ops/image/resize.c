/* SPDX-License-Identifier: Apache-2.0 */
/* resize.c - resizes images: ResizeNearestNeighbor, ResizeBilinear, ResizeBicubic, ResizeArea, and
 * their gradients.
 *
 * All are the same: an output pixel is a weighted sum of input pixels, along height and along
 * width. A method determines the pixels and weights (`taps`); a gradient uses the same weights.
 * Positions are computed in float as in TensorFlow, because rounding decides between pixels. */
#include "base/mem.h"
#include "ops/array/array_util.h"
#include "ops/array/strided_copy.h"
#include "ops/control/grad_util.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef enum resize_method { NEAREST, BILINEAR, BICUBIC, AREA } resize_method;

typedef struct resize_state {
    resize_method method;
    bool align, centers;
} resize_state;

/* The taps of one output row (or column): `n` inputs, their positions and weights. */
typedef struct resize_taps {
    int64_t n;
    const int64_t *at;
    const float *weight;
} resize_taps;

/* The taps of all outputs along one dimension, `most` for each. */
typedef struct axis_taps {
    int64_t outputs, most;
    int64_t *at;
    float *weight;
} axis_taps;

typedef struct resize_job {
    const resize_state *s;
    int64_t batch, channels, small[2], large[2]; /* input's and output's height and width */
    float scale[2];
    axis_taps axes[2];
    const mf_tensor *in;
    mf_tensor *out;
} resize_job;

/* ---- where outputs lie among the inputs ---- */

static float resize_scale_of(int64_t in, int64_t out, bool align)
{
    return align && out > 1 ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out;
}

static int64_t bound(int64_t at, int64_t size)
{
    return at < 0 ? 0 : at >= size ? size - 1 : at;
}

static float resize_place(const resize_state *s, int64_t i, float scale)
{
    return s->centers ? ((float)i + 0.5f) * scale - 0.5f : (float)i * scale;
}

static void nearest_taps(const resize_state *s, int64_t i, float scale, int64_t size, int64_t *at,
                         float *weight)
{
    const float x = s->centers ? ((float)i + 0.5f) * scale : (float)i * scale;

    at[0] = bound((int64_t)(s->align ? roundf(x) : floorf(x)), size);
    weight[0] = 1;
}

static void bilinear_taps(const resize_state *s, int64_t i, float scale, int64_t size, int64_t *at,
                          float *weight)
{
    const float x = resize_place(s, i, scale);

    at[0] = bound((int64_t)floorf(x), size);
    at[1] = bound((int64_t)ceilf(x), size);
    weight[1] = x - floorf(x);
    weight[0] = 1 - weight[1];
}

/* Keys' cubic kernel at distance x in [0, 2), from a table of 1024 steps as in TensorFlow. */
static float cubic(double a, int64_t step, bool far)
{
    const double x = (double)step / 1024 + far;

    return far ? (float)(((a * x - 5 * a) * x + 8 * a) * x - 4 * a)
               : (float)(((a + 2) * x - (a + 3)) * x * x + 1);
}

/* With half_pixel_centers, outside pixels are excluded; otherwise the edge is repeated. */
static void bicubic_taps(const resize_state *s, int64_t i, float scale, int64_t size, int64_t *at,
                         float *weight)
{
    const float x = resize_place(s, i, scale);
    const int64_t first = (int64_t)floorf(x) - 1;
    const int64_t step = lrintf((x - floorf(x)) * 1024);
    const double a = s->centers ? -0.5 : -0.75;
    float sum = 0;

    for (int t = 0; t < 4; t++) {
        at[t] = bound(first + t, size);
        weight[t] = cubic(a, t < 2 ? step : 1024 - step, t == 0 || t == 3);
        if (s->centers && at[t] != first + t)
            weight[t] = 0;
        sum += weight[t];
    }
    for (int t = 0; t < 4 && s->centers && fabsf(sum) >= 1000 * FLT_MIN; t++)
        weight[t] *= 1.0f / sum;
}

/* The fraction of each pixel from `start` within [from, to); the fractions add up to 1. At most
 * `most`: above 2^24, adjacent floats are further apart than i and i + 1. */
static void area_taps(int64_t i, float scale, int64_t size, int64_t most, int64_t *at,
                      float *weight)
{
    const float from = (float)i * scale, to = (float)(i + 1) * scale;
    const int64_t start = (int64_t)floorf(from);
    int64_t end = (int64_t)ceilf(to);

    end = end - start > most ? start + most : end;
    if (end <= start) { /* align_corners with a single pixel */
        at[0] = bound(start, size);
        weight[0] = 1;
        return;
    }
    for (int64_t v = start; v < end; v++) {
        const float x = (float)v;
        const float part =
            x < from ? (x + 1 > to ? scale : x + 1 - from) : (x + 1 > to ? to - x : 1.0f);

        at[v - start] = bound(v, size);
        weight[v - start] = part / scale;
    }
}

static mf_status axis_init(const resize_job *job, int d, axis_taps *a)
{
    const int64_t in = job->small[d];
    const float scale = job->scale[d];

    a->outputs = job->large[d];
    a->most = job->s->method == NEAREST    ? 1
              : job->s->method == BILINEAR ? 2
              : job->s->method == BICUBIC  ? 4
                                           : (int64_t)ceilf(scale) + 2;
    a->at = mf_calloc(a->outputs * a->most + 1, sizeof *a->at);
    a->weight = mf_calloc(a->outputs * a->most + 1, sizeof *a->weight);
    if (!a->at || !a->weight)
        return MF_NOMEM("a resized image");
    for (int64_t i = 0; i < a->outputs; i++) {
        int64_t *at = a->at + i * a->most;
        float *weight = a->weight + i * a->most;

        if (job->s->method == NEAREST)
            nearest_taps(job->s, i, scale, in, at, weight);
        else if (job->s->method == BILINEAR)
            bilinear_taps(job->s, i, scale, in, at, weight);
        else if (job->s->method == BICUBIC)
            bicubic_taps(job->s, i, scale, in, at, weight);
        else
            area_taps(i, scale, in, a->most, at, weight); /* the others have weight 0 */
    }
    return MF_OK;
}

static resize_taps taps_at(const axis_taps *a, int64_t i)
{
    return (resize_taps){ a->most, a->at + i * a->most, a->weight + i * a->most };
}

/* ---- one output row of an image ---- */

static float resize_value(const mf_tensor *t, int64_t i)
{
    return t->dtype == MF_DTYPE_F32 ? ((const float *)t->data)[i] : (float)mf_tensor_float_at(t, i);
}

static void blend(const resize_job *job, const resize_taps *ty, const resize_taps *tx,
                  int64_t image, float *out)
{
    for (int64_t c = 0; c < job->channels; c++)
        out[c] = 0;
    for (int64_t y = 0; y < ty->n; y++) {
        for (int64_t x = 0; x < tx->n; x++) {
            const float weight = ty->weight[y] * tx->weight[x];
            const int64_t at =
                ((image * job->small[0] + ty->at[y]) * job->small[1] + tx->at[x]) * job->channels;

            for (int64_t c = 0; c < job->channels && weight != 0; c++)
                out[c] += weight * resize_value(job->in, at + c);
        }
    }
}

/* Two interpolation steps, rounded as in TensorFlow. */
static void blend_linear(const resize_job *job, const resize_taps *ty, const resize_taps *tx,
                         int64_t image, float *out)
{
    int64_t at[4];

    for (int t = 0; t < 4; t++)
        at[t] = ((image * job->small[0] + ty->at[t / 2]) * job->small[1] + tx->at[t % 2]) *
                job->channels;
    for (int64_t c = 0; c < job->channels; c++) {
        const float tl = resize_value(job->in, at[0] + c), tr = resize_value(job->in, at[1] + c);
        const float bl = resize_value(job->in, at[2] + c), br = resize_value(job->in, at[3] + c);
        const float top = tl + (tr - tl) * tx->weight[1], low = bl + (br - bl) * tx->weight[1];

        out[c] = top + (low - top) * ty->weight[1];
    }
}

static void resize_row(void *ctx, int64_t row)
{
    const resize_job *job = ctx;
    const int64_t image = row / job->large[0], y = row % job->large[0];
    const resize_taps ty = taps_at(&job->axes[0], y);

    for (int64_t x = 0; x < job->large[1]; x++) {
        const resize_taps tx = taps_at(&job->axes[1], x);
        const int64_t to = (row * job->large[1] + x) * job->channels;
        const int64_t from =
            ((image * job->small[0] + ty.at[0]) * job->small[1] + tx.at[0]) * job->channels;

        if (job->s->method == NEAREST)
            memcpy(mf_cell_at(job->out->dtype, job->out->data, to),
                   mf_cell_at(job->in->dtype, job->in->data, from),
                   (size_t)job->channels * mf_dtype_cell(job->in->dtype));
        else if (job->s->method == BILINEAR)
            blend_linear(job, &ty, &tx, image, (float *)job->out->data + to);
        else
            blend(job, &ty, &tx, image, (float *)job->out->data + to);
    }
}

/* TensorFlow rounds to float only for the bilinear method. */
static double resize_share(const resize_job *job, int64_t at, float y, float x)
{
    const double g = mf_tensor_float_at(job->in, at);

    return job->s->method == BILINEAR ? (double)((float)g * y * x) : g * (double)y * (double)x;
}

/* Accumulates the gradients of the resized image in the pixels of an image, in order. */
static void resize_give_back(void *ctx, int64_t image)
{
    const resize_job *job = ctx;
    const int64_t size = job->small[0] * job->small[1] * job->channels;
    double *sums = (double *)job->out->data + image * size; /* a tensor of doubles */

    for (int64_t y = 0; y < job->large[0]; y++) {
        const resize_taps ty = taps_at(&job->axes[0], y);

        for (int64_t x = 0; x < job->large[1]; x++) {
            const resize_taps tx = taps_at(&job->axes[1], x);
            const int64_t from = ((image * job->large[0] + y) * job->large[1] + x) * job->channels;

            for (int64_t t = 0; t < ty.n * tx.n; t++) {
                const int64_t a = t / tx.n, b = t % tx.n;
                double *to = sums + (ty.at[a] * job->small[1] + tx.at[b]) * job->channels;

                for (int64_t c = 0; c < job->channels; c++)
                    to[c] += resize_share(job, from + c, ty.weight[a], tx.weight[b]);
            }
        }
    }
}

/* ---- shapes and kernels ---- */

static mf_status resize_prepare(mf_prepare *p)
{
    const char *name = p->node->op_name + strlen("Resize");
    resize_state *s = MF_ARENA_NEW(p->arena, resize_state);

    if (!s)
        return MF_NOMEM("a resizing");
    s->method = strncmp(name, "Near", 4) == 0  ? NEAREST
                : strncmp(name, "Bil", 3) == 0 ? BILINEAR
                : strncmp(name, "Bic", 3) == 0 ? BICUBIC
                                               : AREA;
    s->align = mf_node_bool(p->node, "align_corners");
    s->centers = mf_node_bool(p->node, "half_pixel_centers");
    if (s->align && s->centers && strcmp(name, "NearestNeighborGrad") != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "If half_pixel_centers is True, align_corners must be False.");
    p->state = s;
    return MF_OK;
}

static mf_status resize_read_size(const mf_tensor *t, int64_t size[2])
{
    mf_ivec v;

    MF_TRY(mf_ivec_read(t, 2, "size", &v));
    if (t->shape.rank != 1 || v.n != 2 || v.v[0] < 1 || v.v[1] < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "size must be two positive numbers, got %d", v.n);
    size[0] = v.v[0];
    size[1] = v.v[1];
    return MF_OK;
}

static mf_status resize_check_rank(const mf_shape *s)
{
    char text[MF_SHAPE_TEXT];

    if (s->rank == 4)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "input must be 4-dimensional, got shape %s",
                   mf_shape_text(s, text));
}

static mf_status check_images(const mf_shape *s)
{
    char text[MF_SHAPE_TEXT];

    MF_TRY(resize_check_rank(s));
    if (s->dims[1] > 0 && s->dims[2] > 0 && s->dims[3] > 0 && s->dims[1] <= INT32_MAX &&
        s->dims[2] <= INT32_MAX)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "input image must be of non-zero size, got shape %s",
                   mf_shape_text(s, text));
}

/* (images, size), and (gradients, size) of ResizeNearestNeighborGrad. */
static mf_status resize_infer(mf_infer *in)
{
    const mf_shape *images = &in->in[0];
    mf_ivec size = { .n = 2, .v = { -1, -1 } };

    MF_TRY(mf_infer_rank(in, 0, 4));
    MF_TRY(mf_infer_rank(in, 1, 1));
    if (in->in_value[1] && in->in_value[1]->count == 2)
        MF_TRY(mf_ivec_read(in->in_value[1], 2, "size", &size));
    in->out[0] = MF_SHAPE(images->rank == 4 ? images->dims[0] : -1, size.v[0] > 0 ? size.v[0] : -1,
                          size.v[1] > 0 ? size.v[1] : -1, images->rank == 4 ? images->dims[3] : -1);
    return MF_OK;
}

static mf_status resize_grad_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 4));
    MF_TRY(mf_infer_rank(in, 1, 4));
    in->out[0] = in->in[1];
    return MF_OK;
}

static mf_status resize_job_init(resize_job *job, const mf_kernel *k, const int64_t *small,
                                 const int64_t *large)
{
    const mf_shape *s = &k->in[0]->shape;

    job->s = k->state;
    job->in = k->in[0];
    job->batch = s->dims[0];
    job->channels = s->dims[3];
    for (int d = 0; d < 2; d++) {
        job->small[d] = small[d];
        job->large[d] = large[d];
        job->scale[d] = resize_scale_of(small[d], large[d], job->s->align);
    }
    for (int d = 0; d < 2; d++)
        MF_TRY(axis_init(job, d, &job->axes[d]));
    return MF_OK;
}

static void job_deinit(resize_job *job)
{
    for (int d = 0; d < 2; d++) {
        mf_free(job->axes[d].at);
        mf_free(job->axes[d].weight);
    }
}

static mf_status resize_resize_run(mf_kernel *k)
{
    const mf_shape *s = &k->in[0]->shape;
    resize_job job = { 0 };
    int64_t size[2];
    mf_status st;

    MF_TRY(check_images(s));
    MF_TRY(resize_read_size(k->in[1], size));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(s->dims[0], size[0], size[1], s->dims[3]), &job.out));
    if (job.out->count == 0)
        return MF_OK;
    MF_TRY_TO(done, resize_job_init(&job, k, &s->dims[1], size));
    st = mf_kernel_parallel(k, job.batch * job.large[0], resize_row, &job);
done:
    job_deinit(&job);
    return st;
}

/* The gradient of images of `original` size. */
static mf_status run_back(mf_kernel *k, const int64_t *original)
{
    const mf_shape *s = &k->in[0]->shape;
    const mf_shape shape = MF_SHAPE(s->dims[0], original[0], original[1], s->dims[3]);
    resize_job job = { 0 };
    mf_tensor sums = { 0 }, *out;
    mf_status st;

    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    MF_TRY_TO(done, mf_tensor_alloc(&sums, MF_DTYPE_F64, &shape));
    mf_cells_zero(MF_DTYPE_F64, sums.data, 0, sums.count);
    if (k->in[0]->count > 0) {
        MF_TRY_TO(done, resize_job_init(&job, k, original, &s->dims[1]));
        job.out = &sums;
        MF_TRY_TO(done, mf_kernel_parallel(k, job.batch, resize_give_back, &job));
    }
    for (int64_t i = 0; i < out->count; i++)
        mf_tensor_put(out, i, ((const double *)sums.data)[i]);
done:
    job_deinit(&job);
    mf_tensor_clear(&sums);
    return st;
}

/* (gradients, images) */
static mf_status grad_run(mf_kernel *k)
{
    const mf_shape *g = &k->in[0]->shape, *images = &k->in[1]->shape;
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    MF_TRY(check_images(g));
    MF_TRY(check_images(images));
    if (g->dims[0] != images->dims[0] || g->dims[3] != images->dims[3])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "gradients and images differ in batch or channels: %s vs. %s",
                       mf_shape_text(g, a), mf_shape_text(images, b));
    return run_back(k, &images->dims[1]);
}

/* (gradients, size) */
static mf_status nearest_grad_run(mf_kernel *k)
{
    int64_t size[2];

    MF_TRY(resize_check_rank(&k->in[0]->shape));
    MF_TRY(resize_read_size(k->in[1], size));
    return run_back(k, size);
}

/* ---- gradients ---- */

static const char *yes(bool is)
{
    return is ? "true" : "false";
}

static mf_output back_through(mf_grad *g, const char *op, mf_output second)
{
    return mf_applyf(g->graph, op, MF_IN(g->dy[0], second),
                     "align_corners=%s half_pixel_centers=%s",
                     yes(mf_node_bool(g->node, "align_corners")),
                     yes(mf_node_bool(g->node, "half_pixel_centers")));
}

static mf_status bilinear_grad(mf_grad *g)
{
    if (mf_dtype_is_float(mf_grad_type(g->x[0])))
        g->dx[0] = back_through(g, "ResizeBilinearGrad", g->x[0]);
    return MF_OK;
}

static mf_status bicubic_grad(mf_grad *g)
{
    const mf_dtype type = mf_grad_type(g->x[0]);

    if (type == MF_DTYPE_F32 || type == MF_DTYPE_F64)
        g->dx[0] = back_through(g, "ResizeBicubicGrad", g->x[0]);
    return MF_OK;
}

static mf_status nearest_grad(mf_grad *g)
{
    const mf_output size =
        mf_apply(g->graph, "StridedSlice",
                 MF_IN(MF_G1("Shape", g->x[0]), mf_ints(g->graph, (const int64_t[]){ 1 }, 1),
                       mf_ints(g->graph, (const int64_t[]){ 3 }, 1),
                       mf_ints(g->graph, (const int64_t[]){ 1 }, 1)));

    g->dx[0] = back_through(g, "ResizeNearestNeighborGrad", size);
    return MF_OK;
}

#define IMAGE_TYPES "T:type in [int8,uint8,int16,uint16,int32,int64,half,float,double,bfloat16]"
#define CORNERS ", align_corners:bool=false"
#define CENTERS CORNERS ", half_pixel_centers:bool=false}"
#define RESIZE_OP(NAME, DEF, INFER, RUN, GRAD, ...)                                                \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = GRAD, .prepare = resize_prepare,         \
        .run = RUN, .samples = MF_SAMPLES(__VA_ARGS__)                                             \
    }
#define SAMPLES                                                                                    \
    "f32[2,4,5,3] i32[2]{3,7}", "f32[1,3,4,2] i32[2]{5,2} ; align_corners=true",                   \
        "f64[1,5,3,1] i32[2]{1,1}", "u8[1,4,4,2]@0:255 i32[2]{6,3}",                               \
        "f32[0,4,5,3] i32[2]{3,7} !nograd", "f32[1,1,1,2] i32[2]{3,3}",                            \
        "f32[1,4,5,3] i32[2]{0,7} !fails", "f32[1,4,5,3] i32[3]{2,7,1} !fails",                    \
        "f32[4,5,3] i32[2]{2,7} !fails"
#define CENTERED                                                                                   \
    "f32[2,4,5,3] i32[2]{3,8} ; half_pixel_centers=true",                                          \
        "f64[1,3,4,2] i32[2]{7,2} ; half_pixel_centers=true",                                      \
        "f32[1,4,5,3] i32[2]{2,7} ; align_corners=true half_pixel_centers=true !fails"

const mf_op mf_ops_resize[] = {
    RESIZE_OP("ResizeNearestNeighbor",
              "(images:T, size:int32) -> (resized_images:T) {" IMAGE_TYPES CENTERS, resize_infer,
              resize_resize_run, nearest_grad, SAMPLES, CENTERED),
    RESIZE_OP("ResizeBilinear",
              "(images:T, size:int32) -> (resized_images:float) {T:type in "
              "[int8,uint8,int16,uint16,int32,int64,bfloat16,half,float,double,bfloat16]" CENTERS,
              resize_infer, resize_resize_run, bilinear_grad, SAMPLES, CENTERED),
    RESIZE_OP("ResizeBicubic",
              "(images:T, size:int32) -> (resized_images:float) {" IMAGE_TYPES CENTERS,
              resize_infer, resize_resize_run, bicubic_grad, SAMPLES, CENTERED),
    RESIZE_OP("ResizeArea",
              "(images:T, size:int32) -> (resized_images:float) {" IMAGE_TYPES CORNERS "}",
              resize_infer, resize_resize_run, mf_grad_missing, SAMPLES),
    RESIZE_OP("ResizeNearestNeighborGrad",
              "(grads:T, size:int32) -> (output:T) {T:type in "
              "[uint8,int8,int32,half,float,double,bfloat16]" CENTERS,
              resize_infer, nearest_grad_run, mf_grad_missing, "f32[2,3,7,3] i32[2]{4,5}",
              "f64[1,5,2,2] i32[2]{3,4} ; align_corners=true",
              "f32[1,5,2,2] i32[2]{3,4} ; half_pixel_centers=true", "i32[1,3,3,1] i32[2]{2,2}",
              "f32[1,5,2,2] i32[2]{0,4} !fails", "f32[5,2,2] i32[2]{3,4} !fails"),
    RESIZE_OP("ResizeBilinearGrad",
              "(grads:float, original_image:T) -> (output:T) {T:type in floats" CENTERS,
              resize_grad_infer, grad_run, mf_grad_missing, "f32[2,3,7,3] f32[2,4,5,3]",
              "f32[1,5,2,2] f64[1,3,4,2] ; align_corners=true",
              "f32[1,5,2,2] f32[1,3,4,2] ; half_pixel_centers=true",
              "f32[1,5,2,2] f32[3,4,2] !fails"),
    RESIZE_OP("ResizeBicubicGrad",
              "(grads:float, original_image:T) -> (output:T) {T:type in [float,double]" CENTERS,
              resize_grad_infer, grad_run, mf_grad_missing, "f32[2,3,7,3] f32[2,4,5,3]",
              "f32[1,5,2,2] f64[1,3,4,2] ; align_corners=true",
              "f32[1,5,2,2] f32[1,3,4,2] ; half_pixel_centers=true",
              "f32[1,5,2,2] f32[3,4,2] !fails"),
    { 0 },
};
