/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list_ops.c - ops on lists of tensors: creation and single elements. */
#include "ops/array/array_util.h"
#include "ops/state/handle.h"
#include "ops/state/tensor_list.h"

/* ---- making ---- */

static mf_status tensor_list_ops_empty_run(mf_kernel *k)
{
    mf_shape element;
    int64_t max;
    mf_list *l;

    MF_TRY(mf_list_shape_input(k, 0, &element));
    MF_TRY(mf_list_int_input(k, 1, &max));
    MF_TRY(mf_list_new(mf_node_type(k->node, "element_dtype"), &element, 0, &l));
    l->max = max;
    return mf_list_put(k, 0, l);
}

static mf_status reserve_run(mf_kernel *k)
{
    mf_shape element;
    int64_t n;
    mf_list *l;

    MF_TRY(mf_list_shape_input(k, 0, &element));
    MF_TRY(mf_list_int_input(k, 1, &n));
    MF_TRY(mf_list_new(mf_node_type(k->node, "element_dtype"), &element, n, &l));
    return mf_list_put(k, 0, l);
}

/* ---- changing ---- */

static mf_status tensor_list_ops_push(mf_list *l, const mf_tensor *t)
{
    MF_TRY(mf_list_check_item(l, t));
    if (l->max >= 0 && l->n >= l->max)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Tried to push item into a full list list size: %lld max_num_elements: %lld",
                       (long long)l->n, (long long)l->max);
    MF_TRY(mf_list_resize(l, l->n + 1));
    return mf_tensor_keep(&l->items[l->n - 1], t);
}

static mf_status tensor_list_ops_push_run(mf_kernel *k)
{
    mf_list *l;
    mf_status st;

    MF_TRY(mf_list_writable(k, k->in[1]->dtype, &l));
    st = tensor_list_ops_push(l, k->in[1]);
    if (st == MF_OK)
        return mf_list_put(k, 0, l);
    mf_object_unref(&l->object);
    return st;
}

static mf_status pop(mf_kernel *k, mf_list *l)
{
    mf_shape shape;

    if (l->n == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Trying to pop from an empty list.");
    MF_TRY(mf_list_both_shapes(k, 1, l, &shape));
    MF_TRY(mf_list_read_item(l, l->n - 1, &shape, k->out[1]));
    return mf_list_resize(l, l->n - 1);
}

static mf_status tensor_list_ops_pop_run(mf_kernel *k)
{
    mf_list *l;
    mf_status st;

    MF_TRY(mf_list_writable(k, k->node->out_types[1], &l));
    st = pop(k, l);
    if (st == MF_OK)
        return mf_list_put(k, 0, l);
    mf_object_unref(&l->object);
    return st;
}

static mf_status set(const mf_kernel *k, mf_list *l, int64_t index)
{
    if (index >= l->n && index < MF_LIST_MAX &&
        mf_node_bool(k->node, "resize_if_index_out_of_bounds"))
        MF_TRY(mf_list_resize(l, index + 1));
    if (index < 0 || index >= l->n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Trying to modify element %lld in a list with %lld elements.",
                       (long long)index, (long long)l->n);
    MF_TRY(mf_list_check_item(l, k->in[2]));
    return mf_tensor_keep(&l->items[index], k->in[2]);
}

static mf_status tensor_list_ops_set_run(mf_kernel *k)
{
    int64_t index;
    mf_list *l;
    mf_status st;

    MF_TRY(mf_list_int_input(k, 1, &index));
    MF_TRY(mf_list_writable(k, k->in[2]->dtype, &l));
    st = set(k, l, index);
    if (st == MF_OK)
        return mf_list_put(k, 0, l);
    mf_object_unref(&l->object);
    return st;
}

static mf_status tensor_list_ops_resize_run(mf_kernel *k)
{
    int64_t n;
    mf_list *l;
    mf_status st;

    MF_TRY(mf_list_int_input(k, 1, &n));
    MF_TRY(mf_list_writable(k, MF_DTYPE_INVALID, &l));
    st = mf_list_resize(l, n);
    if (st == MF_OK)
        return mf_list_put(k, 0, l);
    mf_object_unref(&l->object);
    return st;
}

/* ---- reading ---- */

static mf_status tensor_list_ops_get_run(mf_kernel *k)
{
    mf_shape shape;
    int64_t index;
    mf_list *l;

    MF_TRY(mf_list_input(k, k->node->out_types[0], &l));
    MF_TRY(mf_list_int_input(k, 1, &index));
    if (index < 0 || index >= l->n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Trying to access element %lld in a list with %lld elements.",
                       (long long)index, (long long)l->n);
    MF_TRY(mf_list_both_shapes(k, 2, l, &shape));
    return mf_list_read_item(l, index, &shape, k->out[0]);
}

static mf_status tensor_list_ops_length_run(mf_kernel *k)
{
    mf_tensor *out;
    mf_list *l;

    MF_TRY(mf_list_input(k, MF_DTYPE_INVALID, &l));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    *(int32_t *)out->data = (int32_t)l->n;
    return MF_OK;
}

static mf_status element_shape_run(mf_kernel *k)
{
    mf_tensor *out;
    mf_list *l;

    MF_TRY(mf_list_input(k, MF_DTYPE_INVALID, &l));
    if (l->element.rank < 0) {
        MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
        mf_index_put(out, 0, -1);
        return MF_OK;
    }
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(l->element.rank), &out));
    for (int d = 0; d < l->element.rank; d++)
        mf_index_put(out, d, l->element.dims[d]);
    return MF_OK;
}

