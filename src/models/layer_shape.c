/* SPDX-License-Identifier: Apache-2.0 */
/* layer_shape.c - layers without weights that change the shape of values. */
#include "models/layer.h"

static mf_output flatten_build(mf_layer_call *l)
{
    const int64_t n = mf_shape_span(&l->shape, 1, l->shape.rank);

    return mf_layer_reshape(l, l->in[0], (int64_t[]){ -1, n }, 2);
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

/* One dimension may be -1: inferred. */
static mf_output reshape_build(mf_layer_call *l)
{
    int64_t n, dims[MF_MAX_RANK] = { -1 }, *hole = NULL,
               left = mf_shape_span(&l->shape, 1, l->shape.rank);
    const int64_t *given = mf_options_ints(&l->o, "target_shape", &n), whole = left;

    if (n >= MF_MAX_RANK)
        return mf_layer_fail(l, "target_shape has %lld dimensions, but the maximum is %d",
                             (long long)n, MF_MAX_RANK - 1);
    for (int64_t i = 0; i < n; i++) {
        dims[i + 1] = given[i];
        if (given[i] == -1 && !hole)
            hole = &dims[i + 1];
        else if (given[i] < 1 || left % given[i] != 0)
            return mf_layer_fail(l, "target_shape does not have the %lld elements of a sample",
                                 (long long)whole);
        else
            left /= given[i];
    }
    if (hole)
        *hole = left;
    else if (left != 1)
        return mf_layer_fail(l, "target_shape does not have the %lld elements of a sample",
                             (long long)whole);
    return mf_layer_reshape(l, l->in[0], dims, (int)n + 1);
}

/* dims: the dimensions of a sample, numbered from 1, in their new order. */
static mf_output permute_build(mf_layer_call *l)
{
    int64_t n, order[MF_MAX_RANK] = { 0 };
    const int64_t *dims = mf_options_ints(&l->o, "dims", &n);
    unsigned seen = 1;

    for (int64_t i = 0; i < n && n == l->shape.rank - 1; i++) {
        order[i + 1] = dims[i];
        seen |= dims[i] > 0 && dims[i] < MF_MAX_RANK ? 1U << dims[i] : 0;
    }
    if (seen != (1U << l->shape.rank) - 1)
        return mf_layer_fail(l, "dims must name each of the dimensions 1 to %d once",
                             l->shape.rank - 1);
    return mf_apply(l->graph, "Transpose",
                    MF_IN(l->in[0], mf_ints(l->graph, order, l->shape.rank)));
}

/* padding: one number, height and width, or top, bottom, left, right. */
static mf_output zero_padding_build(mf_layer_call *l)
{
    int64_t n, pad[8] = { 0 };
    const int64_t *given = mf_options_ints(&l->o, "padding", &n);

    for (int i = 0; i < 4; i++) {
        pad[i + 2] = n == 1 ? given[0] : n == 2 ? given[i / 2] : n == 4 ? given[i] : -1;
        if (pad[i + 2] < 0)
            return mf_layer_fail(l, "padding must be one, two or four numbers of at least 0");
    }
    return mf_apply(
        l->graph, "Pad",
        MF_IN(l->in[0], mf_layer_reshape(l, mf_ints(l->graph, pad, 8), (int64_t[]){ 4, 2 }, 2)));
}

const mf_layer_kind mf_layers_shape[] = {
    { "Flatten", "{}", 1, 1, 1, "merges all dimensions except the batch", flatten_build },
    { "Reshape", "{target_shape: list(int)}", 1, 1, 1, "the same values with another shape",
      reshape_build },
    { "Permute", "{dims: list(int)}", 1, 1, 2, "dimensions of a sample in another order",
      permute_build },
    { "ZeroPadding2D", "{padding: list(int) = [1]}", 1, 1, 4, "zeros around images",
      zero_padding_build },
    { "Rescaling", "{scale: float, offset: float = 0.0}", 1, 1, 1, "x * scale + offset, as floats",
      rescaling_build },
    { 0 },
};
