/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - metrics by Keras names. */
#include "models/metrics.h"

#include "models/detection.h"

#include <math.h>
#include <string.h>

static mf_output metrics_two(mf_layer_call *l, const char *op, mf_output a, mf_output b)
{
    return mf_apply(l->graph, op, MF_IN(a, b));
}

static mf_output metrics_as_float(mf_layer_call *l, mf_output x)
{
    return mf_applyf(l->graph, "Cast", MF_IN(x), "DstT=float");
}

/* Mean over all dimensions except the samples, then the sum over samples. */
static mf_output metrics_sum(mf_layer_call *l, mf_output x)
{
    return mf_layer_reduce(l, "Sum", mf_mean_of_samples(l, x), (int64_t[]){ 0 }, 1, false);
}

static double mean_value(const float *sums, int64_t n_sums, int64_t samples)
{
    (void)n_sums;
    return samples > 0 ? (double)sums[0] / (double)samples : 0.0;
}

/* ---- accuracy ---- */

/* True for one score per sample instead of one per class. */
static bool is_binary(const mf_layer_call *l)
{
    return l->shape.rank < 2 || l->shape.dims[l->shape.rank - 1] == 1;
}

static mf_output best(mf_layer_call *l, mf_output x)
{
    return mf_applyf(l->graph, "ArgMax",
                     MF_IN(x, mf_scalar(l->graph, MF_DTYPE_I32, l->shape.rank - 1)),
                     "output_type=int64");
}

/* The class of every row: its number, or the argmax if there is one label per class. */
static mf_output label_class(mf_layer_call *l)
{
    const mf_shape label = mf_model_shape(l->model, l->in[1]);
    const int last = l->shape.rank - 1;

    if (label.rank == l->shape.rank && label.dims[last] == l->shape.dims[last])
        return best(l, mf_label_like_output(l));
    return mf_applyf(l->graph, "Cast", MF_IN(mf_label_classes(l)), "DstT=int64");
}

static mf_output metrics_above(mf_layer_call *l, mf_output x, double limit)
{
    return metrics_two(l, "Greater", x, mf_layer_number(l, limit));
}

static mf_output accuracy_build(mf_layer_call *l)
{
    if (is_binary(l))
        return metrics_sum(
            l, metrics_as_float(l, metrics_two(l, "Equal", metrics_above(l, l->in[0], 0.0),
                                               metrics_above(l, mf_label_like_output(l), 0.5))));
    return metrics_sum(
        l, metrics_as_float(l, metrics_two(l, "Equal", best(l, l->in[0]), label_class(l))));
}

static mf_output top_k_build(mf_layer_call *l)
{
    const int64_t k = mf_options_int(&l->o, "k");
    mf_output in;

    if (is_binary(l))
        return mf_layer_fail(l, "scores of several classes are needed");
    in = mf_layer_reshape(l, l->in[0], (int64_t[]){ -1, l->shape.dims[l->shape.rank - 1] }, 2);
    in = mf_apply(l->graph, "InTopKV2",
                  MF_IN(in, mf_layer_reshape(l, label_class(l), (int64_t[]){ -1 }, 1),
                        mf_scalar(l->graph, MF_DTYPE_I64, (double)k)));
    in = metrics_as_float(l, in);
    if (l->shape.rank > 2)
        in = mf_layer_reshape(l, in,
                              (int64_t[]){ -1, mf_shape_span(&l->shape, 1, l->shape.rank - 1) }, 2);
    return metrics_sum(l, in);
}

/* For pairs: the distance is below the threshold exactly if the label is 1. */
static mf_output verification_build(mf_layer_call *l)
{
    const mf_output near =
        metrics_two(l, "Less", l->in[0], mf_layer_number(l, mf_options_float(&l->o, "threshold")));

    return metrics_sum(
        l, metrics_as_float(
               l, metrics_two(l, "Equal", near, metrics_above(l, mf_label_like_output(l), 0.5))));
}

static mf_output output_build(mf_layer_call *l)
{
    return metrics_sum(l, l->in[0]);
}

/* ---- losses as metrics ---- */

static mf_output metrics_squared_build(mf_layer_call *l)
{
    return metrics_sum(l, mf_loss(l->model, "mean_squared_error", l->in[0], l->in[1]));
}

