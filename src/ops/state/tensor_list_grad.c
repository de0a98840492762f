/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list_grad.c - gradients of the TensorList ops. */
#include "ops/control/grad_util.h"
#include "ops/state/tensor_list.h"

static const char *element_type(const mf_grad *g)
{
    return mf_dtype_name(mf_node_type(g->node, "element_dtype"));
}

/* A list of the same length as `list`, all unset: they read as zeros. */
static mf_output tensor_list_grad_zeros_of(const mf_grad *g, mf_output list)
{
    const mf_output shape =
        mf_applyf(g->graph, "TensorListElementShape", MF_IN(list), "shape_type=int32");

    return mf_applyf(g->graph, "TensorListReserve", MF_IN(shape, MF_G1("TensorListLength", list)),
                     "element_dtype=%s", element_type(g));
}

/* The elements of the list at the indices, as rows of a tensor like `rows`. */
static mf_output tensor_list_grad_gather(const mf_grad *g, mf_output list, mf_output indices,
                                         mf_output rows)
{
    const mf_output one = mf_ints(g->graph, (int64_t[]){ 1 }, 1);
    const mf_output rest = mf_ints(g->graph, (int64_t[]){ -1 }, 1);
    const mf_output shape = MF_G3("Slice", MF_G1("Shape", rows), one, rest);

    return mf_applyf(g->graph, "TensorListGather", MF_IN(list, indices, shape), "element_dtype=%s",
                     mf_dtype_name(mf_grad_type(rows)));
}

mf_status mf_list_push_grad(mf_grad *g)
{
    g->dx[0] = mf_applyf(g->graph, "TensorListPopBack", MF_IN(g->dy[0], MF_G1("Shape", g->x[1])),
                         "element_dtype=%s", element_type(g));
    g->dx[1] = (mf_output){ g->dx[0].node, 1 };
    return MF_OK;
}

mf_status mf_list_pop_grad(mf_grad *g)
{
    mf_output dlist = g->dy[0], item = g->dy[1];

    if (!dlist.node) /* the shorter list has no gradient: all zeros */
        dlist = tensor_list_grad_zeros_of(g, g->y[0]);
    if (!item.node)
        item = MF_G1("ZerosLike", g->y[1]);
    g->dx[0] = MF_G2("TensorListPushBack", dlist, item);
    return MF_OK;
}

mf_status mf_list_stack_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("TensorListFromTensor", g->dy[0], g->x[1]);
    return MF_OK;
}

mf_status mf_list_from_tensor_grad(mf_grad *g)
{
    const mf_output shape =
        mf_applyf(g->graph, "TensorListElementShape", MF_IN(g->dy[0]), "shape_type=int32");

    g->dx[0] = mf_applyf(g->graph, "TensorListStack", MF_IN(g->dy[0], shape), "element_dtype=%s",
                         element_type(g));
    return MF_OK;
}

mf_status mf_list_get_grad(mf_grad *g)
{
    g->dx[0] = MF_G3("TensorListSetItem", tensor_list_grad_zeros_of(g, g->x[0]), g->x[1], g->dy[0]);
    return MF_OK;
}

mf_status mf_list_set_grad(mf_grad *g)
{
    g->dx[0] = MF_G3("TensorListSetItem", g->dy[0], g->x[1], MF_G1("ZerosLike", g->x[2]));
    g->dx[2] =
        mf_applyf(g->graph, "TensorListGetItem", MF_IN(g->dy[0], g->x[1], MF_G1("Shape", g->x[2])),
                  "element_dtype=%s", element_type(g));
    return MF_OK;
}

/* As in TensorFlow, an element gathered twice gets the gradient of its last use. */
mf_status mf_list_gather_grad(mf_grad *g)
{
    g->dx[0] = MF_G3("TensorListScatterIntoExistingList", tensor_list_grad_zeros_of(g, g->x[0]),
                     g->dy[0], g->x[1]);
    return MF_OK;
}

mf_status mf_list_resize_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("TensorListResize", g->dy[0], MF_G1("TensorListLength", g->x[0]));
    return MF_OK;
}

mf_status mf_list_scatter_grad(mf_grad *g)
{
    g->dx[0] = tensor_list_grad_gather(g, g->dy[0], g->x[1], g->x[0]);
    return MF_OK;
}

mf_status mf_list_scatter_existing_grad(mf_grad *g)
{
    g->dx[0] =
        MF_G3("TensorListScatterIntoExistingList", g->dy[0], MF_G1("ZerosLike", g->x[1]), g->x[2]);
    g->dx[1] = tensor_list_grad_gather(g, g->dy[0], g->x[2], g->x[1]);
    return MF_OK;
}
