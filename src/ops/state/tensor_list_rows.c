/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list_rows.c - converts between the rows of a tensor and the elements of a list. */
#include "ops/array/array_util.h"
#include "ops/state/tensor_list.h"

#include <string.h>

/* ---- rows to elements ---- */

/* Sets element `at` to row i of t. */
static mf_status tensor_list_rows_put_row(mf_list *l, int64_t at, const mf_tensor *t, int64_t i)
{
    mf_shape one = t->shape;
    mf_tensor *item = &l->items[at];

    one.rank--;
    memmove(one.dims, one.dims + 1, (size_t)one.rank * sizeof(int64_t));
    mf_tensor_clear(item);
    MF_TRY(mf_tensor_alloc(item, t->dtype, &one));
    MF_TRY(mf_list_check_item(l, item));
    return mf_cells_copy(t->dtype, item->data, 0, t->data, i * item->count, item->count);
}

static mf_status from_tensor_fill(const mf_tensor *t, mf_list *l)
{
    for (int64_t i = 0; i < l->n; i++)
        MF_TRY(tensor_list_rows_put_row(l, i, t, i));
    return MF_OK;
}

static mf_status from_tensor_run(mf_kernel *k)
{
    const mf_tensor *t = k->in[0];
    mf_shape element;
    mf_status st;
    mf_list *l;

    if (t->shape.rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Tensor must be at least a vector, but saw shape: []");
    MF_TRY(mf_list_shape_input(k, 1, &element));
    MF_TRY(mf_list_new(t->dtype, &element, t->shape.dims[0], &l));
    st = from_tensor_fill(t, l);
    if (st == MF_OK)
        return mf_list_put(k, 0, l);
    mf_object_unref(&l->object);
    return st;
}

/* ---- rows of a tensor to places given by indices ---- */

static mf_status scatter_check(const mf_tensor *t, const mf_tensor *indices, int64_t *largest)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    *largest = -1;
    if (t->shape.rank < 1 || indices->shape.rank != 1 || t->shape.dims[0] != indices->count)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Specified a list with shape %s from a tensor with shape %s",
                       mf_shape_text(&indices->shape, a), mf_shape_text(&t->shape, b));
    for (int64_t i = 0; i < indices->count; i++) {
        const int64_t at = mf_index_at(indices, i);

        if (at < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Indices in TensorListScatter must all be "
                           "non-negative, got %lld",
                           (long long)at);
        *largest = at > *largest ? at : *largest;
    }
    return MF_OK;
}

/* Sets the elements, and takes over the list, even on failure. */
static mf_status tensor_list_rows_scatter_into(mf_kernel *k, mf_list *l, const mf_tensor *t,
                                               const mf_tensor *indices)
{
    mf_status st = MF_OK;

    for (int64_t i = 0; st == MF_OK && i < indices->count; i++)
        st = tensor_list_rows_put_row(l, mf_index_at(indices, i), t, i);
    if (st == MF_OK)
        return mf_list_put(k, 0, l);
    mf_object_unref(&l->object);
    return st;
}

/* TensorListScatter: (tensor, indices, element_shape); V2 also: num_elements, -1 for as many as the
 * indices need. */
static mf_status tensor_list_rows_scatter_run(mf_kernel *k)
{
    const mf_tensor *t = k->in[0], *indices = k->in[1];
    int64_t n = -1, largest;
    mf_shape element;
    mf_list *l;

    MF_TRY(scatter_check(t, indices, &largest));
    MF_TRY(mf_list_shape_input(k, 2, &element));
    if (k->n_in > 3)
        MF_TRY(mf_list_int_input(k, 3, &n));
    if (n < -1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "TensorListScatter expects num_elements >= -1, found: %lld", (long long)n);
    if (n >= 0 && largest >= n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "TensorListScatter: Trying to scatter at index %lld in list with size %lld",
                       (long long)largest, (long long)n);
    MF_TRY(mf_list_new(t->dtype, &element, n >= 0 ? n : largest + 1, &l));
    return tensor_list_rows_scatter_into(k, l, t, indices);
}

/* TensorListScatterIntoExistingList: (list, tensor, indices); the list grows as needed. */
static mf_status scatter_existing_run(mf_kernel *k)
{
    const mf_tensor *t = k->in[1], *indices = k->in[2];
    int64_t largest;
    mf_list *l;

    MF_TRY(scatter_check(t, indices, &largest));
    if (largest >= MF_LIST_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a list cannot have an element %lld",
                       (long long)largest);
    MF_TRY(mf_list_writable(k, t->dtype, &l));
    if (largest >= l->n) {
        const mf_status st = mf_list_resize(l, largest + 1);

        if (st != MF_OK) {
            mf_object_unref(&l->object);
            return st;
        }
    }
    return tensor_list_rows_scatter_into(k, l, t, indices);
}

/* ---- elements to rows ---- */

