/* SPDX-License-Identifier: Apache-2.0 */
/* detection_loss.c - the loss of a two-stage detector: anchors and proposals are matched with the
 * objects of their image, which determines their targets. Every value depends on one sample only,
 * so matches do not depend on how samples are sharded. */
#include "models/detection.h"

/* Minimum overlap of a positive box, and maximum overlap of a negative anchor. */
static const double OBJECT = 0.5, NOBODY = 0.3, NEAR = 0.15;

typedef struct detection {
    mf_layer_call *l;
    mf_output label; /* [n,objects,5] */
} detection;

static mf_output detection_loss_two(const detection *d, const char *op, mf_output a, mf_output b)
{
    return mf_apply(d->l->graph, op, MF_IN(a, b));
}

static mf_output detection_loss_number(const detection *d, double value)
{
    return mf_layer_number(d->l, value);
}

static mf_output detection_loss_as_float(const detection *d, mf_output x)
{
    return mf_applyf(d->l->graph, "Cast", MF_IN(x), "DstT=float");
}

static mf_output reduced(const detection *d, const char *op, mf_output x, int64_t axis, bool keep)
{
    return mf_layer_reduce(d->l, op, x, &axis, 1, keep);
}

/* The mean of x [n,boxes] over the boxes that are 1 in `counts`; 0 if there is none. */
static mf_output detection_loss_mean_of(const detection *d, mf_output x, mf_output counts)
{
    const mf_output n = detection_loss_two(d, "Maximum", reduced(d, "Sum", counts, 1, false),
                                           detection_loss_number(d, 1));

    return detection_loss_two(
        d, "RealDiv", reduced(d, "Sum", detection_loss_two(d, "Mul", x, counts), 1, false), n);
}

/* Smooth L1 distance of codes [n,boxes,4], averaged: [n,boxes]. */
static mf_output detection_loss_distance(const detection *d, mf_output a, mf_output b)
{
    const mf_output far = mf_apply(d->l->graph, "Abs", MF_IN(detection_loss_two(d, "Sub", a, b)));
    const mf_output q = detection_loss_two(d, "Minimum", far, detection_loss_number(d, 1));
    const mf_output each = detection_loss_two(
        d, "Mul", q,
        detection_loss_two(d, "Sub", far,
                           detection_loss_two(d, "Mul", q, detection_loss_number(d, 0.5))));

    /* the gradient of a Mean would count the elements of every shard */
    return detection_loss_two(d, "Mul", reduced(d, "Sum", each, 2, false),
                              detection_loss_number(d, 0.25));
}

static mf_output detection_loss_box_of(const detection *d, const mf_boxes_match *m)
{
    return mf_boxes_columns(d->l, m->object, 0, 4);
}

/* ---- anchors ---- */

/* 1 for anchors that overlap an object enough, or more than any other anchor does. */
static mf_output taken(const detection *d, const mf_boxes_match *m)
{
    const mf_output most = reduced(d, "Max", m->overlaps, 1, true);
    const mf_output favourite = detection_loss_two(
        d, "LogicalAnd", detection_loss_two(d, "GreaterEqual", m->overlaps, most),
        detection_loss_two(d, "Greater", m->overlaps, detection_loss_number(d, NEAR)));

    return detection_loss_two(
        d, "Maximum",
        detection_loss_as_float(
            d, detection_loss_two(d, "GreaterEqual", m->best, detection_loss_number(d, OBJECT))),
        reduced(d, "Max", detection_loss_as_float(d, favourite), 2, false));
}

/* A random sample of the negative anchors, by (seed, step, sample, anchor); in evaluation all. */
static mf_output some_of(const detection *d, mf_output nobody)
{
    const int64_t n = mf_options_int(&d->l->o, "negatives"),
                  anchors = mf_model_shape(d->l->model, nobody).dims[1];
    mf_output drawn, least;

    if (n >= anchors)
        return nobody;
    drawn = detection_loss_two(d, "Mul", mf_layer_uniform(d->l, nobody), nobody);
    least = mf_applyf(d->l->graph, "TopKV2",
                      MF_IN(drawn, mf_scalar(d->l->graph, MF_DTYPE_I32, (double)n)), "sorted=true");
    least = mf_apply(d->l->graph, "Slice",
                     MF_IN(least, mf_ints(d->l->graph, (int64_t[]){ 0, n - 1 }, 2),
                           mf_ints(d->l->graph, (int64_t[]){ -1, 1 }, 2)));
    drawn = detection_loss_as_float(d, detection_loss_two(d, "GreaterEqual", drawn, least));
    return mf_layer_by_mode(d->l, detection_loss_two(d, "Mul", drawn, nobody), nobody);
}

