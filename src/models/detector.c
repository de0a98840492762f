/* SPDX-License-Identifier: Apache-2.0 */
/* detector.c - the layers of Faster R-CNN (Ren et al. 2015), trained as in document 003: regions
 * are proposed at anchors, filtered, cropped from the features, and classified. Values that the
 * loss and the metric need are stored under names (mf_model_name_output).
 *
 * All shapes are fixed and samples are independent, so results do not depend on shards or workers.
 * If a job has several meshes (docs/guides/mesh.md), the filter can be placed on one of them:
 * candidates are gathered there, and the selected boxes are sent back. */
#include "models/boxes.h"

#include <meshflow/mesh.h>

#include <stdio.h>
#include <string.h>

static mf_output detector_two(mf_layer_call *l, const char *op, mf_output a, mf_output b)
{
    return mf_apply(l->graph, op, MF_IN(a, b));
}

static mf_output detector_keep(mf_layer_call *l, const char *name, mf_output x)
{
    mf_model_name_output(l->model, name, x);
    return x;
}

/* ---- anchors ---- */

/* Boxes of every size around every position of the features: [1, positions * sizes, 4]. */
static mf_status fill_anchors(const mf_layer_call *l, const int64_t *sizes, int64_t n,
                              const int64_t *image, mf_tensor *out)
{
    const int64_t rows = l->shape.dims[1], cols = l->shape.dims[2];
    float *box;

    MF_TRY(mf_tensor_alloc(out, MF_DTYPE_F32, &MF_SHAPE(1, rows * cols * n, 4)));
    box = out->data;
    for (int64_t i = 0; i < rows * cols * n; i++, box += 4) {
        const int64_t place = i / n, row = place / cols, col = place % cols;
        const int64_t *size = sizes + 2 * (i % n);
        const float y = ((float)row + 0.5f) / (float)rows, x = ((float)col + 0.5f) / (float)cols;
        const float h = 0.5f * (float)size[0] / (float)image[0],
                    w = 0.5f * (float)size[1] / (float)image[1];

        memcpy(box, (float[]){ y - h, x - w, y + h, x + w }, 4 * sizeof *box);
    }
    return MF_OK;
}

static mf_output anchors(mf_layer_call *l, const int64_t *sizes, int64_t n, const int64_t *image)
{
    mf_tensor t = { 0 };
    mf_output c = { 0 };
    mf_status st = fill_anchors(l, sizes, n, image, &t);

    if (st == MF_OK)
        c = mf_constant(l->graph, &t, NULL);
    else
        mf_graph_fail(l->graph, st);
    mf_tensor_clear(&t);
    return c;
}

/* ---- proposals ---- */

static mf_output detector_conv(mf_layer_call *l, mf_output x, const char *part, int64_t filters,
                               int size, const char *more)
{
    return mf_layer(l->model, "Conv2D", MF_IN(x),
                    "name='%s/%s' filters=%lld kernel_size=%d padding=same %s", l->name, part,
                    (long long)filters, size, more);
}

/* Non-maximum suppression: [n,most,4], padded with empty boxes. If it runs on another mesh,
 * candidates and results are sent under these names, which appear in traces. */
static mf_output filtered(mf_layer_call *l, mf_output boxes, mf_output scores)
{
    const int64_t most = mf_options_int(&l->o, "proposals"), mesh = mf_options_int(&l->o, "mesh"),
                  n = mf_model_shape(l->model, scores).dims[1];
    const mf_output count = mf_scalar(l->graph, MF_DTYPE_I32, (double)most);
    mf_output out;

    boxes = mf_applyf(l->graph, "Reshape",
                      MF_IN(boxes, mf_ints(l->graph, (int64_t[]){ -1, n, 1, 4 }, 4)),
                      "name='candidate_boxes'");
    scores =
        mf_applyf(l->graph, "Reshape", MF_IN(scores, mf_ints(l->graph, (int64_t[]){ -1, n, 1 }, 3)),
                  "name='candidate_scores'");
    out = mf_applyf(l->graph, "CombinedNonMaxSuppression",
                    MF_IN(boxes, scores, count, count,
                          mf_layer_number(l, mf_options_float(&l->o, "overlap")),
                          mf_layer_number(l, 0.0)),
                    "name='filter'");
    if (mesh >= 0 && out.node)
        mf_put_on_mesh(l->graph, out, (int)mesh);
    return mf_apply(l->graph, "StopGradient", MF_IN(out));
}

