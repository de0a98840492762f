/* SPDX-License-Identifier: Apache-2.0 */
/* losses.c - losses by Keras names. Losses over classes take scores before the softmax (logits). */
#include "models/losses.h"

#include "base/host_state.h"
#include "models/detection.h"

#include <string.h>

static const double EPSILON = 1e-7; /* Keras's */

static mf_output losses_two(mf_layer_call *l, const char *op, mf_output a, mf_output b)
{
    return mf_apply(l->graph, op, MF_IN(a, b));
}

static mf_output losses_times(mf_layer_call *l, mf_output x, double factor)
{
    return losses_two(l, "Mul", x, mf_layer_number(l, factor));
}

static mf_output losses_plus(mf_layer_call *l, mf_output x, double more)
{
    return more == 0.0 ? x : losses_two(l, "AddV2", x, mf_layer_number(l, more));
}

static mf_output losses_over_last(mf_layer_call *l, const char *op, mf_output x, bool keep)
{
    const int64_t last = l->shape.rank - 1;

    return mf_layer_reduce(l, op, x, &last, 1, keep);
}

/* ---- classes ---- */

/* Rows of scores with one label each; reshaped to [n] or [n,t]. */
static mf_output losses_cross_entropy(mf_layer_call *l, const char *op, mf_output label,
                                      bool sparse)
{
    const int64_t classes = l->shape.dims[l->shape.rank - 1];
    mf_shape back = l->shape;
    mf_output x = l->in[0];

    back.dims[0] = -1;
    if (l->shape.rank > 2) {
        x = mf_layer_reshape(l, x, (int64_t[]){ -1, classes }, 2);
        label = mf_layer_reshape(l, label, (int64_t[]){ -1, classes }, sparse ? 1 : 2);
    }
    x = losses_two(l, op, x, label);
    return l->shape.rank > 2 ? mf_layer_reshape(l, x, back.dims, back.rank - 1) : x;
}

/* The softmax of a single score is 1: the loss would always be 0. */
static mf_output refuse_score(mf_layer_call *l)
{
    return mf_layer_fail(l, "%s",
                         l->shape.rank < 2
                             ? "the output must be scores of classes, [n,classes]"
                             : "the output has one score, but two classes are needed; "
                               "binary_crossentropy takes one score");
}

static bool has_scores(const mf_layer_call *l)
{
    return l->shape.rank >= 2 && l->shape.dims[l->shape.rank - 1] != 1;
}

static mf_output sparse_categorical_build(mf_layer_call *l)
{
    if (!has_scores(l))
        return refuse_score(l);
    return losses_cross_entropy(l, "SparseSoftmaxCrossEntropyWithLogits", mf_label_classes(l),
                                true);
}

static mf_output categorical_build(mf_layer_call *l)
{
    const double smoothing = mf_options_float(&l->o, "label_smoothing");
    mf_output y;

    if (!has_scores(l))
        return refuse_score(l);
    y = mf_label_like_output(l);
    if (smoothing != 0.0)
        y = losses_plus(l, losses_times(l, y, 1.0 - smoothing),
                        smoothing / (double)l->shape.dims[l->shape.rank - 1]);
    return losses_cross_entropy(l, "SoftmaxCrossEntropyWithLogits", y, false);
}

/* max(x,0) - x y + log(1 + exp(-|x|)) */
static mf_output binary_build(mf_layer_call *l)
{
    const double smoothing = mf_options_float(&l->o, "label_smoothing");
    mf_output x = l->in[0], y = mf_label_like_output(l), tail;

    if (smoothing != 0.0)
        y = losses_plus(l, losses_times(l, y, 1.0 - smoothing), 0.5 * smoothing);
    tail = mf_apply(l->graph, "Softplus",
                    MF_IN(losses_times(l, mf_apply(l->graph, "Abs", MF_IN(x)), -1)));
    x = losses_two(l, "Sub", mf_apply(l->graph, "Relu", MF_IN(x)), losses_two(l, "Mul", x, y));
    return losses_two(l, "AddV2", x, tail);
}

