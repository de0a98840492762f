/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_grad.c - gradients of reductions: kept dimensions, the gradient of Prod. */
#include "ops/math/reduce_grad.h"

/* The axes, if they are a constant; otherwise NULL. */
static const mf_tensor *constant_axes(const mf_grad *g)
{
    const mf_node *node = g->x[1].node;
    const mf_attr *value =
        node && strcmp(node->op_name, "Const") == 0 ? mf_node_attr(node, "value") : NULL;

    return value && value->kind == MF_ATTR_TENSOR && value->tensor->count <= MF_MAX_RANK
               ? value->tensor
               : NULL;
}

/* Axes in the order in which ExpandDims restores them one by one, which works for an unknown rank
 * if all have the same sign. False otherwise. */
static bool sorted_axes(const mf_tensor *axes, int64_t *out, int64_t *n)
{
    *n = axes->count;
    for (int64_t i = 0; i < *n; i++) {
        const int64_t axis = mf_tensor_int_at(axes, i);
        const int64_t key = axis < 0 ? -axis : axis;
        int64_t at = i;

        if ((axis < 0) != (mf_tensor_int_at(axes, 0) < 0))
            return false;
        for (; at > 0 && (out[at - 1] < 0 ? -out[at - 1] : out[at - 1]) > key; at--)
            out[at] = out[at - 1];
        out[at] = axis;
    }
    return true;
}

static mf_output axes_from_zero(mf_grad *g, mf_output rank)
{
    mf_output axes = MF_G2("Reshape", g->x[1], mf_ints(g->graph, (const int64_t[]){ -1 }, 1));

    if (mf_grad_type(axes) != MF_DTYPE_I32)
        axes = mf_applyf(g->graph, "Cast", MF_IN(axes), "DstT=int32");
    return MF_G2("FloorMod", MF_G2("AddV2", axes, rank), rank);
}

/* The input's shape with ones at the reduced dimensions, computed when the step runs. */
static mf_output kept_shape(mf_grad *g)
{
    const mf_output shape = MF_G1("Shape", g->x[0]), rank = MF_G1("Size", shape);
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1);
    const mf_output axes = axes_from_zero(g, rank);
    const mf_output ones = MF_G2("Fill", MF_G1("Shape", axes), one);
    const mf_output all = MF_G3("Range", zero, rank, one);

    return mf_apply(g->graph, "DynamicStitch", MF_IN(all, axes, shape, ones));
}

mf_output mf_grad_keep_dims(mf_grad *g, mf_output y)
{
    const mf_tensor *axes = constant_axes(g);
    int64_t sorted[MF_MAX_RANK], n;

    if (mf_node_bool(g->node, "keep_dims"))
        return y;
    if (!axes || !sorted_axes(axes, sorted, &n))
        return MF_G2("Reshape", y, kept_shape(g));
    for (int64_t i = 0; i < n; i++)
        y = MF_G2("ExpandDims", y, mf_scalar(g->graph, MF_DTYPE_I32, (double)sorted[i]));
    return y;
}

/* The product of all other elements along `axis`: of those before times of those after. */
static mf_output product_of_others(mf_grad *g, mf_output x, mf_output axis)
{
    const mf_output before = mf_applyf(g->graph, "Cumprod", MF_IN(x, axis), "exclusive=true");
    const mf_output behind =
        mf_applyf(g->graph, "Cumprod", MF_IN(x, axis), "exclusive=true reverse=true");

    return MF_G2("Mul", mf_grad_conj(g, before), mf_grad_conj(g, behind));
}

/* Several axes: they are moved to the front and merged. */
static mf_output product_of_others_moved(mf_grad *g)
{
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1);
    const mf_output shape = MF_G1("Shape", g->x[0]), rank = MF_G1("Size", shape);
    const mf_output axes = axes_from_zero(g, rank);
    const mf_output others = MF_G2("ListDiff", MF_G3("Range", zero, rank, one), axes);
    const mf_output perm = MF_G3("ConcatV2", axes, others, zero);
    const mf_output n = MF_G2("Prod", MF_G3("GatherV2", shape, axes, zero), zero);
    const mf_output m = MF_G2("Prod", MF_G3("GatherV2", shape, others, zero), zero);
    const mf_output moved = MF_G2("Transpose", g->x[0], perm);
    const mf_output flat = MF_G2("Reshape", moved, MF_G2("Pack", n, m));
    const mf_output y = MF_G2("Reshape", product_of_others(g, flat, zero), MF_G1("Shape", moved));

    return MF_G2("Transpose", y, MF_G1("InvertPermutation", perm));
}

mf_status mf_grad_prod(mf_grad *g)
{
    const mf_tensor *axes = constant_axes(g);
    const mf_output shape = MF_G1("Shape", g->x[0]);
    const mf_output dy = MF_G2("BroadcastTo", mf_grad_keep_dims(g, g->dy[0]), shape);
    mf_output others;

    if (axes && axes->count == 0)
        g->dx[0] = dy;
    if (axes && axes->count == 0)
        return MF_OK;
    if (axes && axes->count == 1)
        others = product_of_others(
            g, g->x[0], mf_scalar(g->graph, MF_DTYPE_I32, (double)mf_tensor_int_at(axes, 0)));
    else
        others = product_of_others_moved(g);
    g->dx[0] = MF_G2("Mul", dy, others);
    return MF_OK;
}