/* ---- shapes ---- */

static mf_status get_infer(mf_infer *in)
{
    in->out[0] = mf_list_infer_element(in, 2);
    return MF_OK;
}

static mf_status pop_infer(mf_infer *in)
{
    in->out[0] = MF_SCALAR;
    in->out[1] = mf_list_infer_element(in, 1);
    return MF_OK;
}

const mf_op mf_ops_tensor_list[] = {
    MF_LIST_OP(
        "EmptyTensorList",
        "(element_shape:shape_type, max_num_elements:int32) -> (handle:variant) " MF_LIST_MAKES,
        mf_infer_scalar, mf_grad_none, tensor_list_ops_empty_run),
    MF_LIST_OP("TensorListReserve",
               "(element_shape:shape_type, num_elements:int32) -> (handle:variant) " MF_LIST_MAKES,
               mf_infer_scalar, mf_grad_none, reserve_run),
    MF_LIST_OP("TensorListPushBack",
               "(input_handle:variant, tensor:element_dtype) -> (output_handle:variant) "
               "{element_dtype:type}",
               mf_infer_scalar, mf_list_push_grad, tensor_list_ops_push_run),
    MF_LIST_OP("TensorListPopBack",
               "(input_handle:variant, element_shape:int32) -> (output_handle:variant, "
               "tensor:element_dtype) {element_dtype:type}",
               pop_infer, mf_list_pop_grad, tensor_list_ops_pop_run),
    MF_LIST_OP("TensorListGetItem",
               "(input_handle:variant, index:int32, element_shape:Tshape) -> (item:element_dtype) "
               "{element_dtype:type, Tshape:type=int32 in index}",
               get_infer, mf_list_get_grad, tensor_list_ops_get_run),
    MF_LIST_OP("TensorListSetItem",
               "(input_handle:variant, index:int32, item:element_dtype) -> (output_handle:variant) "
               "{element_dtype:type, resize_if_index_out_of_bounds:bool=false}",
               mf_infer_scalar, mf_list_set_grad, tensor_list_ops_set_run),
    MF_LIST_OP("TensorListLength", "(input_handle:variant) -> (length:int32) {}", mf_infer_scalar,
               mf_grad_none, tensor_list_ops_length_run),
    MF_LIST_OP("TensorListElementShape",
               "(input_handle:variant) -> (element_shape:shape_type) {shape_type:type in index}",
               mf_infer_unknown, mf_grad_none, element_shape_run),
    MF_LIST_OP("TensorListResize",
               "(input_handle:variant, size:int32) -> (output_handle:variant) {}", mf_infer_scalar,
               mf_list_resize_grad, tensor_list_ops_resize_run),
    { 0 },
};