mf_output mf_detection_matches(mf_layer_call *l, mf_output label)
{
    const detection d = { l, label };
    const mf_boxes_match m =
        mf_boxes_match_objects(l, mf_model_named_output(l->model, "anchors"), label);

    return taken(&d, &m);
}

static mf_output of_anchors(const detection *d)
{
    const mf_model *model = d->l->model;
    const mf_output anchors = mf_model_named_output(model, "anchors"),
                    x = mf_model_named_output(model, "objectness");
    const mf_boxes_match m = mf_boxes_match_objects(d->l, anchors, d->label);
    const mf_output is = taken(d, &m),
                    free = detection_loss_two(d, "Sub", detection_loss_number(d, 1), is);
    const mf_output nobody = detection_loss_two(
        d, "Mul", free,
        detection_loss_as_float(
            d, detection_loss_two(d, "Less", m.best, detection_loss_number(d, NOBODY))));
    const mf_output wrong = detection_loss_two(
        d, "Sub", mf_apply(d->l->graph, "Softplus", MF_IN(x)), detection_loss_two(d, "Mul", x, is));
    const mf_output far =
        detection_loss_distance(d, mf_model_named_output(model, "anchor_codes"),
                                mf_boxes_code(d->l, detection_loss_box_of(d, &m), anchors));

    return detection_loss_two(
        d, "AddV2",
        detection_loss_mean_of(d, wrong, detection_loss_two(d, "AddV2", is, some_of(d, nobody))),
        detection_loss_mean_of(d, far, is));
}

/* ---- regions ---- */

/* Class 0 is the background; the classes of the label follow. */
static mf_output of_regions(const detection *d)
{
    const mf_model *model = d->l->model;
    const mf_output regions = mf_model_named_output(model, "proposals"),
                    scores = mf_model_named_output(model, "scores");
    const mf_shape s = mf_model_shape(d->l->model, scores);
    const mf_boxes_match m = mf_boxes_match_objects(d->l, regions, d->label);
    const mf_output is = detection_loss_as_float(
        d, detection_loss_two(d, "GreaterEqual", m.best, detection_loss_number(d, OBJECT)));
    const mf_output there =
        mf_layer_reshape(d->l, mf_boxes_present(d->l, regions), (int64_t[]){ -1, s.dims[1] }, 2);
    const mf_output class = mf_layer_reshape(d->l, mf_boxes_columns(d->l, m.object, 4, 5),
                                             (int64_t[]){ -1, s.dims[1] }, 2);
    mf_output wanted = detection_loss_two(
                  d, "Mul", is, detection_loss_two(d, "AddV2", class, detection_loss_number(d, 1))),
              wrong, far;

    wanted = mf_applyf(d->l->graph, "Cast",
                       MF_IN(mf_layer_reshape(d->l, wanted, (int64_t[]){ -1 }, 1)), "DstT=int32");
    wrong =
        detection_loss_two(d, "SparseSoftmaxCrossEntropyWithLogits",
                           mf_layer_reshape(d->l, scores, (int64_t[]){ -1, s.dims[2] }, 2), wanted);
    wrong = mf_layer_reshape(d->l, wrong, (int64_t[]){ -1, s.dims[1] }, 2);
    far = detection_loss_distance(d, mf_model_named_output(model, "region_codes"),
                                  mf_boxes_code(d->l, detection_loss_box_of(d, &m), regions));
    return detection_loss_two(d, "AddV2", detection_loss_mean_of(d, wrong, there),
                              detection_loss_mean_of(d, far, is));
}

mf_output mf_detection_loss(mf_layer_call *l)
{
    const detection d = { l, l->in[1] };

    if (!mf_detection_fits(l))
        return (mf_output){ 0 };
    return detection_loss_two(&d, "AddV2", of_anchors(&d), of_regions(&d));
}

bool mf_detection_fits(mf_layer_call *l)
{
    static const char *const needed[] = { "anchors",   "objectness", "anchor_codes",
                                          "proposals", "scores",     "region_codes" };
    const mf_shape label = mf_model_shape(l->model, l->in[1]);
    char text[MF_SHAPE_TEXT];

    for (int i = 0; i < MF_COUNT(needed); i++) {
        if (!mf_model_named_output(l->model, needed[i]).node) {
            (void)mf_layer_fail(l,
                                "only a detector has %s: use the model faster-rcnn, or the "
                                "layers RegionProposals and Detections",
                                needed[i]);
            return false;
        }
    }
    if (label.rank == 3 && label.dims[2] == MF_BOX_LABEL)
        return true;
    (void)mf_layer_fail(l, "the label must be boxes with classes, [objects,%d], not %s",
                        MF_BOX_LABEL, mf_shape_text(&label, text));
    return false;
}
