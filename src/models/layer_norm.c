/* SPDX-License-Identifier: Apache-2.0 */
/* layer_norm.c - layers that normalize values to mean 0 and variance 1, then apply a learned mean
 * and scale. */
#include "models/layer.h"

static mf_output scale_shift(mf_layer_call *l, mf_output x, mf_output mean, mf_output inverse,
                             mf_output gamma, mf_output beta)
{
    x = mf_apply(l->graph, "Mul", MF_IN(mf_apply(l->graph, "Sub", MF_IN(x, mean)), inverse));
    if (gamma.node)
        x = mf_apply(l->graph, "Mul", MF_IN(x, gamma));
    return beta.node ? mf_apply(l->graph, "AddV2", MF_IN(x, beta)) : x;
}

/* 1 / sqrt(variance + epsilon) */
static mf_output inverse_of(mf_layer_call *l, mf_output variance)
{
    const mf_output epsilon = mf_layer_number(l, mf_options_float(&l->o, "epsilon"));

    return mf_apply(l->graph, "Rsqrt",
                    MF_IN(mf_apply(l->graph, "AddV2", MF_IN(variance, epsilon))));
}

static void moments(mf_layer_call *l, mf_output x, const int64_t *axes, int n, bool keep,
                    mf_output *mean, mf_output *variance)
{
    mf_output around = *mean = mf_layer_reduce(l, "Mean", x, axes, n, keep);

    around = mf_apply(l->graph, "StopGradient", MF_IN(around)); /* no gradient flows through here */
    *variance = mf_layer_reduce(
        l, "Mean", mf_apply(l->graph, "SquaredDifference", MF_IN(x, around)), axes, n, keep);
}

/* gamma and beta by the settings scale and center; empty if disabled. */
static void learned(mf_layer_call *l, int64_t channels, mf_output *gamma, mf_output *beta)
{
    *gamma = *beta = (mf_output){ 0 };
    if (mf_options_bool(&l->o, "scale"))
        *gamma = mf_layer_weight(l, "gamma", &MF_SHAPE(channels), "ones");
    if (mf_options_bool(&l->o, "center"))
        *beta = mf_layer_weight(l, "beta", &MF_SHAPE(channels), "zeros");
}

/* ---- over the batch ---- */

typedef struct batch_norm {
    mf_output gamma, beta;
    mf_output out, mean, variance; /* of the batch */
    mf_output moving_mean, moving_variance;
    int64_t channels;
} batch_norm;

static mf_output fused(mf_layer_call *l, const batch_norm *b, mf_output mean, mf_output variance,
                       bool training)
{
    return mf_applyf(l->graph, "FusedBatchNormV3",
                     MF_IN(l->in[0], b->gamma, b->beta, mean, variance),
                     "epsilon=%.9g is_training=%s", mf_options_float(&l->o, "epsilon"),
                     training ? "true" : "false");
}

/* The op returns the unbiased variance; Keras's moving variance follows the biased one. */
static mf_output biased(mf_layer_call *l, const batch_norm *b, mf_output variance)
{
    mf_output n = mf_applyf(l->graph, "Size", MF_IN(l->in[0]), "out_type=int32"), less;

    n = mf_applyf(l->graph, "Cast", MF_IN(n), "DstT=float");
    n = mf_apply(l->graph, "RealDiv", MF_IN(n, mf_layer_number(l, (double)b->channels)));
    less = mf_apply(l->graph, "Sub", MF_IN(n, mf_layer_number(l, 1.0)));
    return mf_apply(l->graph, "Mul",
                    MF_IN(variance, mf_apply(l->graph, "RealDiv", MF_IN(less, n))));
}

static mf_output layer_norm_spread(mf_layer_call *l, const batch_norm *b, double value)
{
    return mf_apply(l->graph, "Fill",
                    MF_IN(mf_ints(l->graph, &b->channels, 1), mf_layer_number(l, value)));
}

static void image_statistics(mf_layer_call *l, batch_norm *b)
{
    /* In training, the op requires both inputs and empty statistics of earlier batches. */
    const mf_output none = mf_apply(
        l->graph, "Fill", MF_IN(mf_ints(l->graph, (int64_t[]){ 0 }, 1), mf_layer_number(l, 0.0)));

    if (!b->gamma.node)
        b->gamma = layer_norm_spread(l, b, 1.0);
    if (!b->beta.node)
        b->beta = layer_norm_spread(l, b, 0.0);
    b->out = fused(l, b, none, none, true);
    b->mean = (mf_output){ b->out.node, 1 };
    b->variance = biased(l, b, (mf_output){ b->out.node, 2 });
}