/* Elements indices[0..n) (NULL: all in order) as one tensor. */
static mf_status stack_into(mf_kernel *k, const mf_list *l, const mf_tensor *indices, int64_t n,
                            mf_shape shape, mf_tensor *item)
{
    mf_tensor *out = NULL;
    mf_shape all, first = shape;

    for (int64_t i = 0; i < n || (i == 0 && n == 0); i++) {
        const int64_t at = indices ? mf_index_at(indices, i < n ? i : 0) : i;

        if (n > 0 && (at < 0 || at >= l->n))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Trying to access element %lld in a list with %lld elements.",
                           (long long)at, (long long)l->n);
        if (n > 0) {
            MF_TRY(mf_list_read_item(l, at, &first, item));
            first = item->shape;
        } else if (!mf_shape_is_static(&first)) {
            return MF_FAIL(MF_INVALID_ARGUMENT, "Tried to stack elements of an empty list with "
                                                "non-fully-defined element_shape");
        }
        if (i == 0) {
            MF_TRY(mf_rank_check(first.rank + 1));
            all = (mf_shape){ .rank = first.rank + 1, .dims = { n } };
            memcpy(all.dims + 1, first.dims, (size_t)first.rank * sizeof(int64_t));
            MF_TRY(mf_kernel_out(k, 0, &all, &out));
        }
        if (n > 0)
            MF_TRY(mf_cells_copy(l->dtype, out->data, i * item->count, item->data, 0, item->count));
    }
    return MF_OK;
}

static mf_status stack_list(mf_kernel *k, const mf_tensor *indices, int shape_at)
{
    const int64_t want = indices ? -1 : mf_node_int(k->node, "num_elements");
    mf_tensor item = { 0 };
    mf_shape shape;
    mf_status st;
    mf_list *l;

    MF_TRY(mf_list_input(k, k->node->out_types[0], &l));
    MF_TRY(mf_list_both_shapes(k, shape_at, l, &shape));
    if (want >= 0 && want != l->n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Operation expected a list with %lld elements but got a list with %lld "
                       "elements.",
                       (long long)want, (long long)l->n);
    st = stack_into(k, l, indices, indices ? indices->count : l->n, shape, &item);
    mf_tensor_clear(&item);
    return st;
}

static mf_status stack_run(mf_kernel *k)
{
    return stack_list(k, NULL, 1);
}

static mf_status tensor_list_rows_gather_run(mf_kernel *k)
{
    return stack_list(k, k->in[1], 2);
}

static mf_status stack_infer(mf_infer *in)
{
    const mf_shape s = mf_list_infer_element(in, in->n_in - 1);
    const int64_t n = in->n_in == 2 ? mf_node_int(in->node, "num_elements") : MF_UNKNOWN_DIM;

    if (s.rank < 0 || s.rank >= MF_MAX_RANK)
        return MF_OK;
    in->out[0] = (mf_shape){ .rank = s.rank + 1, .dims = { n < 0 ? MF_UNKNOWN_DIM : n } };
    memcpy(in->out[0].dims + 1, s.dims, (size_t)s.rank * sizeof(int64_t));
    return MF_OK;
}

const mf_op mf_ops_tensor_list_rows[] = {
    MF_LIST_OP("TensorListFromTensor",
               "(tensor:element_dtype, element_shape:shape_type) -> "
               "(output_handle:variant) " MF_LIST_MAKES,
               mf_infer_scalar, mf_list_from_tensor_grad, from_tensor_run),
    MF_LIST_OP("TensorListStack",
               "(input_handle:variant, element_shape:int32) -> (tensor:element_dtype) "
               "{element_dtype:type, "
               "num_elements:int=-1}",
               stack_infer, mf_list_stack_grad, stack_run),
    MF_LIST_OP(
        "TensorListGather",
        "(input_handle:variant, indices:int32, element_shape:int32) -> (values:element_dtype) "
        "{element_dtype:type}",
        stack_infer, mf_list_gather_grad, tensor_list_rows_gather_run),
    MF_LIST_OP("TensorListScatter",
               "(tensor:element_dtype, indices:int32, element_shape:shape_type) -> "
               "(output_handle:variant) " MF_LIST_MAKES,
               mf_infer_scalar, mf_list_scatter_grad, tensor_list_rows_scatter_run),
    MF_LIST_OP(
        "TensorListScatterV2",
        "(tensor:element_dtype, indices:int32, element_shape:shape_type, num_elements:int32) -> "
        "(output_handle:variant) " MF_LIST_MAKES,
        mf_infer_scalar, mf_list_scatter_grad, tensor_list_rows_scatter_run),
    MF_LIST_OP(
        "TensorListScatterIntoExistingList",
        "(input_handle:variant, tensor:element_dtype, indices:int32) -> (output_handle:variant) "
        "{element_dtype:type}",
        mf_infer_scalar, mf_list_scatter_existing_grad, scatter_existing_run),
    { 0 },
};
