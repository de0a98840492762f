/* SPDX-License-Identifier: Apache-2.0 */
/* crop.c - CropAndResize: boxes of images, each sampled on a grid of the same size, and its
 * gradients.
 *
 * Boxes are (y1, x1, y2, x2); 0 and 1 are the centres of the first and last pixels. */
#include "base/mem.h"
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"

#include <math.h>
#include <string.h>

typedef struct crop_state {
    bool nearest;
    float outside; /* value of samples outside the image */
} crop_state;

typedef struct crop_job {
    const mf_tensor *image; /* [batch, height, width, depth] */
    const float *boxes;
    const int32_t *of; /* the image of each box */
    int64_t batch, height, width, depth, n, rows, cols; /* n crops of [rows, cols] */
    bool nearest;
    float outside;
    const float *grads; /* of the crops */
    bool by_ratio; /* rounds the step between samples like TensorFlow's CropAndResizeGradBoxes */
    float *out;
    double *sums; /* of an image's gradient, in double */
    mf_tensor *changed; /* the rounded result */
} crop_job;

/* A sample position along one dimension: between `low` and `high`, with fraction `part`. */
typedef struct spot {
    bool inside;
    int64_t low, high, nearest;
    float part;
} spot;

static int64_t crop_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static float crop_ratio_of(int64_t size, int64_t samples)
{
    return samples > 1 ? (float)(size - 1) / (float)(samples - 1) : 0;
}

/* Slopes depend on whether a sample is exactly on a pixel, so the order of these operations
 * matters. */
static spot spot_of(float from, float to, int64_t size, int64_t samples, bool by_ratio, int64_t i)
{
    const float last = (float)(size - 1);
    const float scale = by_ratio      ? (to - from) * crop_ratio_of(size, samples)
                        : samples > 1 ? (to - from) * last / (float)(samples - 1)
                                      : 0;
    const float at = samples > 1 ? from * last + (float)i * scale : 0.5f * (from + to) * last;
    spot s = { .inside = at >= 0 && at <= last };

    if (s.inside) { /* a size converted to float may be rounded up */
        s.low = crop_least((int64_t)floorf(at), size - 1);
        s.high = crop_least((int64_t)ceilf(at), size - 1);
        s.nearest = crop_least((int64_t)roundf(at), size - 1);
        s.part = at - (float)s.low;
    }
    return s;
}

static int64_t crop_pixel(const crop_job *job, int64_t box, int64_t y, int64_t x)
{
    return ((job->of[box] * job->height + y) * job->width + x) * job->depth;
}

/* Called for every sample of a box: fn(job, box, row and column of the crop, its position). */
typedef void sample_fn(const crop_job *job, int64_t box, int64_t row, int64_t col, const spot *y,
                       const spot *x);

static void each_sample(const crop_job *job, int64_t box, sample_fn *fn)
{
    const float *b = job->boxes + 4 * box;

    for (int64_t row = 0; row < job->rows; row++) {
        const spot y = spot_of(b[0], b[2], job->height, job->rows, job->by_ratio, row);

        for (int64_t col = 0; col < job->cols; col++) {
            if (mf_stopped_after(10 + job->depth))
                return;
            const spot x = spot_of(b[1], b[3], job->width, job->cols, job->by_ratio, col);

            fn(job, box, row, col, &y, &x);
        }
    }
}

static const int64_t *corners(const crop_job *job, int64_t box, const spot *y, const spot *x,
                              int64_t at[4])
{
    at[0] = crop_pixel(job, box, y->low, x->low);
    at[1] = crop_pixel(job, box, y->low, x->high);
    at[2] = crop_pixel(job, box, y->high, x->low);
    at[3] = crop_pixel(job, box, y->high, x->high);
    return at;
}

static float crop_value(const crop_job *job, int64_t at)
{
    return (float)mf_tensor_float_at(job->image, at);
}

