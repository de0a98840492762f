/* SPDX-License-Identifier: Apache-2.0 */
/* layer_residual.c - a composite layer: the block of a residual network. Its parts are named
 * "residual_block/conv1" and so on. */
#include "models/layer.h"

/* A convolution without bias, then batch normalisation. */
static mf_output conv_norm(mf_layer_call *l, mf_output x, const char *part, int64_t size,
                           int64_t strides)
{
    x = mf_layer(l->model, "Conv2D", MF_IN(x),
                 "name='%s/conv%s' filters=%lld kernel_size=%lld strides=%lld padding=same "
                 "use_bias=false kernel_initializer=%s l2=%.9g",
                 l->name, part, (long long)mf_options_int(&l->o, "filters"), (long long)size,
                 (long long)strides, mf_options_string(&l->o, "kernel_initializer"),
                 mf_options_float(&l->o, "l2"));
    return mf_layer(l->model, "BatchNormalization", MF_IN(x), "name='%s/norm%s' momentum=%.9g",
                    l->name, part, mf_options_float(&l->o, "momentum"));
}

/* relu(shortcut(x) + norm(conv(relu(norm(conv(x)))))); the shortcut is x itself, or a 1x1
 * convolution of it where the shapes differ. */
static mf_output residual_build(mf_layer_call *l)
{
    const int64_t strides = mf_options_int(&l->o, "strides");
    const bool same = strides == 1 && l->shape.dims[3] == mf_options_int(&l->o, "filters");
    mf_output y = conv_norm(l, l->in[0], "1", 3, strides);
    mf_output x = same ? l->in[0] : conv_norm(l, l->in[0], "_shortcut", 1, strides);

    y = conv_norm(l, mf_apply(l->graph, "Relu", MF_IN(y)), "2", 3, 1);
    return mf_apply(l->graph, "Relu", MF_IN(mf_apply(l->graph, "AddV2", MF_IN(x, y))));
}

const mf_layer_kind mf_layers_residual[] = {
    { "ResidualBlock",
      "{filters: int >= 1, strides: int >= 1 = 1, kernel_initializer: string = 'he_normal', "
      "momentum: float = 0.99, l2: float = 0.0}",
      1, 1, 4, "conv, norm, relu, conv, norm, plus the input, relu", residual_build },
    { 0 },
};