/* Labels are -1 and 1; 0 counts as -1. */
static mf_output hinge_build(mf_layer_call *l)
{
    mf_output y = mf_label_like_output(l);
    const mf_output zero = losses_two(l, "Equal", y, mf_layer_number(l, 0.0));

    y = mf_apply(l->graph, "SelectV2", MF_IN(zero, mf_layer_number(l, -1.0), y));
    return mf_apply(
        l->graph, "Relu",
        MF_IN(losses_plus(l, losses_times(l, losses_two(l, "Mul", y, l->in[0]), -1), 1)));
}

/* ---- numbers ---- */

static mf_output difference(mf_layer_call *l)
{
    return losses_two(l, "Sub", l->in[0], mf_label_like_output(l));
}

static mf_output losses_squared_build(mf_layer_call *l)
{
    return mf_apply(l->graph, "Square", MF_IN(difference(l)));
}

static mf_output losses_absolute_build(mf_layer_call *l)
{
    return mf_apply(l->graph, "Abs", MF_IN(difference(l)));
}

/* d^2/2 up to delta, linear beyond: q (|d| - q/2) with q = min(|d|, delta). */
static mf_output huber_build(mf_layer_call *l)
{
    const mf_output d = losses_absolute_build(l);
    const mf_output q =
        losses_two(l, "Minimum", d, mf_layer_number(l, mf_options_float(&l->o, "delta")));

    return losses_two(l, "Mul", q, losses_two(l, "Sub", d, losses_times(l, q, 0.5)));
}

static mf_output poisson_build(mf_layer_call *l)
{
    const mf_output log = mf_apply(l->graph, "Log", MF_IN(losses_plus(l, l->in[0], EPSILON)));

    return losses_two(l, "Sub", l->in[0], losses_two(l, "Mul", mf_label_like_output(l), log));
}

/* ---- distributions and directions ---- */

static mf_output losses_clipped(mf_layer_call *l, mf_output x)
{
    return mf_apply(l->graph, "ClipByValue",
                    MF_IN(x, mf_layer_number(l, EPSILON), mf_layer_number(l, 1.0)));
}

static mf_output kl_build(mf_layer_call *l)
{
    const mf_output y = losses_clipped(l, mf_label_like_output(l)), p = losses_clipped(l, l->in[0]);
    const mf_output log = mf_apply(l->graph, "Log", MF_IN(losses_two(l, "RealDiv", y, p)));

    return losses_over_last(l, "Sum", losses_two(l, "Mul", y, log), false);
}

static mf_output cosine_build(mf_layer_call *l)
{
    const mf_output y = mf_layer_unit_length(l, mf_label_like_output(l)),
                    x = mf_layer_unit_length(l, l->in[0]);

    return losses_times(l, losses_over_last(l, "Sum", losses_two(l, "Mul", x, y), false), -1.0);
}

/* ---- distances ---- */

/* Of pairs, with label 1 if both are the same: y d^2 + (1 - y) max(0, margin - d)^2. */
static mf_output contrastive_build(mf_layer_call *l)
{
    const mf_output y = mf_label_like_output(l), d = l->in[0];
    mf_output near = mf_apply(l->graph, "Square", MF_IN(d)), apart = losses_times(l, d, -1);

    apart = losses_plus(l, apart, mf_options_float(&l->o, "margin"));
    apart = mf_apply(l->graph, "Square", MF_IN(mf_apply(l->graph, "Relu", MF_IN(apart))));
    return losses_two(l, "AddV2", losses_two(l, "Mul", y, near),
                      losses_two(l, "Mul", losses_plus(l, losses_times(l, y, -1), 1), apart));
}

static mf_output losses_triplet_build(mf_layer_call *l)
{
    const char *mining = mf_options_string(&l->o, "mining");

    if (l->shape.rank != 2)
        return mf_layer_fail(l, "the output must be embeddings, [n,width]");
    if (strcmp(mining, "all") != 0 && strcmp(mining, "hard") != 0 &&
        strcmp(mining, "semi_hard") != 0)
        return mf_layer_fail(l, "mining must be all, hard or semi_hard, not '%.40s'", mining);
    return mf_applyf(l->graph, "_TripletLoss", MF_IN(l->in[0], mf_label_classes(l)),
                     "margin=%.9g mining='%s'", mf_options_float(&l->o, "margin"), mining);
}

