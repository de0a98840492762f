/* SPDX-License-Identifier: Apache-2.0 */
/* draw.c - DrawBoundingBoxes and its V2: frames around boxes of images. */
#include "ops/array/array_util.h"

typedef struct draw_job {
    mf_tensor *out;
    const mf_tensor *boxes, *colors; /* colors NULL: the default palette */
    int64_t height, width, depth, n;
} draw_job;

static const float usual[10][4] = { { 1, 1, 0, 1 },    { 0, 0, 1, 1 },       { 1, 0, 0, 1 },
                                    { 0, 1, 0, 1 },    { 0.5f, 0, 0.5f, 1 }, { 0.5f, 0.5f, 0, 1 },
                                    { 0.5f, 0, 0, 1 }, { 0, 0, 0.5f, 1 },    { 0, 1, 1, 1 },
                                    { 1, 0, 1, 1 } };

static float color_of(const draw_job *job, int64_t box, int64_t channel)
{
    const mf_tensor *c = job->colors;

    if (c && c->shape.dims[0] > 0)
        return ((const float *)c->data)[box % c->shape.dims[0] * c->shape.dims[1] + channel];
    return job->depth == 1 ? 1 : usual[box % MF_COUNT(usual)][channel];
}

/* A line of pixels, including both ends. */
static void line(const draw_job *job, int64_t image, int64_t box, const int64_t from[2],
                 const int64_t to[2])
{
    for (int64_t y = from[0]; y <= to[0]; y++) {
        for (int64_t x = from[1]; x <= to[1]; x++) {
            const int64_t at = ((image * job->height + y) * job->width + x) * job->depth;

            for (int64_t c = 0; c < job->depth; c++)
                mf_tensor_put(job->out, at + c, (double)color_of(job, box, c));
        }
    }
}

/* Sides of the frame outside the image are not drawn; NaN counts as outside. */
static int64_t draw_pixel(float x, int64_t size)
{
    const float at = x * (float)(size - 1);

    return at >= (float)size ? size : at > -1 ? (int64_t)at : -1;
}

static void draw_box(const draw_job *job, int64_t image, int64_t box)
{
    const float *b = (const float *)job->boxes->data + (image * job->n + box) * 4;
    const int64_t size[2] = { job->height, job->width };
    int64_t from[2], to[2], low[2], high[2];

    for (int d = 0; d < 2; d++) {
        from[d] = draw_pixel(b[d], size[d]);
        to[d] = draw_pixel(b[d + 2], size[d]);
        if (!(b[d] * (float)(size[d] - 1) < (float)size[d]) || from[d] > to[d] ||
            from[d] >= size[d] || to[d] < 0)
            return;
        low[d] = from[d] < 0 ? 0 : from[d];
        high[d] = to[d] >= size[d] ? size[d] - 1 : to[d];
    }
    if (from[0] >= 0)
        line(job, image, box, low, (const int64_t[]){ low[0], high[1] });
    if (to[0] < job->height)
        line(job, image, box, (const int64_t[]){ high[0], low[1] }, high);
    if (from[1] >= 0)
        line(job, image, box, low, (const int64_t[]){ high[0], low[1] });
    if (to[1] < job->width)
        line(job, image, box, (const int64_t[]){ low[0], high[1] }, high);
}

static void draw_image(void *ctx, int64_t image)
{
    const draw_job *job = ctx;

    for (int64_t box = 0; box < job->n && !mf_stopped_after(job->height + job->width); box++)
        draw_box(job, image, box);
}

static mf_status draw_check(const mf_kernel *k)
{
    const mf_shape *s = &k->in[0]->shape, *b = &k->in[1]->shape;
    char image[MF_SHAPE_TEXT], box[MF_SHAPE_TEXT];

    if (s->rank != 4 || (s->dims[3] != 1 && s->dims[3] != 3 && s->dims[3] != 4))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "images must be 4-dimensional with 1 (GRY), 3 (RGB) or 4 (RGBA) channels, "
                       "got shape %s",
                       mf_shape_text(s, image));
    if (b->rank != 3 || b->dims[2] != 4 || b->dims[0] != s->dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "boxes must be [batch, boxes, 4] for images of shape %s, got %s",
                       mf_shape_text(s, image), mf_shape_text(b, box));
    if (k->n_in == 3 && (k->in[2]->shape.rank != 2 || k->in[2]->shape.dims[1] < s->dims[3]))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "colors must be a matrix with a column for each channel, got shape %s",
                       mf_shape_text(&k->in[2]->shape, box));
    return MF_OK;
}

static mf_status draw_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 4));
    MF_TRY(mf_infer_rank(in, 1, 3));
    return mf_infer_same(in);
}

static mf_status draw_run(mf_kernel *k)
{
    const mf_shape *s = &k->in[0]->shape;
    draw_job job = { .boxes = k->in[1], .colors = k->n_in == 3 ? k->in[2] : NULL };

    MF_TRY(draw_check(k));
    MF_TRY(mf_kernel_out(k, 0, s, &job.out));
    MF_TRY(mf_cells_copy(job.out->dtype, job.out->data, 0, k->in[0]->data, 0, k->in[0]->count));
    job.height = s->dims[1];
    job.width = s->dims[2];
    job.depth = s->dims[3];
    job.n = k->in[1]->shape.dims[1];
    return mf_kernel_parallel(k, s->dims[0], draw_image, &job);
}

#define BOXES "f32[2,2,4]{0.1,0.1,0.9,0.9,-0.5,0.2,0.6,1.5,0.7,0.1,0.3,0.9,0,0,1,1}"

const mf_op mf_ops_draw[] = {
    { .name = "DrawBoundingBoxes",
      .def = "(images:T, boxes:float) -> (output:T) {T:type=float in [float,half]}",
      .infer = draw_infer,
      .grad = mf_grad_missing,
      .run = draw_run,
      .samples = MF_SAMPLES("f32[2,7,8,3] " BOXES, "f32[2,7,8,1] " BOXES, "f16[2,5,4,4] " BOXES,
                            "f32[1,5,4,3] f32[1,0,4]", "f32[1,5,4,3] f32[1,12,4]@-0.2:1.2",
                            "f32[2,7,8,2] " BOXES " !fails", "f32[1,7,8,3] " BOXES " !fails",
                            "f32[1,5,4,3] f32[1,2,3] !fails") },
    { .name = "DrawBoundingBoxesV2",
      .def = "(images:T, boxes:float, colors:float) -> (output:T) {T:type=float in [float,half]}",
      .infer = draw_infer,
      .grad = mf_grad_missing,
      .run = draw_run,
      .samples = MF_SAMPLES("f32[2,7,8,3] " BOXES " f32[3,3]", "f32[2,7,8,3] " BOXES " f32[0,4]",
                            "f32[2,7,8,3] " BOXES " f32[3,2] !fails") },
    { 0 },
};
