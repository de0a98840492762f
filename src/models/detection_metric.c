/* SPDX-License-Identifier: Apache-2.0 */
/* detection_metric.c - mean average precision as defined by VOC since 2010: for each class, the
 * area under the precision-recall curve, where precision is the maximum at that recall or higher;
 * averaged over the classes that have objects. A detection is correct if it overlaps an object of
 * its class enough and no better detection of its image does; an object counts once.
 *
 * Detections are counted in histograms of scores, with bins of equal width in log-odds. So the
 * metric is a sum over samples and does not depend on batches or workers. Detections in one bin
 * count as having the same score. */
#include "models/detection.h"

#include <math.h>

enum { BINS = 500 };

static const double WIDEST = 8.0; /* log-odds are clipped to this range */

static mf_output detection_metric_two(mf_layer_call *l, const char *op, mf_output a, mf_output b)
{
    return mf_apply(l->graph, op, MF_IN(a, b));
}

static mf_output detection_metric_as_float(mf_layer_call *l, mf_output x)
{
    return mf_applyf(l->graph, "Cast", MF_IN(x), "DstT=float");
}

static mf_output detection_metric_flat(mf_layer_call *l, mf_output x)
{
    return mf_layer_reshape(l, x, (int64_t[]){ -1 }, 1);
}

static int64_t detection_metric_classes_of(mf_layer_call *l)
{
    return mf_model_shape(l->model, mf_model_named_output(l->model, "scores")).dims[2] - 1;
}

/* ---- correct detections ---- */

/* 1 where a detection is correct, [n,detections,1]. Detections are sorted by score. */
static mf_output right(mf_layer_call *l)
{
    const mf_output across = mf_ints(l->graph, (int64_t[]){ 0, 2, 1 }, 3);
    const mf_output class = mf_boxes_columns(l, l->in[0], 5, 6);
    const mf_output other =
        mf_apply(l->graph, "Transpose", MF_IN(mf_boxes_columns(l, l->in[1], 4, 5), across));
    const mf_output least = mf_layer_number(l, mf_options_float(&l->o, "overlap"));
    mf_output same, most, claims, earlier;

    same = mf_boxes_overlap(l, mf_boxes_columns(l, l->in[0], 0, 4),
                            mf_boxes_columns(l, l->in[1], 0, 4));
    same = detection_metric_two(
        l, "Mul", same,
        detection_metric_as_float(l, detection_metric_two(l, "Equal", class, other)));
    most = mf_layer_reduce(l, "Max", same, (int64_t[]){ 2 }, 1, true);
    claims = detection_metric_as_float(
        l,
        detection_metric_two(l, "LogicalAnd", detection_metric_two(l, "GreaterEqual", same, most),
                             detection_metric_two(l, "GreaterEqual", same, least)));
    earlier = mf_applyf(l->graph, "Cumsum", MF_IN(claims, mf_scalar(l->graph, MF_DTYPE_I32, 1)),
                        "exclusive=true");
    claims = detection_metric_two(
        l, "Mul", claims,
        detection_metric_as_float(
            l, detection_metric_two(l, "Equal", earlier, mf_layer_number(l, 0))));
    return mf_layer_reduce(l, "Max", claims, (int64_t[]){ 2 }, 1, true);
}

/* ---- histograms ---- */