/* Zero: the loss consists of the terms that layers add. */
static mf_output layers_build(mf_layer_call *l)
{
    const mf_output x = mf_mean_of_samples(l, l->in[0]);

    return mf_apply(l->graph, "ZerosLike", MF_IN(x));
}

/* ---- the table ---- */

const mf_loss_kind mf_losses[] = {
    { "sparse_categorical_crossentropy", "{}",
      "scores of classes, or of classes at every position, against class numbers",
      sparse_categorical_build, MF_LOSS_CLASSES, NULL },
    { "categorical_crossentropy", "{label_smoothing: float = 0.0}",
      "scores of classes against their probabilities", categorical_build, 0, NULL },
    { "binary_crossentropy", "{label_smoothing: float = 0.0}",
      "scores before the sigmoid against 0 and 1", binary_build, 0, NULL },
    { "mean_squared_error", "{}", "numbers", losses_squared_build, 0, NULL },
    { "mean_absolute_error", "{}", "numbers", losses_absolute_build, 0, NULL },
    { "huber", "{delta: float = 1.0}", "numbers: squared up to delta, then absolute", huber_build,
      0, NULL },
    { "hinge", "{}", "scores against -1 (or 0) and 1", hinge_build, 0, NULL },
    { "kl_divergence", "{}", "probabilities against probabilities", kl_build, 0, NULL },
    { "cosine_similarity", "{}", "directions of vectors: -1 where they agree", cosine_build, 0,
      NULL },
    { "poisson", "{}", "expected counts against counts", poisson_build, 0, NULL },
    { "contrastive", "{margin: float = 1.0}",
      "distances of pairs against 1 (both are the same) and 0 (they are not)", contrastive_build, 0,
      NULL },
    { "triplet", "{margin: float = 0.2, mining: string = 'semi_hard'}",
      "embeddings against class numbers, by triplets of all samples of a step (mining: all, hard, "
      "semi_hard)",
      losses_triplet_build, MF_LOSS_CLASSES | MF_LOSS_WHOLE, NULL },
    { "layers", "{}", "only the terms that layers add", layers_build, MF_LOSS_CLASSES, NULL },
    { "detection", "{negatives: int >= 1 = 64}",
      "outputs of a detector's layers against boxes with classes", mf_detection_loss, 0,
      "[?,?,5]" },
    { 0 },
};

static const mf_kinds kinds = { "loss", mf_losses, sizeof *mf_losses };

mf_status mf_loss_find(const char *text, mf_arena *arena, const mf_loss_kind **out)
{
    const char *rest;
    const void *row;

    MF_TRY(mf_kinds_find(&kinds, text, arena, &row, &rest));
    *out = row;
    return MF_OK;
}

mf_output mf_loss(mf_model *model, const char *text, mf_output output, mf_output label)
{
    MF_ENTRY_OR((mf_output){ 0 });
    const mf_output in[] = { output, label, MF_END };

    if (mf_graph_refuses(model ? model->graph : NULL, MF_NEEDED(model, text)) ||
        mf_graph_refuses(model->graph, mf_graph_owns_all(model->graph, in, 2, "mf_loss()")))
        return (mf_output){ 0 };

    const char *scope = model->graph->scope, *rest;
    const mf_loss_kind *kind;
    const void *row;
    mf_layer_call l;
    mf_output y;
    mf_status st = mf_kinds_find(&kinds, text, model->graph->arena, &row, &rest);

    kind = row;
    if (st == MF_OK)
        st = mf_scores_begin(model, "loss", kind->name, kind->settings, rest, in, &l);
    if (st != MF_OK) {
        mf_graph_fail(model->graph, st);
        return (mf_output){ 0 };
    }
    mf_graph_scope(model->graph, "loss");
    y = mf_mean_of_samples(&l, kind->build(&l));
    model->graph->scope = scope;
    return y;
}