static mf_output proposals_build(mf_layer_call *l)
{
    int64_t n_sizes, n_image;
    const int64_t *sizes = mf_options_ints(&l->o, "anchors", &n_sizes);
    const int64_t *image = mf_options_ints(&l->o, "image", &n_image);
    const int64_t each = n_sizes / 2, places = l->shape.dims[1] * l->shape.dims[2];
    mf_output x, scores, code, at;

    if (each < 1 || n_sizes % 2 != 0 || n_image != 2)
        return mf_layer_fail(l, "anchors must be pairs of height and width in pixels, and image "
                                "a height and a width");
    for (int64_t i = 0; i < n_sizes + 2; i++) {
        if ((i < n_sizes ? sizes[i] : image[i - n_sizes]) < 1)
            return mf_layer_fail(l, "anchors and image must have sizes of at least one pixel");
    }
    at = detector_keep(l, "anchors", anchors(l, sizes, each, image));
    x = detector_conv(l, l->in[0], "conv", mf_options_int(&l->o, "filters"), 3,
                      "activation=relu kernel_initializer=he_normal");
    scores = detector_conv(l, x, "objectness", each, 1,
                           "kernel_initializer='random_normal stddev=0.01'");
    code =
        detector_conv(l, x, "boxes", 4 * each, 1, "kernel_initializer='random_normal stddev=0.01'");
    scores = mf_layer_reshape(l, scores, (int64_t[]){ -1, places * each }, 2);
    code = mf_layer_reshape(l, code, (int64_t[]){ -1, places * each, 4 }, 3);
    detector_keep(l, "objectness", scores);
    detector_keep(l, "anchor_codes", code);
    return detector_keep(
        l, "proposals",
        filtered(l, mf_boxes_decode(l, code, at), mf_apply(l->graph, "Sigmoid", MF_IN(scores))));
}

/* ---- regions of interest ---- */

/* The index of the sample for every box: 0 .. 0, 1 .. 1, ... */
static mf_output sample_numbers(mf_layer_call *l, mf_output features, int64_t boxes)
{
    const mf_output zero = mf_scalar(l->graph, MF_DTYPE_I32, 0),
                    one = mf_scalar(l->graph, MF_DTYPE_I32, 1);
    const mf_output n = mf_applyf(
        l->graph, "StridedSlice",
        MF_IN(mf_apply(l->graph, "Shape", MF_IN(features)), mf_ints(l->graph, (int64_t[]){ 0 }, 1),
              mf_ints(l->graph, (int64_t[]){ 1 }, 1), mf_ints(l->graph, (int64_t[]){ 1 }, 1)),
        "shrink_axis_mask=1");
    const mf_output all =
        detector_two(l, "Mul", n, mf_scalar(l->graph, MF_DTYPE_I32, (double)boxes));

    return detector_two(l, "FloorDiv", mf_apply(l->graph, "Range", MF_IN(zero, all, one)),
                        mf_scalar(l->graph, MF_DTYPE_I32, (double)boxes));
}

/* CropAndResize samples at the corners of a grid, and its coordinates 0 and 1 are the centres of
 * the first and last position. We sample the centres of size x size equal cells of a box whose
 * coordinates 0 and 1 are the borders: y -> (y * positions - 1/2) / (positions - 1), each side half
 * a cell further in. */
static mf_output grid(mf_layer_call *l, mf_output boxes, int64_t size)
{
    const double part = 0.5 / (double)size, rows = (double)l->shape.dims[1],
                 cols = (double)l->shape.dims[2];
    const double scale[] = { rows / (rows - 1), cols / (cols - 1) },
                 shift[] = { -0.5 / (rows - 1), -0.5 / (cols - 1) };
    float mix[16] = { 0 }, add[4];
    mf_tensor m = { 0 }, a = { 0 };
    mf_status st;

    for (int i = 0; i < 2; i++) { /* columns of the matrix that maps boxes to sides */
        mix[4 * i + i] = mix[4 * (i + 2) + i + 2] = (float)(scale[i] * (1 - part));
        mix[4 * (i + 2) + i] = mix[4 * i + i + 2] = (float)(scale[i] * part);
        add[i] = add[i + 2] = (float)shift[i];
    }
    MF_TRY_TO(done, mf_tensor_alloc(&m, MF_DTYPE_F32, &MF_SHAPE(4, 4)));
    MF_TRY_TO(done, mf_tensor_alloc(&a, MF_DTYPE_F32, &MF_SHAPE(4)));
    memcpy(m.data, mix, sizeof mix);
    memcpy(a.data, add, sizeof add);
    boxes = detector_two(l, "MatMul", mf_layer_reshape(l, boxes, (int64_t[]){ -1, 4 }, 2),
                         mf_constant(l->graph, &m, NULL));
    boxes = detector_two(l, "AddV2", boxes, mf_constant(l->graph, &a, NULL));
done:
    if (st != MF_OK)
        mf_graph_fail(l->graph, st);
    mf_tensor_clear(&m);
    mf_tensor_clear(&a);
    return boxes;
}

