/* SPDX-License-Identifier: Apache-2.0 */
/* layer_merge.c - layers that join several inputs. */
#include "models/layer.h"

enum { MOST = 64 }; /* maximum number of inputs */

static mf_output layer_merge_join(mf_layer_call *l, const char *op)
{
    mf_output y = l->in[0];

    for (int i = 1; i < l->n_in; i++)
        y = mf_apply(l->graph, op, MF_IN(y, l->in[i]));
    return y;
}

static mf_output add_build(mf_layer_call *l)
{
    return layer_merge_join(l, "AddV2");
}

static mf_output multiply_build(mf_layer_call *l)
{
    return layer_merge_join(l, "Mul");
}

static mf_output subtract_build(mf_layer_call *l)
{
    return layer_merge_join(l, "Sub");
}

static mf_output maximum_build(mf_layer_call *l)
{
    return layer_merge_join(l, "Maximum");
}

static mf_output layer_merge_average_build(mf_layer_call *l)
{
    return mf_apply(l->graph, "Mul",
                    MF_IN(layer_merge_join(l, "AddV2"), mf_layer_number(l, 1.0 / (double)l->n_in)));
}

static mf_output concatenate_build(mf_layer_call *l)
{
    const int64_t axis = mf_options_int(&l->o, "axis");
    mf_output in[MOST + 2];
    int at;

    if (!mf_axis_fix(axis, l->shape.rank, &at) || at == 0)
        return mf_layer_fail(l, "axis=%lld is not a dimension of a sample", (long long)axis);
    for (int i = 0; i < l->n_in; i++)
        in[i] = l->in[i];
    in[l->n_in] = mf_scalar(l->graph, MF_DTYPE_I32, at);
    in[l->n_in + 1] = (mf_output)MF_END;
    return mf_apply(l->graph, "ConcatV2", in);
}

const mf_layer_kind mf_layers_merge[] = {
    { "Add", "{}", 2, MOST, 1, "the sum of its inputs", add_build },
    { "Subtract", "{}", 2, 2, 1, "the first input minus the second", subtract_build },
    { "Multiply", "{}", 2, MOST, 1, "the product of its inputs", multiply_build },
    { "Average", "{}", 2, MOST, 1, "the mean of its inputs", layer_merge_average_build },
    { "Maximum", "{}", 2, MOST, 1, "the maximum of its inputs", maximum_build },
    { "Concatenate", "{axis: int = -1}", 2, MOST, 2, "concatenation of its inputs",
      concatenate_build },
    { 0 },
};