static void row_statistics(mf_layer_call *l, batch_norm *b)
{
    int64_t axes[MF_MAX_RANK];

    for (int i = 0; i < l->shape.rank - 1; i++)
        axes[i] = i;
    moments(l, l->in[0], axes, l->shape.rank - 1, false, &b->mean, &b->variance);
    b->out = scale_shift(l, l->in[0], b->mean, inverse_of(l, b->variance), b->gamma, b->beta);
}

/* Statistics of the shard in training, otherwise moving ones. A layer with trainable=false always
 * uses moving ones, as in Keras. */
static mf_output batch_build(mf_layer_call *l)
{
    const double momentum = mf_options_float(&l->o, "momentum");
    const bool image = l->shape.rank == 4;
    batch_norm b = { .channels = l->shape.rank > 0 ? l->shape.dims[l->shape.rank - 1] : -1 };
    const mf_shape shape = MF_SHAPE(b.channels);
    mf_output still;

    learned(l, b.channels, &b.gamma, &b.beta);
    if (b.channels > 0)
        (image ? image_statistics : row_statistics)(l, &b);
    b.moving_mean = mf_layer_moving(l, "moving_mean", &shape, "zeros", b.mean, momentum);
    b.moving_variance = mf_layer_moving(l, "moving_variance", &shape, "ones", b.variance, momentum);
    still = image ? fused(l, &b, b.moving_mean, b.moving_variance, false)
                  : scale_shift(l, l->in[0], b.moving_mean, inverse_of(l, b.moving_variance),
                                b.gamma, b.beta);
    return l->trainable ? mf_layer_by_mode(l, b.out, still) : still;
}

/* ---- within a sample ---- */

static mf_output layer_build(mf_layer_call *l)
{
    const int64_t last = l->shape.rank - 1;
    mf_output gamma, beta, mean, variance;

    learned(l, l->shape.dims[last], &gamma, &beta);
    moments(l, l->in[0], &last, 1, true, &mean, &variance);
    return scale_shift(l, l->in[0], mean, inverse_of(l, variance), gamma, beta);
}

/* [n, places..., c] as [n, places, groups, c/groups]. */
static mf_output group_build(mf_layer_call *l)
{
    const int rank = l->shape.rank;
    const int64_t channels = l->shape.dims[rank - 1];
    const int64_t given = mf_options_int(&l->o, "groups"), groups = given < 0 ? channels : given;
    mf_output x, gamma, beta, mean, variance;
    mf_shape back = l->shape;

    if (groups < 1 || channels % groups != 0)
        return mf_layer_fail(l, "groups=%lld does not divide %lld channels (-1: one channel each)",
                             (long long)given, (long long)channels);
    learned(l, channels, &gamma, &beta);
    back.dims[0] = -1;
    x = mf_layer_reshape(
        l, l->in[0],
        (int64_t[]){ -1, mf_shape_span(&l->shape, 1, rank - 1), groups, channels / groups }, 4);
    moments(l, x, (int64_t[]){ 1, 3 }, 2, true, &mean, &variance);
    x = scale_shift(l, x, mean, inverse_of(l, variance), (mf_output){ 0 }, (mf_output){ 0 });
    x = mf_layer_reshape(l, x, back.dims, rank);
    if (gamma.node)
        x = mf_apply(l->graph, "Mul", MF_IN(x, gamma));
    return beta.node ? mf_apply(l->graph, "AddV2", MF_IN(x, beta)) : x;
}

static mf_output unit_build(mf_layer_call *l)
{
    return mf_layer_unit_length(l, l->in[0]);
}

#define LEARNED "epsilon: float = 0.001, center: bool = true, scale: bool = true}"

const mf_layer_kind mf_layers_norm[] = {
    { "BatchNormalization", "{momentum: float = 0.99, " LEARNED, 1, 1, 2,
      "every channel over the samples of a shard", batch_build },
    { "LayerNormalization", "{" LEARNED, 1, 1, 2, "the last dimension of every sample",
      layer_build },
    { "GroupNormalization", "{groups: int = 32, " LEARNED, 1, 1, 2,
      "groups of channels of every sample", group_build },
    { "UnitNormalization", "{}", 1, 1, 2, "the last dimension normalized to length 1", unit_build },
    { 0 },
};