static mf_output align_build(mf_layer_call *l)
{
    const int64_t size = mf_options_int(&l->o, "size"), channels = l->shape.dims[3];
    const mf_shape boxes = mf_model_shape(l->model, l->in[1]);
    const int64_t sizes[] = { size, size };
    mf_output x;

    if (boxes.rank != 3 || boxes.dims[2] != 4 || boxes.dims[1] < 1 || l->shape.dims[1] < 2 ||
        l->shape.dims[2] < 2)
        return mf_layer_fail(l, "features [n,h,w,c] of at least 2x2 positions and boxes "
                                "[n,boxes,4] are needed");
    x = mf_apply(l->graph, "CropAndResize",
                 MF_IN(l->in[0], grid(l, l->in[1], size),
                       sample_numbers(l, l->in[0], boxes.dims[1]), mf_ints(l->graph, sizes, 2)));
    return mf_layer_reshape(l, x, (int64_t[]){ -1, boxes.dims[1], size * size * channels }, 3);
}

/* ---- detections ---- */

static mf_output detections_build(mf_layer_call *l)
{
    const mf_shape *scores = &l->shape;
    const int64_t regions = scores->dims[1], classes = scores->dims[2] - 1;
    const mf_output present = mf_boxes_present(l, l->in[2]);
    mf_output p, boxes, out, score, class;

    if (classes < 1)
        return mf_layer_fail(l, "scores of the background and of at least one class are needed");
    detector_keep(l, "scores", l->in[0]);
    detector_keep(l, "region_codes", l->in[1]);
    p = mf_boxes_columns(l, mf_apply(l->graph, "Softmax", MF_IN(l->in[0])), 1, classes + 1);
    boxes = mf_layer_reshape(l, mf_boxes_decode(l, l->in[1], l->in[2]),
                             (int64_t[]){ -1, regions, 1, 4 }, 4);
    out = mf_apply(l->graph, "CombinedNonMaxSuppression",
                   MF_IN(boxes, detector_two(l, "Mul", p, present),
                         mf_scalar(l->graph, MF_DTYPE_I32, (double)mf_options_int(&l->o, "most")),
                         mf_scalar(l->graph, MF_DTYPE_I32, (double)mf_options_int(&l->o, "most")),
                         mf_layer_number(l, mf_options_float(&l->o, "overlap")),
                         mf_layer_number(l, mf_options_float(&l->o, "least"))));
    score = mf_layer_reshape(l, (mf_output){ out.node, 1 },
                             (int64_t[]){ -1, mf_options_int(&l->o, "most"), 1 }, 3);
    class = mf_layer_reshape(l, (mf_output){ out.node, 2 },
                             (int64_t[]){ -1, mf_options_int(&l->o, "most"), 1 }, 3);
    return mf_apply(l->graph, "ConcatV2",
                    MF_IN(out, score, class, mf_scalar(l->graph, MF_DTYPE_I32, 2)));
}

const mf_layer_kind mf_layers_detector[] = {
    { "RegionProposals",
      "{anchors: list(int), image: list(int), filters: int >= 1 = 64, proposals: int >= 1 = 32, "
      "overlap: float = 0.7, mesh: int = -1}",
      1, 1, 4, "boxes [n,proposals,4] that may hold an object, out of features [n,h,w,c]",
      proposals_build },
    { "RoIAlign", "{size: int >= 1 = 7}", 2, 2, 4,
      "features [n,h,w,c] inside of boxes [n,boxes,4], on a grid of size x size each",
      align_build },
    { "Detections", "{most: int >= 1 = 20, overlap: float = 0.5, least: float = 0.01}", 3, 3, 3,
      "scores [n,boxes,1+classes], codes and boxes become [n,most,6]: box, score, class",
      detections_build },
    { 0 },
};
