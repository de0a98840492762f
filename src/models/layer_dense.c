/* SPDX-License-Identifier: Apache-2.0 */
/* layer_dense.c - fully connected layers. */
#include "models/layer.h"

/* y = activation(x W + b) over the last dimension. */
static mf_output dense_build(mf_layer_call *l)
{
    const int64_t units = mf_options_int(&l->o, "units");
    const int64_t width = l->shape.rank > 0 ? l->shape.dims[l->shape.rank - 1] : -1;

    return mf_layer_product(l, l->in[0], &(mf_product){ .kernel = MF_SHAPE(width, units) });
}

const mf_layer_kind mf_layers_dense[] = {
    { "Dense",
      "{units: int >= 1, activation: string = 'linear', use_bias: bool = true, " MF_KERNEL_SETTINGS
      ", " MF_PRODUCT_SETTINGS "}",
      1, 1, 2, "fully connected", dense_build },
    { 0 },
};