static mf_output metrics_absolute_build(mf_layer_call *l)
{
    return metrics_sum(l, mf_loss(l->model, "mean_absolute_error", l->in[0], l->in[1]));
}

static mf_output entropy_build(mf_layer_call *l)
{
    return metrics_sum(l, mf_loss(l->model, "sparse_categorical_crossentropy", l->in[0], l->in[1]));
}

static double perplexity_value(const float *sums, int64_t n_sums, int64_t samples)
{
    return exp(mean_value(sums, n_sums, samples));
}

/* ---- precision and recall: per class the correct, the predicted and the actual ---- */

static mf_output metrics_one_hot(mf_layer_call *l, mf_output classes)
{
    classes = mf_layer_reshape(l, classes, (int64_t[]){ -1 }, 1);
    return mf_apply(
        l->graph, "OneHot",
        MF_IN(classes, mf_scalar(l->graph, MF_DTYPE_I32, (double)l->shape.dims[l->shape.rank - 1]),
              mf_layer_number(l, 1.0), mf_layer_number(l, 0.0)));
}

static mf_output counts_build(mf_layer_call *l)
{
    mf_output said, is, in[3];

    if (is_binary(l)) {
        said = metrics_as_float(l, metrics_above(l, l->in[0], 0.0));
        is = metrics_as_float(l, metrics_above(l, mf_label_like_output(l), 0.5));
        said = mf_layer_reshape(l, said, (int64_t[]){ -1, 1 }, 2);
        is = mf_layer_reshape(l, is, (int64_t[]){ -1, 1 }, 2);
    } else {
        said = metrics_one_hot(l, best(l, l->in[0]));
        is = metrics_one_hot(l, label_class(l));
    }
    in[0] = metrics_two(l, "Mul", said, is);
    in[1] = said;
    in[2] = is;
    for (int i = 0; i < 3; i++)
        in[i] = mf_layer_reduce(l, "Sum", in[i], (int64_t[]){ 0 }, 1, false);
    return mf_apply(l->graph, "ConcatV2",
                    MF_IN(in[0], in[1], in[2], mf_scalar(l->graph, MF_DTYPE_I32, 0)));
}

/* The mean over classes of weight * correct / (a predicted + b actual); 0 for classes without any.
 */
static double mean_of_classes(const float *sums, int64_t n_sums, double weight, double a, double b)
{
    const int64_t classes = n_sums / 3;
    double all = 0.0;

    for (int64_t c = 0; c < classes; c++) {
        const double of = a * (double)sums[classes + c] + b * (double)sums[2 * classes + c];

        all += of > 0.0 ? weight * (double)sums[c] / of : 0.0;
    }
    return classes > 0 ? all / (double)classes : 0.0;
}

static double precision_value(const float *sums, int64_t n_sums, int64_t samples)
{
    (void)samples;
    return mean_of_classes(sums, n_sums, 1.0, 1.0, 0.0);
}

static double recall_value(const float *sums, int64_t n_sums, int64_t samples)
{
    (void)samples;
    return mean_of_classes(sums, n_sums, 1.0, 0.0, 1.0);
}

static double f1_value(const float *sums, int64_t n_sums, int64_t samples)
{
    (void)samples;
    return mean_of_classes(sums, n_sums, 2.0, 1.0, 1.0);
}

/* ---- area under the ROC curve ---- */

enum { THRESHOLDS = 200 };

/* Histograms of the probabilities of positive and of negative samples. Bucket b holds those in
 * (b/199, (b+1)/199], which are above the thresholds up to b. */
