/* SPDX-License-Identifier: Apache-2.0 */
/* layer_transformer.c - a composite layer: a pre-norm transformer block. Its parts are named
 * "transformer_block/attention" and so on. */
#include "models/layer.h"

static mf_output normalised(mf_layer_call *l, mf_output x, const char *part)
{
    return mf_layer(l->model, "LayerNormalization", MF_IN(x), "name='%s/%s' epsilon=0.00001",
                    l->name, part);
}

static mf_output layer_transformer_plus(mf_layer_call *l, mf_output x, mf_output y,
                                        const char *part)
{
    y = mf_layer(l->model, "Dropout", MF_IN(y), "name='%s/%s' rate=%.9g", l->name, part,
                 mf_options_float(&l->o, "dropout"));
    return mf_apply(l->graph, "AddV2", MF_IN(x, y));
}

/* Two dense layers, or a mixture of experts. */
static mf_output layer_transformer_forward(mf_layer_call *l, mf_output x)
{
    const long long units = (long long)mf_options_int(&l->o, "units");
    const long long experts = (long long)mf_options_int(&l->o, "experts");
    const char *init = mf_options_string(&l->o, "kernel_initializer");
    const char *activation = mf_options_string(&l->o, "activation");

    if (experts > 0)
        return mf_layer(
            l->model, "MixtureOfExperts", MF_IN(x),
            "name='%s/moe' experts=%lld units=%lld activation=%s top=%lld "
            "capacity_factor=%.9g balance=%.9g",
            l->name, experts, units, activation, (long long)mf_options_int(&l->o, "top"),
            mf_options_float(&l->o, "capacity_factor"), mf_options_float(&l->o, "balance"));
    x = mf_layer(l->model, "Dense", MF_IN(x),
                 "name='%s/dense1' units=%lld activation=%s kernel_initializer='%s' dim=ff",
                 l->name, units, activation, init);
    return mf_layer(l->model, "Dense", MF_IN(x),
                    "name='%s/dense2' units=%lld kernel_initializer='%s'", l->name,
                    (long long)l->shape.dims[2], init);
}

/* x + attention(norm(x)), then x + forward(norm(x)). */
static mf_output block_build(mf_layer_call *l)
{
    const int64_t width = l->shape.dims[2], heads = mf_options_int(&l->o, "num_heads");
    const char *init = mf_options_string(&l->o, "kernel_initializer");
    mf_output x = l->in[0], y;

    if (width % heads != 0)
        return mf_layer_fail(l, "%lld heads do not divide a width of %lld", (long long)heads,
                             (long long)width);
    y = mf_layer(l->model, "MultiHeadAttention", MF_IN(normalised(l, x, "norm1")),
                 "name='%s/attention' num_heads=%lld key_dim=%lld use_causal_mask=%s "
                 "kernel_initializer='%s'",
                 l->name, (long long)heads, (long long)(width / heads),
                 mf_options_bool(&l->o, "use_causal_mask") ? "true" : "false", init);
    x = layer_transformer_plus(l, x, y, "dropout1");
    y = layer_transformer_forward(l, normalised(l, x, "norm2"));
    return layer_transformer_plus(l, x, y, "dropout2");
}

const mf_layer_kind mf_layers_transformer[] = {
    { "TransformerBlock",
      "{num_heads: int >= 1, units: int >= 1, dropout: float = 0.0, use_causal_mask: bool = false, "
      "activation: string = 'gelu_approximate', kernel_initializer: string = 'glorot_uniform', "
      "experts: int = 0, top: int = 2, capacity_factor: float = 1.25, balance: float = 0.01}",
      1, 1, 3,
      "attention and two dense layers (or experts), each with layer normalization before and a "
      "residual connection",
      block_build },
    { 0 },
};