/* Histogram index: class times bins, plus the bin of the score. */
static mf_output detection_metric_place(mf_layer_call *l, mf_output score)
{
    const double edge = 1 / (1 + exp(WIDEST));
    const mf_output class = mf_boxes_columns(l, l->in[0], 5, 6);
    mf_output p = mf_apply(l->graph, "ClipByValue",
                           MF_IN(score, mf_layer_number(l, edge), mf_layer_number(l, 1 - edge)));
    mf_output odds = detection_metric_two(
        l, "Sub", mf_apply(l->graph, "Log", MF_IN(p)),
        mf_apply(l->graph, "Log", MF_IN(detection_metric_two(l, "Sub", mf_layer_number(l, 1), p))));

    odds = detection_metric_two(l, "Mul",
                                detection_metric_two(l, "AddV2", odds, mf_layer_number(l, WIDEST)),
                                mf_layer_number(l, BINS / (2 * WIDEST)));
    odds = mf_apply(l->graph, "ClipByValue",
                    MF_IN(mf_apply(l->graph, "Floor", MF_IN(odds)), mf_layer_number(l, 0),
                          mf_layer_number(l, BINS - 1)));
    odds = detection_metric_two(l, "AddV2", odds,
                                detection_metric_two(l, "Mul", class, mf_layer_number(l, BINS)));
    return mf_applyf(l->graph, "Cast", MF_IN(detection_metric_flat(l, odds)), "DstT=int32");
}

static mf_output counted(mf_layer_call *l, mf_output x, mf_output at, int64_t n)
{
    return mf_apply(
        l->graph, "UnsortedSegmentSum",
        MF_IN(detection_metric_flat(l, x), at, mf_scalar(l->graph, MF_DTYPE_I32, (double)n)));
}

/* By class and bin the number of correct, then of wrong detections; then objects by class. */
mf_output mf_average_precision_build(mf_layer_call *l)
{
    mf_output score, at, yes, no, objects;
    int64_t n;

    if (!mf_detection_fits(l))
        return (mf_output){ 0 };
    if (l->shape.rank != 3 || l->shape.dims[2] != 6)
        return mf_layer_fail(l, "the output must be detections [n,detections,6]");
    n = detection_metric_classes_of(l);
    score = mf_boxes_columns(l, l->in[0], 4, 5);
    at = detection_metric_place(l, score);
    yes = right(l);
    no = detection_metric_two(
        l, "Sub",
        detection_metric_as_float(l,
                                  detection_metric_two(l, "Greater", score, mf_layer_number(l, 0))),
        yes);
    objects = mf_boxes_columns(l, l->in[1], 4, 5);
    objects = mf_applyf(l->graph, "Cast", MF_IN(detection_metric_flat(l, objects)), "DstT=int32");
    objects =
        counted(l, mf_apply(l->graph, "OnesLike", MF_IN(detection_metric_as_float(l, objects))),
                objects, n);
    return mf_apply(l->graph, "ConcatV2",
                    MF_IN(counted(l, yes, at, n * BINS), counted(l, no, at, n * BINS), objects,
                          mf_scalar(l->graph, MF_DTYPE_I32, 0)));
}

/* From the lowest score up, the interpolated precision is the maximum so far. */
static double detection_metric_area(const float *right, const float *wrong, double objects)
{
    double yes = 0, no = 0, best = 0, sum = 0;

    for (int64_t b = 0; b < BINS; b++) {
        yes += (double)right[b];
        no += (double)wrong[b];
    }
    for (int64_t b = 0; b < BINS; b++) {
        const double p = yes + no > 0 ? yes / (yes + no) : 0;

        best = p > best ? p : best;
        sum += best * (double)right[b] / objects;
        yes -= (double)right[b];
        no -= (double)wrong[b];
    }
    return sum;
}

double mf_average_precision_value(const float *sums, int64_t n_sums, int64_t samples)
{
    const int64_t classes = n_sums / (2 * BINS + 1);
    const float *objects = sums + 2 * BINS * classes;
    double sum = 0, n = 0;

    (void)samples;
    for (int64_t c = 0; c < classes; c++) {
        if (!(objects[c] > 0))
            continue;
        sum +=
            detection_metric_area(sums + c * BINS, sums + (classes + c) * BINS, (double)objects[c]);
        n++;
    }
    return n > 0 ? sum / n : 0;
}

/* ---- anchors ---- */

mf_output mf_matched_anchors_build(mf_layer_call *l)
{
    if (!mf_detection_fits(l))
        return (mf_output){ 0 };
    return mf_layer_reduce(l, "Sum", mf_detection_matches(l, l->in[1]), (int64_t[]){ 0, 1 }, 2,
                           false);
}