static mf_output auc_build(mf_layer_call *l)
{
    mf_output bucket, y, parts[2];

    if (!is_binary(l))
        return mf_layer_fail(l, "one score per sample is needed");
    y = mf_layer_reshape(l, mf_label_like_output(l), (int64_t[]){ -1 }, 1);
    bucket =
        mf_apply(l->graph, "Sigmoid", MF_IN(mf_layer_reshape(l, l->in[0], (int64_t[]){ -1 }, 1)));
    bucket = mf_apply(l->graph, "Ceil",
                      MF_IN(metrics_two(l, "Mul", bucket, mf_layer_number(l, THRESHOLDS - 1))));
    bucket =
        mf_apply(l->graph, "Relu", MF_IN(metrics_two(l, "Sub", bucket, mf_layer_number(l, 1.0))));
    bucket = mf_applyf(l->graph, "Cast", MF_IN(bucket), "DstT=int32");
    parts[0] = y;
    parts[1] = metrics_two(l, "Sub", mf_layer_number(l, 1.0), y);
    for (int i = 0; i < 2; i++)
        parts[i] = mf_apply(l->graph, "UnsortedSegmentSum",
                            MF_IN(parts[i], bucket, mf_scalar(l->graph, MF_DTYPE_I32, THRESHOLDS)));
    return mf_apply(l->graph, "ConcatV2",
                    MF_IN(parts[0], parts[1], mf_scalar(l->graph, MF_DTYPE_I32, 0)));
}

/* Trapezoids between the thresholds, from the highest (nothing above) to the lowest (everything
 * above). */
static double auc_value(const float *sums, int64_t n_sums, int64_t samples)
{
    const float *ones = sums, *zeros = sums + n_sums / 2;
    double right = 0.0, wrong = 0.0, area = 0.0;

    (void)samples;
    for (int64_t b = n_sums / 2 - 1; b >= 0; b--) {
        area += (double)zeros[b] * (right + 0.5 * (double)ones[b]);
        right += (double)ones[b];
        wrong += (double)zeros[b];
    }
    return right > 0.0 && wrong > 0.0 ? area / (right * wrong) : 0.0;
}

/* ---- the table ---- */

const mf_metric_kind mf_metrics[] = {
    { "accuracy", "{}", "fraction of the samples (or positions) whose class is correct",
      accuracy_build, mean_value },
    { "top_k", "{k: int >= 1 = 5}", "fraction whose class is among the k best", top_k_build,
      mean_value },
    { "mean_squared_error", "{}", "mean of the squared differences", metrics_squared_build,
      mean_value },
    { "mean_absolute_error", "{}", "mean of the absolute differences", metrics_absolute_build,
      mean_value },
    { "auc", "{}", "area under the ROC curve, by 200 thresholds", auc_build, auc_value },
    { "precision", "{}", "correct / predicted; of several classes the mean", counts_build,
      precision_value },
    { "recall", "{}", "correct / actual; of several classes the mean", counts_build, recall_value },
    { "f1", "{}", "harmonic mean of precision and recall; of several classes the mean",
      counts_build, f1_value },
    { "verification", "{threshold: float = 0.5}",
      "fraction of the pairs whose distance is on the correct side of the threshold",
      verification_build, mean_value },
    { "reconstruction_error", "{}", "mean of the output, for models that output their error",
      output_build, mean_value },
    { "perplexity", "{}", "exp of the mean cross-entropy", entropy_build, perplexity_value },
    { "mean_average_precision", "{overlap: float = 0.5}",
      "mean average precision of detections that overlap an object at least this much",
      mf_average_precision_build, mf_average_precision_value },
    { "matched_anchors", "{}", "number of anchors per sample that are matched with an object",
      mf_matched_anchors_build, mean_value },
    { 0 },
};

static const mf_kinds kinds = { "metric", mf_metrics, sizeof *mf_metrics };

mf_output mf_metric(mf_model *model, const char *text, mf_output output, mf_output label,
                    const mf_metric_kind **kind)
{
    const mf_output in[] = { output, label, MF_END };
    const char *scope = model->graph->scope, *rest;
    const void *row;
    mf_layer_call l;
    mf_output y;
    mf_status st = mf_kinds_find(&kinds, text, model->graph->arena, &row, &rest);

    *kind = row;
    if (st == MF_OK)
        st = mf_scores_begin(model, "metric", (*kind)->name, (*kind)->settings, rest, in, &l);
    if (st != MF_OK) {
        mf_graph_fail(model->graph, st);
        return (mf_output){ 0 };
    }
    mf_graph_scope(model->graph, "metric");
    y = (*kind)->build(&l);
    model->graph->scope = scope;
    /* cppcheck-suppress returnDanglingLifetime ; an output points into the graph */
    return y;
}
