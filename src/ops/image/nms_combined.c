/* SPDX-License-Identifier: Apache-2.0 */
/* nms_combined.c - CombinedNonMaxSuppression: the best boxes of all classes of every image, after
 * suppression within each class. Images are independent pieces of work. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/image/nms.h"

#include <stdlib.h>
#include <string.h>

/* A box selected in a class. */
typedef struct nms_combined_found {
    float score;
    int32_t box, class;
} nms_combined_found;

typedef struct combined {
    const float *boxes, *scores; /* [images,n,each,4], [images,n,classes] */
    int64_t images, n, each, classes;
    int64_t per_class, total; /* maximum per class, maximum per image */
    int64_t size; /* rows per image in the results */
    float overlap, least;
    bool clip;
    char *scratch; /* this many bytes per image */
    int64_t scratch_bytes;
    float *out_boxes, *out_scores, *out_classes;
    int32_t *out_valid;
} combined;

/* ---- an image ---- */

/* All elements have four bytes, so the arrays are contiguous. */
static int64_t nms_combined_scratch_of(const combined *c)
{
    return c->n * (int64_t)(sizeof(mf_nms_box) + sizeof(mf_nms_candidate)) +
           c->per_class * (int64_t)(sizeof(int32_t) + sizeof(float)) +
           c->per_class * c->classes * (int64_t)sizeof(nms_combined_found);
}

static mf_suppression nms_combined_begin(const combined *c, char *at, nms_combined_found **all)
{
    mf_suppression s = { .overlap = c->overlap, .least = c->least, .n = c->n, .max = c->per_class };

    s.boxes = (void *)at;
    s.heap = (void *)(s.boxes + c->n);
    s.index = (void *)(s.heap + c->n);
    s.score = (void *)(s.index + c->per_class);
    *all = (void *)(s.score + c->per_class);
    return s;
}

static const float *nms_combined_box_of(const combined *c, int64_t image, int64_t box,
                                        int64_t class)
{
    return c->boxes + ((image * c->n + box) * c->each + (c->each > 1 ? class : 0)) * 4;
}

static int64_t of_class(const combined *c, int64_t image, int64_t class, mf_suppression *s,
                        nms_combined_found *to)
{
    s->n_heap = s->chosen = 0;
    for (int64_t i = 0; i < c->n; i++)
        mf_nms_offer(s, (int32_t)i, nms_combined_box_of(c, image, i, class),
                     c->scores[(image * c->n + i) * c->classes + class]);
    mf_nms_choose(s);
    for (int64_t i = 0; i < s->chosen; i++)
        to[i] = (nms_combined_found){ s->score[i], s->index[i], (int32_t) class };
    return s->chosen;
}

/* Descending score; ties by class, then box. */
static int by_score(const void *a, const void *b)
{
    const nms_combined_found *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->class != y->class ? x->class - y->class : x->box - y->box;
}

