/* SPDX-License-Identifier: Apache-2.0 */
/* layer_parts.c - shared parts of layers: kernels with regularisation, biases, pairs of sizes. */
#include "models/layer.h"

#include <meshflow/mesh.h>

#include <stdio.h>

void mf_layer_name_dims(mf_layer_call *l, const char *names)
{
    const mf_model *m = l->model;

    if (m->n_weights > 0 && !l->graph->failed)
        mf_name_dims(l->graph, m->weights[m->n_weights - 1]->handle, names);
}

/* The last dimension of the weight that was added last is the layer's output dimension. */
static void name_units(mf_layer_call *l, int rank)
{
    const char *dim = mf_options_string(&l->o, "dim");
    char names[MF_MAX_RANK + 64];

    if (dim[0] && rank > 0 &&
        snprintf(names, sizeof names, "%.*s%s", rank - 1, ",,,,,,,,", dim) < (int)sizeof names)
        mf_layer_name_dims(l, names);
}

mf_output mf_layer_kernel(mf_layer_call *l, const char *what, const mf_shape *shape)
{
    const int64_t n = l->model->n_weights;
    const mf_output kernel =
        mf_layer_weight(l, what, shape, mf_options_string(&l->o, "kernel_initializer"));

    if (l->model->n_weights > n) {
        l->model->weights[n]->l1 = mf_options_float(&l->o, "l1");
        l->model->weights[n]->l2 = mf_options_float(&l->o, "l2");
        name_units(l, shape->rank);
    }
    return kernel;
}

mf_output mf_layer_bias(mf_layer_call *l, int64_t units)
{
    const mf_output b =
        mf_layer_weight(l, "bias", &MF_SHAPE(units), mf_options_string(&l->o, "bias_initializer"));

    name_units(l, 1);
    return b;
}

mf_output mf_layer_bias_activation(mf_layer_call *l, mf_output y, int64_t units)
{
    if (mf_options_bool(&l->o, "use_bias"))
        y = mf_apply(l->graph, "BiasAdd", MF_IN(y, mf_layer_bias(l, units)));
    return mf_layer_activation(l, mf_options_string(&l->o, "activation"), y);
}

bool mf_layer_pair(mf_layer_call *l, const char *setting, int64_t pair[2])
{
    int64_t n;
    const int64_t *given = mf_options_ints(&l->o, setting, &n);

    pair[0] = n > 0 ? given[0] : 0;
    pair[1] = n > 1 ? given[1] : pair[0];
    if (n >= 1 && n <= 2 && pair[0] >= 1 && pair[1] >= 1)
        return true;
    (void)mf_layer_fail(l, "%s must be one or two numbers of at least 1, for height and width",
                        setting);
    return false;
}

mf_output mf_layer_number(mf_layer_call *l, double value)
{
    return mf_scalar(l->graph, MF_DTYPE_F32, value);
}

mf_output mf_layer_reshape(mf_layer_call *l, mf_output x, const int64_t *dims, int rank)
{
    return mf_apply(l->graph, "Reshape", MF_IN(x, mf_ints(l->graph, dims, rank)));
}

mf_output mf_layer_reduce(mf_layer_call *l, const char *op, mf_output x, const int64_t *axes, int n,
                          bool keep)
{
    return mf_applyf(l->graph, op, MF_IN(x, mf_ints(l->graph, axes, n)), "keep_dims=%s",
                     keep ? "true" : "false");
}

mf_output mf_layer_unit_length(mf_layer_call *l, mf_output x)
{
    const int64_t last = mf_model_shape(l->model, x).rank - 1;
    mf_output s = mf_layer_reduce(l, "Sum", mf_apply(l->graph, "Square", MF_IN(x)), &last, 1, true);

    s = mf_apply(l->graph, "Maximum", MF_IN(s, mf_layer_number(l, 1e-12)));
    return mf_apply(l->graph, "Mul", MF_IN(x, mf_apply(l->graph, "Rsqrt", MF_IN(s))));
}

mf_output mf_layer_matmul(mf_layer_call *l, mf_output x, mf_output kernel, int64_t units)
{
    mf_shape s = mf_model_shape(l->model, x);
    mf_output y;

    if (s.rank <= 2)
        return mf_apply(l->graph, "MatMul", MF_IN(x, kernel));
    y = mf_layer_reshape(l, x, (int64_t[]){ -1, s.dims[s.rank - 1] }, 2);
    y = mf_apply(l->graph, "MatMul", MF_IN(y, kernel));
    s.dims[s.rank - 1] = units;
    s.dims[0] = -1;
    return mf_layer_reshape(l, y, s.dims, s.rank);
}
