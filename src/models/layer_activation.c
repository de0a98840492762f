/* SPDX-License-Identifier: Apache-2.0 */
/* layer_activation.c - activations by Keras names: single ops and compositions. */
#include "models/layer.h"

#include <math.h>
#include <string.h>

static mf_output layer_activation_two(mf_layer_call *l, const char *op, mf_output a, mf_output b)
{
    return mf_apply(l->graph, op, MF_IN(a, b));
}

static mf_output layer_activation_swish(mf_layer_call *l, mf_output x)
{
    return layer_activation_two(l, "Mul", x, mf_apply(l->graph, "Sigmoid", MF_IN(x)));
}

/* x/2 (1 + erf(x / sqrt 2)) */
static mf_output gelu(mf_layer_call *l, mf_output x)
{
    mf_output p = layer_activation_two(l, "Mul", x, mf_layer_number(l, sqrt(0.5)));

    p = layer_activation_two(l, "AddV2", mf_apply(l->graph, "Erf", MF_IN(p)),
                             mf_layer_number(l, 1.0));
    return layer_activation_two(l, "Mul",
                                layer_activation_two(l, "Mul", x, mf_layer_number(l, 0.5)), p);
}

/* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
static mf_output layer_activation_gelu_approximate(mf_layer_call *l, mf_output x)
{
    const double sqrt_2_pi = 0.7978845608028654;
    mf_output p = layer_activation_two(l, "Mul", mf_apply(l->graph, "Square", MF_IN(x)),
                                       mf_layer_number(l, 0.044715 * sqrt_2_pi));

    p = layer_activation_two(l, "Mul", x,
                             layer_activation_two(l, "AddV2", p, mf_layer_number(l, sqrt_2_pi)));
    p = layer_activation_two(l, "AddV2", mf_apply(l->graph, "Tanh", MF_IN(p)),
                             mf_layer_number(l, 1.0));
    return layer_activation_two(l, "Mul",
                                layer_activation_two(l, "Mul", x, mf_layer_number(l, 0.5)), p);
}

/* x/6 + 1/2 between 0 and 1. */
static mf_output hard_sigmoid(mf_layer_call *l, mf_output x)
{
    x = mf_apply(l->graph, "Relu6",
                 MF_IN(layer_activation_two(l, "AddV2", x, mf_layer_number(l, 3.0))));
    return layer_activation_two(l, "Mul", x, mf_layer_number(l, 1.0 / 6.0));
}

static mf_output leaky_relu(mf_layer_call *l, mf_output x)
{
    return mf_applyf(l->graph, "LeakyRelu", MF_IN(x), "alpha=0.2");
}

static const struct {
    const char *name;
    const char *op; /* NULL: build() */
    mf_output (*build)(mf_layer_call *l, mf_output x);
} activations[] = {
    { "relu", "Relu", NULL },
    { "relu6", "Relu6", NULL },
    { "elu", "Elu", NULL },
    { "selu", "Selu", NULL },
    { "sigmoid", "Sigmoid", NULL },
    { "tanh", "Tanh", NULL },
    { "softmax", "Softmax", NULL },
    { "log_softmax", "LogSoftmax", NULL },
    { "softplus", "Softplus", NULL },
    { "softsign", "Softsign", NULL },
    { "exponential", "Exp", NULL },
    { "gelu", NULL, gelu },
    { "gelu_approximate", NULL, layer_activation_gelu_approximate },
    { "swish", NULL, layer_activation_swish },
    { "silu", NULL, layer_activation_swish },
    { "leaky_relu", NULL, leaky_relu },
    { "hard_sigmoid", NULL, hard_sigmoid },
};

mf_output mf_layer_activation(mf_layer_call *l, const char *name, mf_output x)
{
    if (strcmp(name, "linear") == 0)
        return x;
    for (int i = 0; i < MF_COUNT(activations); i++) {
        if (strcmp(activations[i].name, name) != 0)
            continue;
        return activations[i].op ? mf_apply(l->graph, activations[i].op, MF_IN(x))
                                 : activations[i].build(l, x);
    }
    return mf_layer_fail(l, "there is no activation '%.60s'; docs/reference/models.md lists them",
                         name);
}

/* ---- as layers ---- */

static mf_output activation_build(mf_layer_call *l)
{
    return mf_layer_activation(l, mf_options_string(&l->o, "activation"), l->in[0]);
}

static mf_output softmax_build(mf_layer_call *l)
{
    return mf_layer_activation(l, "softmax", l->in[0]);
}

static mf_output relu_build(mf_layer_call *l)
{
    return mf_layer_activation(l, "relu", l->in[0]);
}

static mf_output leaky_build(mf_layer_call *l)
{
    return mf_applyf(l->graph, "LeakyRelu", MF_IN(l->in[0]), "alpha=%.9g",
                     mf_options_float(&l->o, "negative_slope"));
}

const mf_layer_kind mf_layers_activation[] = {
    { "Activation", "{activation: string}", 1, 1, 1, "an activation by its name",
      activation_build },
    { "ReLU", "{}", 1, 1, 1, "x where it is above 0, else 0", relu_build },
    { "LeakyReLU", "{negative_slope: float = 0.3}", 1, 1, 1, "x, or slope * x below 0",
      leaky_build },
    { "Softmax", "{}", 1, 1, 2, "probabilities over the last dimension", softmax_build },
    { 0 },
};
