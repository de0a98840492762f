/* SPDX-License-Identifier: Apache-2.0 */
/* dense.c - fully connected layers. */
#include "models/layer.h"

/* y = activation(x W + b) over the last dimension. */
static mf_output dense_build(mf_layer_call *l)
{
    const int64_t units = mf_options_int(&l->o, "units");
    const int64_t width = l->shape.rank > 0 ? l->shape.dims[l->shape.rank - 1] : -1;
    mf_output y = mf_layer_weight(l, "kernel", &MF_SHAPE(width, units),
                                  mf_options_string(&l->o, "kernel_initializer"));

    y = mf_apply(l->graph, l->shape.rank == 2 ? "MatMul" : "BatchMatMulV2", MF_IN(l->in[0], y));
    if (mf_options_bool(&l->o, "use_bias")) {
        mf_output b = mf_layer_weight(l, "bias", &MF_SHAPE(units),
                                      mf_options_string(&l->o, "bias_initializer"));

        y = mf_apply(l->graph, "BiasAdd", MF_IN(y, b));
    }
    return mf_layer_activation(l, mf_options_string(&l->o, "activation"), y);
}

const mf_layer_kind mf_layers_dense[] = {
    { "Dense",
      "{units: int >= 1, activation: string = 'linear', use_bias: bool = true, "
      "kernel_initializer: string = 'glorot_uniform', bias_initializer: string = 'zeros'}",
      1, 1, 2, "every output from every input", dense_build },
    { 0 },
};
