/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - layers without weights that give values another form. */
#include "models/layer.h"

static mf_output flatten_build(mf_layer_call *l)
{
    int64_t n = 1;

    for (int i = 1; i < l->shape.rank; i++)
        n *= l->shape.dims[i];
    if (n < 0)
        return mf_layer_fail(l, "the shape of its input is not known");
    return mf_apply(l->graph, "Reshape",
                    MF_IN(l->in[0], mf_ints(l->graph, (int64_t[]){ -1, n }, 2)));
}

static mf_output rescaling_build(mf_layer_call *l)
{
    const double offset = mf_options_float(&l->o, "offset");
    mf_output x = mf_applyf(l->graph, "Cast", MF_IN(l->in[0]), "DstT=float");

    x = mf_apply(l->graph, "Mul",
                 MF_IN(x, mf_scalar(l->graph, MF_DTYPE_F32, mf_options_float(&l->o, "scale"))));
    if (offset != 0.0)
        x = mf_apply(l->graph, "AddV2", MF_IN(x, mf_scalar(l->graph, MF_DTYPE_F32, offset)));
    return x;
}

const mf_layer_kind mf_layers_shape[] = {
    { "Flatten", "{}", 1, 1, 1, "all dimensions but the batch become one", flatten_build },
    { "Rescaling", "{scale: float, offset: float = 0.0}", 1, 1, 1, "x * scale + offset, as floats",
      rescaling_build },
    { 0 },
};