static float nms_combined_clipped(float v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

static void write_image(const combined *c, int64_t image, const nms_combined_found *all, int64_t n)
{
    float *boxes = c->out_boxes + image * c->size * 4;

    for (int64_t i = 0; i < c->size; i++) {
        const float *box = i < n ? nms_combined_box_of(c, image, all[i].box, all[i].class) : NULL;

        for (int k = 0; k < 4; k++)
            boxes[4 * i + k] = !box ? 0 : c->clip ? nms_combined_clipped(box[k]) : box[k];
        c->out_scores[image * c->size + i] = box ? all[i].score : 0;
        c->out_classes[image * c->size + i] = box ? (float)all[i].class : 0;
    }
    c->out_valid[image] = (int32_t)n;
}

static void image_piece(void *ctx, int64_t image)
{
    const combined *c = ctx;
    nms_combined_found *all;
    mf_suppression s = nms_combined_begin(c, c->scratch + image * c->scratch_bytes, &all);
    int64_t n = 0;

    for (int64_t class = 0; class < c->classes && !mf_stopped_after(c->n); class ++)
        n += of_class(c, image, class, &s, all + n);
    if (n > 1)
        qsort(all, (size_t)n, sizeof *all, by_score);
    write_image(c, image, all, n < c->size ? n : c->size);
}

/* ---- inputs ---- */

static bool nms_combined_differ(int64_t a, int64_t b)
{
    return a >= 0 && b >= 0 && a != b;
}

static mf_status nms_combined_check_shapes(const mf_shape *boxes, const mf_shape *scores)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    const bool known = boxes->rank == 4 && scores->rank == 3;

    if ((boxes->rank >= 0 && boxes->rank != 4) || (scores->rank >= 0 && scores->rank != 3) ||
        (boxes->rank == 4 && nms_combined_differ(boxes->dims[3], 4)) ||
        (known && (nms_combined_differ(boxes->dims[0], scores->dims[0]) ||
                   nms_combined_differ(boxes->dims[1], scores->dims[1]) ||
                   (boxes->dims[2] != 1 && nms_combined_differ(boxes->dims[2], scores->dims[2])))))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "boxes must be [images,n,1 or classes,4] and scores [images,n,classes], got "
                       "%s and %s",
                       mf_shape_text(boxes, a), mf_shape_text(scores, b));
    return MF_OK;
}

static mf_status nms_combined_check_size(const char *what, int64_t size)
{
    if (size > 0)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be positive, got %lld", what, (long long)size);
}

/* Rows of an image in the results. */
static int64_t nms_combined_size_of(const mf_node *n, int64_t per_class, int64_t total,
                                    int64_t classes)
{
    if (!mf_node_bool(n, "pad_per_class"))
        return total;
    if (classes < 0)
        return MF_UNKNOWN_DIM;
    return classes == 0 || per_class < total / classes + 1
               ? (per_class * classes < total ? per_class * classes : total)
               : total;
}

static mf_status nms_combined_read_inputs(const mf_kernel *k, combined *c)
{
    const mf_shape *boxes = &k->in[0]->shape, *scores = &k->in[1]->shape;
    char text[MF_SHAPE_TEXT];
    int64_t per_class;

    MF_TRY(nms_combined_check_shapes(boxes, scores));
    for (int i = 2; i < 6; i++) {
        if (k->in[i]->shape.rank != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be 0-D, got shape %s",
                           k->node->def->in[i].name, mf_shape_text(&k->in[i]->shape, text));
    }
    per_class = mf_tensor_int_at(k->in[2], 0);
    c->total = mf_tensor_int_at(k->in[3], 0);
    c->overlap = (float)mf_tensor_float_at(k->in[4], 0);
    c->least = (float)mf_tensor_float_at(k->in[5], 0);
    MF_TRY(nms_combined_check_size("max_output_size_per_class", per_class));
    MF_TRY(nms_combined_check_size("max_total_size", c->total));
    if (!(c->overlap >= 0 && c->overlap <= 1))
        return MF_FAIL(MF_INVALID_ARGUMENT, "iou_threshold must be in [0, 1], got %g",
                       (double)c->overlap);
    c->images = boxes->dims[0];
    c->n = boxes->dims[1];
    c->each = boxes->dims[2];
    c->classes = scores->dims[2];
    c->per_class = per_class < c->n ? per_class : c->n;
    c->size = nms_combined_size_of(k->node, per_class, c->total, c->classes);
    c->clip = mf_node_bool(k->node, "clip_boxes");
    c->boxes = k->in[0]->data;
    c->scores = k->in[1]->data;
    return MF_OK;
}

/* ---- the op ---- */