/* ---- what is done with a sample ---- */

/* A fast path of crop_take(). */
static void mix_floats(const crop_job *job, const int64_t at[4], float right, float down,
                       float *restrict out)
{
    const float *image = job->image->data;
    const float *tl = image + at[0], *tr = image + at[1], *bl = image + at[2], *br = image + at[3];

    for (int64_t d = 0; d < job->depth; d++) {
        const float top = tl[d] + (tr[d] - tl[d]) * right;
        const float bottom = bl[d] + (br[d] - bl[d]) * right;

        out[d] = top + (bottom - top) * down;
    }
}

static void crop_take(const crop_job *job, int64_t box, int64_t row, int64_t col, const spot *y,
                      const spot *x)
{
    float *out = job->out + ((box * job->rows + row) * job->cols + col) * job->depth;
    int64_t at[4] = { 0 };

    for (int64_t d = 0; d < job->depth && (!y->inside || !x->inside); d++)
        out[d] = job->outside;
    if (!y->inside || !x->inside)
        return;
    corners(job, box, y, x, at);
    if (job->image->dtype == MF_DTYPE_F32 && !job->nearest) {
        mix_floats(job, at, x->part, y->part, out);
        return;
    }
    for (int64_t d = 0; d < job->depth; d++) {
        const float tl = crop_value(job, at[0] + d), bl = crop_value(job, at[2] + d);
        const float top = tl + (crop_value(job, at[1] + d) - tl) * x->part;
        const float bottom = bl + (crop_value(job, at[3] + d) - bl) * x->part;

        out[d] = job->nearest ? crop_value(job, crop_pixel(job, box, y->nearest, x->nearest) + d)
                              : top + (bottom - top) * y->part;
    }
}

static void add_share(const crop_job *job, int64_t at, const float *g, float of_row, float of_col)
{
    double *restrict sums = job->sums + at;

    for (int64_t d = 0; d < job->depth; d++)
        sums[d] += (double)(of_col * (of_row * g[d]));
}

/* Distributes the gradient of a sample to its pixels. */
static void crop_give_back(const crop_job *job, int64_t box, int64_t row, int64_t col,
                           const spot *y, const spot *x)
{
    const float *g = job->grads + ((box * job->rows + row) * job->cols + col) * job->depth;
    int64_t at[4] = { 0 };

    if (!y->inside || !x->inside)
        return;
    if (job->nearest) {
        add_share(job, crop_pixel(job, box, y->nearest, x->nearest), g, 1, 1);
        return;
    }
    corners(job, box, y, x, at);
    add_share(job, at[0], g, 1 - y->part, 1 - x->part);
    add_share(job, at[1], g, 1 - y->part, x->part);
    add_share(job, at[2], g, y->part, 1 - x->part);
    add_share(job, at[3], g, y->part, x->part);
}

/* Derivative of a sample's position with respect to the sides of the box, times the slope of the
 * image. */
static void move_sides(float slope, int64_t size, int64_t samples, int64_t i, float *first,
                       float *last)
{
    const float share = (float)i * crop_ratio_of(size, samples), all = (float)(size - 1);

    *first += slope * (samples > 1 ? all - share : 0.5f * all);
    *last += slope * (samples > 1 ? share : 0.5f * all);
}

static void move_box(const crop_job *job, int64_t box, int64_t row, int64_t col, const spot *y,
                     const spot *x)
{
    const float *g = job->grads + ((box * job->rows + row) * job->cols + col) * job->depth;
    float *out = job->out + 4 * box;
    int64_t at[4] = { 0 };

    if (!y->inside || !x->inside)
        return;
    corners(job, box, y, x, at);
    for (int64_t d = 0; d < job->depth; d++) {
        const float tl = crop_value(job, at[0] + d), tr = crop_value(job, at[1] + d);
        const float bl = crop_value(job, at[2] + d), br = crop_value(job, at[3] + d);
        const float down = (1 - x->part) * (bl - tl) + x->part * (br - tr);
        const float right = (1 - y->part) * (tr - tl) + y->part * (br - bl);

        move_sides(down * g[d], job->height, job->rows, row, &out[0], &out[2]);
        move_sides(right * g[d], job->width, job->cols, col, &out[1], &out[3]);
    }
}

