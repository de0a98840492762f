/* SPDX-License-Identifier: Apache-2.0 */
/* layer_dropout.c - layers that drop values at random in training. */
#include "models/layer.h"

/* x where `u` (broadcast to x's shape) is at least `rate`, scaled to keep the expected value. */
static mf_output layer_dropout_keep(mf_layer_call *l, mf_output x, mf_output u, double rate)
{
    mf_output mask = mf_apply(l->graph, "GreaterEqual", MF_IN(u, mf_layer_number(l, rate)));

    mask = mf_applyf(l->graph, "Cast", MF_IN(mask), "DstT=float");
    mask = mf_apply(l->graph, "Mul", MF_IN(mask, mf_layer_number(l, 1.0 / (1.0 - rate))));
    return mf_layer_by_mode(l, mf_apply(l->graph, "Mul", MF_IN(x, mask)), x);
}

mf_output mf_layer_dropout(mf_layer_call *l, mf_output x, double rate)
{
    if (!(rate >= 0.0 && rate < 1.0))
        return mf_layer_fail(l, "rate must be in [0,1), but is %g", rate);
    return rate == 0.0 ? x : layer_dropout_keep(l, x, mf_layer_uniform(l, x), rate);
}

static mf_output dropout_build(mf_layer_call *l)
{
    return mf_layer_dropout(l, l->in[0], mf_options_float(&l->o, "rate"));
}

/* Drops whole channels: the random numbers have shape [n,1,c] or [n,1,1,c]. */
static mf_output spatial_build(mf_layer_call *l)
{
    const double rate = mf_options_float(&l->o, "rate");
    int64_t begin[MF_MAX_RANK] = { 0 }, size[MF_MAX_RANK];
    mf_output first;

    if (!(rate >= 0.0 && rate < 1.0))
        return mf_layer_fail(l, "rate must be in [0,1), but is %g", rate);
    if (rate == 0.0)
        return l->in[0];
    for (int i = 0; i < l->shape.rank; i++)
        size[i] = i == 0 || i == l->shape.rank - 1 ? -1 : 1;
    first = mf_apply(l->graph, "Slice",
                     MF_IN(l->in[0], mf_ints(l->graph, begin, l->shape.rank),
                           mf_ints(l->graph, size, l->shape.rank)));
    return layer_dropout_keep(l, l->in[0], mf_layer_uniform(l, first), rate);
}

const mf_layer_kind mf_layers_dropout[] = {
    { "Dropout", "{rate: float}", 1, 1, 1, "drops this fraction of the values in training",
      dropout_build },
    { "SpatialDropout1D", "{rate: float}", 1, 1, 3,
      "drops this fraction of the channels in "
      "training",
      spatial_build },
    { "SpatialDropout2D", "{rate: float}", 1, 1, 4,
      "drops this fraction of the channels in "
      "training",
      spatial_build },
    { 0 },
};