static mf_status combined_infer(mf_infer *in)
{
    const mf_shape *boxes = &in->in[0], *scores = &in->in[1];
    const int64_t images = boxes->rank == 4 && boxes->dims[0] >= 0 ? boxes->dims[0]
                           : scores->rank == 3                     ? scores->dims[0]
                                                                   : MF_UNKNOWN_DIM;
    int64_t per_class, total, size = MF_UNKNOWN_DIM;
    const bool has_class = mf_infer_int_input(in, 2, &per_class);
    const bool has_total = mf_infer_int_input(in, 3, &total);

    MF_TRY(nms_combined_check_shapes(boxes, scores));
    for (int i = 2; i < 6; i++)
        MF_TRY(mf_infer_rank(in, i, 0));
    if (has_class)
        MF_TRY(nms_combined_check_size("max_output_size_per_class", per_class));
    if (has_total)
        MF_TRY(nms_combined_check_size("max_total_size", total));
    if (has_class && has_total)
        size = nms_combined_size_of(in->node, per_class, total,
                                    scores->rank == 3 ? scores->dims[2] : -1);
    in->out[0] = MF_SHAPE(images, size, 4);
    in->out[1] = in->out[2] = MF_SHAPE(images, size);
    in->out[3] = MF_SHAPE(images);
    return MF_OK;
}

static mf_status combined_run(mf_kernel *k)
{
    mf_tensor *boxes, *scores, *classes, *valid, scratch = { 0 };
    combined c = { 0 };
    mf_status st;

    MF_TRY(nms_combined_read_inputs(k, &c));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(c.images, c.size, 4), &boxes));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(c.images, c.size), &scores));
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(c.images, c.size), &classes));
    MF_TRY(mf_kernel_out(k, 3, &MF_SHAPE(c.images), &valid));
    c.scratch_bytes = nms_combined_scratch_of(&c);
    MF_TRY_TO(done, mf_tensor_alloc(&scratch, MF_DTYPE_U8, &MF_SHAPE(c.images, c.scratch_bytes)));
    c.scratch = scratch.data;
    c.out_boxes = boxes->data;
    c.out_scores = scores->data;
    c.out_classes = classes->data;
    c.out_valid = valid->data;
    st = mf_kernel_parallel(k, c.images, image_piece, &c);
done:
    mf_tensor_clear(&scratch);
    return st;
}

static void combined_split(mf_split *s)
{
    mf_split_text(s, "b...,b..,,,,->b..,b.,b.,b", MF_CUT_FREE);
}

const mf_op mf_op_combined_non_max_suppression = {
    .name = "CombinedNonMaxSuppression",
    .rows = mf_rows_boxes,
    .def = "(boxes:float, scores:float, max_output_size_per_class:int32, max_total_size:int32, "
           "iou_threshold:float, score_threshold:float) -> (nmsed_boxes:float, nmsed_scores:float, "
           "nmsed_classes:float, valid_detections:int32) {pad_per_class:bool=false, "
           "clip_boxes:bool=true}",
    .infer = combined_infer,
    .grad = mf_grad_none,
    .run = combined_run,
    .split = combined_split,
    .samples = MF_SAMPLES(
        "f32[2,9,1,4]@0:1 f32[2,9,3]@0:1 i32[]{4} i32[]{7} f32[]{0.3} f32[]{0.2}",
        "f32[3,11,4,4] f32[3,11,4] i32[]{5} i32[]{9} f32[]{0.5} f32[]{0} ; clip_boxes=false",
        "f32[2,7,2,4]@0:1 f32[2,7,2]@0:1 i32[]{2} i32[]{9} f32[]{0.1} f32[]{0} ; "
        "pad_per_class=true",
        "f32[1,5,1,4] f32[1,5,1] i32[]{9} i32[]{3} f32[]{1} f32[]{-3}",
        "f32[2,5,1,4] f32[2,5,2] i32[]{3} i32[]{3} f32[]{0.5} f32[]{9}",
        "f32[1,5,3,4] f32[1,5,2] i32[]{3} i32[]{3} f32[]{0.5} f32[]{0} !fails",
        "f32[1,5,1,4] f32[1,4,2] i32[]{3} i32[]{3} f32[]{0.5} f32[]{0} !fails",
        "f32[1,5,1,4] f32[1,5,2] i32[]{0} i32[]{3} f32[]{0.5} f32[]{0} !fails",
        "f32[1,5,1,4] f32[1,5,2] i32[]{3} i32[]{3} f32[]{1.5} f32[]{0} !fails"),
};