/* ---- inputs ---- */

static mf_status crop_prepare(mf_prepare *p)
{
    crop_state *s = MF_ARENA_NEW(p->arena, crop_state);

    if (!s)
        return MF_NOMEM("a crop");
    s->nearest = strcmp(mf_node_string(p->node, "method"), "nearest") == 0;
    s->outside = mf_node_float(p->node, "extrapolation_value");
    p->state = s;
    return MF_OK;
}

static mf_status set_image(crop_job *job, const mf_shape *image)
{
    char text[MF_SHAPE_TEXT];

    if (image->rank != 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "image must be 4-D, got shape %s",
                       mf_shape_text(image, text));
    job->batch = image->dims[0];
    job->height = image->dims[1];
    job->width = image->dims[2];
    job->depth = image->dims[3];
    if (job->height > 0 && job->width > 0)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "image dimensions must be positive, got shape %s",
                   mf_shape_text(image, text));
}

static mf_status set_boxes(crop_job *job, const mf_tensor *boxes, const mf_tensor *of)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (boxes->shape.rank != 2 || boxes->shape.dims[1] != 4 || of->shape.rank != 1 ||
        of->count != boxes->shape.dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT, "boxes must be [n,4] and box_ind [n], got %s and %s",
                       mf_shape_text(&boxes->shape, a), mf_shape_text(&of->shape, b));
    job->boxes = boxes->data;
    job->of = of->data;
    job->n = of->count;
    for (int64_t i = 0; i < job->n; i++) {
        if (job->of[i] < 0 || job->of[i] >= job->batch)
            return MF_FAIL(MF_OUT_OF_RANGE,
                           "box_index[%" PRId64 "] = %d is not in [0, %" PRId64 ")", i, job->of[i],
                           job->batch);
    }
    return MF_OK;
}

static mf_status set_grads(crop_job *job, const mf_tensor *grads)
{
    char text[MF_SHAPE_TEXT];

    if (grads->shape.rank != 4 || grads->shape.dims[0] != job->n ||
        grads->shape.dims[3] != job->depth || grads->shape.dims[1] < 1 || grads->shape.dims[2] < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "grads must be [%" PRId64 ",rows,columns,%" PRId64 "], got %s", job->n,
                       job->depth, mf_shape_text(&grads->shape, text));
    job->rows = grads->shape.dims[1];
    job->cols = grads->shape.dims[2];
    job->grads = grads->data;
    return MF_OK;
}

/* ---- kernels ---- */

static void crop_piece(void *ctx, int64_t box)
{
    each_sample(ctx, box, crop_take);
}

static mf_status crop_infer(mf_infer *in)
{
    const mf_shape *image = &in->in[0], *boxes = &in->in[1];
    mf_ivec size = { .n = 2, .v = { -1, -1 } };

    MF_TRY(mf_infer_rank(in, 0, 4));
    MF_TRY(mf_infer_rank(in, 1, 2));
    MF_TRY(mf_infer_rank(in, 2, 1));
    MF_TRY(mf_infer_rank(in, 3, 1));
    if (in->in_value[3] && in->in_value[3]->count == 2)
        MF_TRY(mf_ivec_read(in->in_value[3], 2, "crop_size", &size));
    in->out[0] = MF_SHAPE(boxes->rank == 2 ? boxes->dims[0] : -1, size.v[0] > 0 ? size.v[0] : -1,
                          size.v[1] > 0 ? size.v[1] : -1, image->rank == 4 ? image->dims[3] : -1);
    return MF_OK;
}

static mf_status crop_run(mf_kernel *k)
{
    const crop_state *s = k->state;
    crop_job job = { .image = k->in[0], .nearest = s->nearest, .outside = s->outside };
    mf_tensor *out;
    mf_ivec size;

    MF_TRY(set_image(&job, &k->in[0]->shape));
    MF_TRY(mf_ivec_read(k->in[3], 2, "crop_size", &size));
    if (size.n != 2 || size.v[0] < 1 || size.v[1] < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "crop_size must be two positive sizes, got %d, the first %" PRId64, size.n,
                       size.n > 0 ? size.v[0] : 0);
    MF_TRY(set_boxes(&job, k->in[1], k->in[2]));
    job.rows = size.v[0];
    job.cols = size.v[1];
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(job.n, job.rows, job.cols, job.depth), &out));
    if (out->count == 0)
        return MF_OK;
    job.out = out->data;
    return mf_kernel_parallel(k, job.n, crop_piece, &job);
}

static mf_status image_grad_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 4));
    return mf_infer_shape_input(in, 3, &in->out[0]);
}

/* Boxes of an image overlap, so they are processed in order. */
static void image_grad_piece(void *ctx, int64_t image)
{
    const crop_job *job = ctx;
    const int64_t count = job->height * job->width * job->depth, from = image * count;

    memset(job->sums + from, 0, (size_t)count * sizeof *job->sums);
    for (int64_t box = 0; box < job->n; box++) {
        if (job->of[box] == image)
            each_sample(job, box, crop_give_back);
        else if (mf_stopped_after(1))
            return;
    }
    for (int64_t i = from; i < from + count; i++) {
        if (job->changed->dtype == MF_DTYPE_F32)
            ((float *)job->changed->data)[i] = (float)job->sums[i];
        else
            mf_tensor_put(job->changed, i, job->sums[i]);
    }
}

/* (grads, boxes, box_ind, image_size) */
static mf_status image_grad_run(mf_kernel *k)
{
    const crop_state *s = k->state;
    crop_job job = { .nearest = s->nearest };
    mf_tensor sums = { 0 }, *out;
    mf_shape shape;
    mf_status st;

    MF_TRY(mf_shape_read(k->in[3], "image_size", &shape));
    MF_TRY(set_image(&job, &shape));
    MF_TRY(set_boxes(&job, k->in[1], k->in[2]));
    MF_TRY(set_grads(&job, k->in[0]));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (out->count == 0)
        return MF_OK;
    MF_TRY_TO(done, mf_tensor_alloc(&sums, MF_DTYPE_F64, &shape));
    job.sums = sums.data;
    job.changed = out;
    st = mf_kernel_parallel(k, job.batch, image_grad_piece, &job);
done:
    mf_tensor_clear(&sums);
    return st;
}

static mf_status boxes_grad_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 4));
    MF_TRY(mf_infer_rank(in, 1, 4));
    MF_TRY(mf_infer_rank(in, 2, 2));
    in->out[0] = in->in[2];
    return MF_OK;
}

/* (grads, image, boxes, box_ind) */
static mf_status boxes_grad_run(mf_kernel *k)
{
    crop_job job = { .image = k->in[1], .by_ratio = true };
    mf_tensor *out;

    MF_TRY(set_image(&job, &k->in[1]->shape));
    MF_TRY(set_boxes(&job, k->in[2], k->in[3]));
    MF_TRY(set_grads(&job, k->in[0]));
    MF_TRY(mf_kernel_out(k, 0, &k->in[2]->shape, &out));
    mf_cells_zero(MF_DTYPE_F32, out->data, 0, out->count);
    job.out = out->data;
    for (int64_t box = 0; box < job.n && job.depth > 0; box++)
        each_sample(&job, box, move_box);
    return mf_stop_check();
}

/* The gradient of the boxes is always bilinear, as in TensorFlow. */
static mf_status crop_grad(mf_grad *g)
{
    const mf_dtype type = mf_grad_type(g->x[0]);

    if (mf_dtype_is_float(type))
        g->dx[0] =
            mf_applyf(g->graph, "CropAndResizeGradImage",
                      MF_IN(g->dy[0], g->x[1], g->x[2], MF_G1("Shape", g->x[0])),
                      "T=%s method='%s'", mf_dtype_name(type), mf_node_string(g->node, "method"));
    g->dx[1] =
        mf_apply(g->graph, "CropAndResizeGradBoxes", MF_IN(g->dy[0], g->x[0], g->x[1], g->x[2]));
    return MF_OK;
}

#define CROP_OP(NAME, DEF, INFER, GRAD, RUN, ...)                                                  \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = GRAD, .prepare = crop_prepare,           \
        .run = RUN, .samples = MF_SAMPLES(__VA_ARGS__)                                             \
    }
#define TYPES "T:type in [uint8,uint16,int8,int16,int32,int64,half,float,double]"
#define METHODS "method:string='bilinear' in ['bilinear','nearest']"
#define BOXES "f32[3,4]{0.1,0.2,0.7,0.9,0,0,1,1,0.8,0.6,0.2,1.3}"

const mf_op mf_ops_crop[] = {
    CROP_OP("CropAndResize",
            "(image:T, boxes:float, box_ind:int32, crop_size:int32) -> (crops:float) {" TYPES
            ", " METHODS ", extrapolation_value:float=0}",
            crop_infer, crop_grad, crop_run, "f32[2,5,6,3] " BOXES "~ i32[3]{1,0,1} i32[2]{3,4}",
            "f32[2,5,6,3] " BOXES "~ i32[3]{1,0,1} i32[2]{3,4} ; method='nearest'",
            "f32[2,5,6,1] " BOXES "~ i32[3]{1,0,1} i32[2]{1,1} ; extrapolation_value=7",
            "u8[1,4,4,2]@0:9 f32[1,4]{0,0,1,1} i32[1]{0} i32[2]{2,2} !nograd",
            "f64[1,4,4,2] f32[0,4] i32[0] i32[2]{2,2} !nograd",
            "f32[1,4,4,2] f32[1,4] i32[1]{1} i32[2]{2,2} !fails",
            "f32[1,4,4,2] f32[1,4] i32[1]{0} i32[2]{0,2} !fails",
            "f32[1,4,4,2] f32[1,4] i32[2]{0,0} i32[2]{2,2} !fails"),
    CROP_OP("CropAndResizeGradImage",
            "(grads:float, boxes:float, box_ind:int32, image_size:int32) -> (output:T) {T:type in "
            "[float,half,double], " METHODS "}",
            image_grad_infer, mf_grad_missing, image_grad_run,
            "f32[3,2,3,2] " BOXES " i32[3]{1,0,1} i32[4]{2,5,6,2} ; T=float !nograd",
            "f32[3,2,3,2] " BOXES
            " i32[3]{1,0,1} i32[4]{2,5,6,2} ; T=float method='nearest' !nograd",
            "f32[3,2,3,2] " BOXES " i32[3]{1,0,2} i32[4]{2,5,6,2} ; T=float !fails"),
    CROP_OP("CropAndResizeGradBoxes",
            "(grads:float, image:T, boxes:float, box_ind:int32) -> (output:float) {" TYPES
            ", method:string='bilinear' in ['bilinear']}",
            boxes_grad_infer, mf_grad_missing, boxes_grad_run,
            "f32[3,2,3,2] f32[2,5,6,2] " BOXES " i32[3]{1,0,1} !nograd",
            "f32[3,1,1,2] f32[2,5,6,2] " BOXES " i32[3]{1,0,1} !nograd",
            "f32[3,2,3,2] i32[2,5,6,2] " BOXES " i32[3]{1,0,1} !nograd"),
    { 0 },
};
