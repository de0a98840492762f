/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_array_ops.c - ops on tensor arrays. The scalar "flow" has no value of its own: its edges
 * order the ops. */
#include "ops/control/grad_util.h"
#include "ops/state/tensor_array.h"

#include <string.h>

/* ---- common ---- */

static mf_status input_array(const mf_kernel *k, mf_array **a)
{
    mf_object *o = NULL;
    const mf_status st = mf_kernel_object(k, 0, &mf_array_type, &o);

    *a = (mf_array *)o;
    return st;
}

static mf_status put_flow(mf_kernel *k, int output, int input)
{
    mf_tensor *out;

    MF_TRY(mf_kernel_out(k, output, &MF_SCALAR, &out));
    *(float *)out->data =
        input >= 0 && k->in[input]->count == 1 ? *(const float *)k->in[input]->data : 0.0f;
    return MF_OK;
}

static mf_status tensor_array_ops_scalar_input(const mf_kernel *k, int i, int64_t *out)
{
    *out = 0;
    if (k->in[i]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "TensorArray: %s must be scalar",
                       k->node->def->in[i].name);
    *out = mf_tensor_int_at(k->in[i], 0);
    return MF_OK;
}

/* Calls fn with the array's lock held. */
static mf_status locked(mf_kernel *k, mf_status (*fn)(mf_kernel *k, mf_array *a))
{
    mf_array *a;
    mf_status st;

    MF_TRY(input_array(k, &a));
    pthread_mutex_lock(&a->lock);
    st = fn(k, a);
    pthread_mutex_unlock(&a->lock);
    return st;
}

/* ---- making ---- */

static mf_status tensor_array_ops_make_run(mf_kernel *k)
{
    const char *name = mf_node_string(k->node, "tensor_array_name");
    int64_t n;
    mf_array *a;
    mf_status st;

    MF_TRY(tensor_array_ops_scalar_input(k, 0, &n));
    if (n < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Size should be >= 0, but was %lld", (long long)n);
    MF_TRY(mf_array_new(name[0] ? name : k->node->name, mf_node_type(k->node, "dtype"), n, &a));
    a->element = *mf_node_shape(k->node, "element_shape");
    a->dynamic = mf_node_bool(k->node, "dynamic_size");
    a->clear_after_read = mf_node_bool(k->node, "clear_after_read");
    a->same_shapes = mf_node_bool(k->node, "identical_element_shapes");
    st = mf_kernel_set_object(k, 0, &a->object);
    mf_object_unref(&a->object);
    return st == MF_OK ? put_flow(k, 1, -1) : st;
}

static mf_status tensor_array_ops_gradient_run(mf_kernel *k)
{
    mf_shape prepend = MF_SCALAR;
    mf_array *a, *grad;
    mf_status st;

    MF_TRY(input_array(k, &a));
    if (k->n_in > 2) {
        int64_t dims[MF_MAX_RANK] = { 0 };

        if (k->in[2]->shape.rank != 1 || k->in[2]->count > MF_MAX_RANK)
            return MF_FAIL(MF_INVALID_ARGUMENT, "shape_to_prepend must be a vector of at most %d",
                           MF_MAX_RANK);
        for (int64_t i = 0; i < k->in[2]->count; i++)
            dims[i] = mf_tensor_int_at(k->in[2], i);
        MF_TRY(mf_shape_from_dims(dims, k->in[2]->count, &prepend));
    }
    MF_TRY(mf_array_gradient(a, mf_node_string(k->node, "source"), &prepend, &grad));
    st = mf_kernel_set_object(k, 0, &grad->object);
    mf_object_unref(&grad->object);
    return st == MF_OK ? put_flow(k, 1, 1) : st;
}

/* ---- one element ---- */

static mf_status write_locked(mf_kernel *k, mf_array *a)
{
    int64_t index;

    MF_TRY(tensor_array_ops_scalar_input(k, 1, &index));
    return mf_array_write(a, index, k->in[2]);
}

static mf_status tensor_array_ops_write_run(mf_kernel *k)
{
    MF_TRY(locked(k, write_locked));
    return put_flow(k, 0, 3);
}

static mf_status read_locked(mf_kernel *k, mf_array *a)
{
    int64_t index;

    MF_TRY(tensor_array_ops_scalar_input(k, 1, &index));
    MF_TRY(mf_array_check(a, k->node->out_types[0]));
    return mf_array_read(a, index, k->out[0]);
}

static mf_status tensor_array_ops_read_run(mf_kernel *k)
{
    return locked(k, read_locked);
}

/* ---- all elements: gather and concat put together, scatter and split take apart ---- */

static mf_shape with_front(const mf_shape *s, int64_t front)
{
    mf_shape out = { .rank = s->rank + 1, .dims = { front } };

    if (s->rank < 0 || s->rank >= MF_MAX_RANK)
        return MF_SHAPE_UNKNOWN;
    memcpy(out.dims + 1, s->dims, (size_t)s->rank * sizeof(int64_t));
    return out;
}

static mf_status gather_nothing(mf_kernel *k, const mf_array *a)
{
    mf_shape element;
    mf_tensor *out;
    char text[MF_SHAPE_TEXT];

    MF_TRY(mf_shape_merge(&a->element, mf_node_shape(k->node, "element_shape"), &element));
    if (!mf_shape_is_static(&element))
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "TensorArray has size zero, but element shape %s is not fully defined. "
                       "Currently only static shapes are supported when packing zero-size "
                       "TensorArrays.",
                       mf_shape_text(&element, text));
    element = with_front(&element, 0);
    return mf_kernel_out(k, 0, &element, &out);
}

static mf_status gather_into(mf_kernel *k, mf_array *a, mf_tensor *item)
{
    const int64_t n = k->in[1]->count;
    mf_shape first = MF_SCALAR;
    char have[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];
    mf_tensor *out = NULL;

    for (int64_t i = 0; i < n; i++) {
        MF_TRY(mf_array_read(a, mf_tensor_int_at(k->in[1], i), item));
        if (i == 0) {
            const mf_shape all = with_front(&item->shape, n);

            first = item->shape;
            MF_TRY(mf_kernel_out(k, 0, &all, &out));
        }
        if (!mf_shape_equal(&first, &item->shape))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "TensorArray has inconsistent shapes.  Index 0 has shape: %s but index "
                           "%lld has shape: %s",
                           mf_shape_text(&first, want), (long long)i,
                           mf_shape_text(&item->shape, have));
        MF_TRY(mf_cells_copy(a->dtype, out->data, i * item->count, item->data, 0, item->count));
    }
    return MF_OK;
}

static mf_status gather_locked(mf_kernel *k, mf_array *a)
{
    mf_tensor item = { 0 };
    mf_status st;

    MF_TRY(mf_array_check(a, k->node->out_types[0]));
    if (k->in[1]->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "TensorArray: indices must be a vector");
    if (k->in[1]->count == 0)
        return gather_nothing(k, a);
    st = gather_into(k, a, &item);
    mf_tensor_clear(&item);
    return st;
}

static mf_status tensor_array_ops_gather_run(mf_kernel *k)
{
    return locked(k, gather_locked);
}

/* Writes rows [at, at + rows) of `value` as element i; rows < 0: row `at` without its dimension. */
static mf_status tensor_array_ops_write_rows(mf_array *a, int64_t i, const mf_tensor *value,
                                             int64_t at, int64_t rows)
{
    const int64_t row = mf_shape_span(&value->shape, 1, value->shape.rank);
    mf_shape shape = value->shape;
    mf_tensor item = { 0 };
    mf_status st;

    if (rows >= 0) {
        shape.dims[0] = rows;
    } else {
        shape.rank--;
        memmove(shape.dims, shape.dims + 1, (size_t)shape.rank * sizeof(int64_t));
    }
    MF_TRY_TO(done, mf_tensor_alloc(&item, value->dtype, &shape));
    MF_TRY_TO(done, mf_cells_copy(value->dtype, item.data, 0, value->data, at * row, item.count));
    st = mf_array_write(a, i, &item);
done:
    mf_tensor_clear(&item);
    return st;
}

static mf_status tensor_array_ops_scatter_locked(mf_kernel *k, mf_array *a)
{
    const mf_tensor *indices = k->in[1], *value = k->in[2];

    MF_TRY(mf_array_check(a, value->dtype));
    if (indices->shape.rank != 1 || value->shape.rank < 1 || indices->count != value->shape.dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "TensorArray: expected as many indices as value has rows, but there are "
                       "%lld and %lld",
                       (long long)indices->count,
                       (long long)(value->shape.rank > 0 ? value->shape.dims[0] : -1));
    for (int64_t i = 0; i < indices->count; i++)
        MF_TRY(tensor_array_ops_write_rows(a, mf_tensor_int_at(indices, i), value, i, -1));
    return MF_OK;
}

static mf_status tensor_array_ops_scatter_run(mf_kernel *k)
{
    MF_TRY(locked(k, tensor_array_ops_scatter_locked));
    return put_flow(k, 0, 3);
}

static mf_status tensor_array_ops_check_lengths(const mf_array *a, const mf_tensor *value,
                                                const mf_tensor *lengths)
{
    char text[MF_SHAPE_TEXT];
    int64_t sum = 0;

    if (lengths->shape.rank != 1 || value->shape.rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Expected lengths to be a vector and value to be at least a vector, but "
                       "value has shape %s",
                       mf_shape_text(&value->shape, text));
    for (int64_t i = 0; i < lengths->count; i++) {
        if (!mf_add_i64(sum, mf_tensor_int_at(lengths, i), &sum))
            return MF_FAIL(MF_INVALID_ARGUMENT, "lengths[%lld] = %lld is negative or too large",
                           (long long)i, (long long)mf_tensor_int_at(lengths, i));
    }
    if (sum != value->shape.dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Expected sum of lengths to be equal to values.shape[0], but sum of lengths "
                       "is %lld and value's shape is: %s",
                       (long long)sum, mf_shape_text(&value->shape, text));
    if (lengths->count != a->n && !a->dynamic)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "TensorArray's size is not equal to the size of lengths (%lld vs. %lld), and "
            "the TensorArray is not marked as dynamically resizeable.",
            (long long)a->n, (long long)lengths->count);
    return MF_OK;
}

static mf_status split_locked(mf_kernel *k, mf_array *a)
{
    const mf_tensor *value = k->in[1], *lengths = k->in[2];
    int64_t at = 0;

    MF_TRY(mf_array_check(a, value->dtype));
    MF_TRY(tensor_array_ops_check_lengths(a, value, lengths));
    for (int64_t i = 0; i < lengths->count; i++) {
        const int64_t rows = mf_tensor_int_at(lengths, i);

        MF_TRY(tensor_array_ops_write_rows(a, i, value, at, rows));
        at += rows;
    }
    return MF_OK;
}

static mf_status tensor_array_ops_split_run(mf_kernel *k)
{
    MF_TRY(locked(k, split_locked));
    return put_flow(k, 0, 3);
}

/* The shape of the concatenation; sets the lengths. */
static mf_status concat_shape(const mf_array *a, const mf_tensor *items, int64_t *lengths,
                              mf_shape *out)
{
    char have[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];
    int64_t rows = 0;

    for (int64_t i = 0; i < a->n; i++) {
        mf_shape rest = items[i].shape;

        if (rest.rank < 1)
            return MF_FAIL(
                MF_INVALID_ARGUMENT,
                "Concat saw a scalar shape at index %lld but requires at least vectors.  "
                "Did you mean to call pack?",
                (long long)i);
        lengths[i] = rest.dims[0];
        rows += rest.dims[0];
        rest.dims[0] = items[0].shape.dims[0];
        if (!mf_shape_equal(&rest, &items[0].shape))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension "
                           "0) shape: %s but index %lld has (excepting dimension 0) shape: %s",
                           mf_shape_text(&items[0].shape, want), (long long)i,
                           mf_shape_text(&items[i].shape, have));
    }
    *out = items[0].shape;
    out->dims[0] = rows;
    return MF_OK;
}

static mf_status concat_items(mf_kernel *k, mf_array *a, mf_tensor *items)
{
    mf_tensor *out, *lengths;
    mf_shape shape;
    int64_t at = 0;

    for (int64_t i = 0; i < a->n; i++)
        MF_TRY(mf_array_read(a, i, &items[i]));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(a->n), &lengths));
    MF_TRY(concat_shape(a, items, lengths->data, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    for (int64_t i = 0; i < a->n; i++) {
        MF_TRY(mf_cells_copy(a->dtype, out->data, at, items[i].data, 0, items[i].count));
        at += items[i].count;
    }
    return MF_OK;
}

static mf_status concat_nothing(mf_kernel *k)
{
    const mf_shape *rest = mf_node_shape(k->node, "element_shape_except0");
    char text[MF_SHAPE_TEXT];
    mf_tensor *out;
    mf_shape shape;

    if (!mf_shape_is_static(rest))
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "TensorArray has size zero, but element_shape_except0 %s is not fully "
                       "defined. Currently only static shapes are supported when concatenating "
                       "zero-size TensorArrays.",
                       mf_shape_text(rest, text));
    shape = with_front(rest, 0);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    return mf_kernel_out(k, 1, &MF_SHAPE(0), &out);
}

static mf_status concat_locked(mf_kernel *k, mf_array *a)
{
    mf_tensor *items;
    mf_status st;

    MF_TRY(mf_array_check(a, k->node->out_types[0]));
    if (a->n == 0)
        return concat_nothing(k);
    items = mf_calloc(a->n, sizeof *items); /* their number is known only now */
    if (!items)
        return MF_NOMEM("the elements of a tensor array");
    st = concat_items(k, a, items);
    for (int64_t i = 0; i < a->n; i++)
        mf_tensor_clear(&items[i]);
    mf_free(items);
    return st;
}

static mf_status tensor_array_ops_concat_run(mf_kernel *k)
{
    return locked(k, concat_locked);
}

static mf_status size_locked(mf_kernel *k, mf_array *a)
{
    mf_tensor *out;

    MF_TRY(mf_array_check(a, MF_DTYPE_INVALID));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    *(int32_t *)out->data = (int32_t)a->n;
    return MF_OK;
}

static mf_status tensor_array_ops_size_run(mf_kernel *k)
{
    return locked(k, size_locked);
}

static mf_status close_locked(mf_kernel *k, mf_array *a)
{
    (void)k;
    mf_array_close(a);
    return MF_OK;
}

static mf_status tensor_array_ops_close_run(mf_kernel *k)
{
    return locked(k, close_locked);
}

/* ---- shapes ---- */

/* element_shape of the op that created the array, if it can be found. */
static mf_shape element_shape(const mf_infer *in)
{
    const mf_node *node = in->node;

    for (int hops = 0; hops < 64 && node && node->n_inputs > 0; hops++) {
        node = node->inputs[0].node;
        if (node && strcmp(node->op_name, "TensorArrayV3") == 0)
            return *mf_node_shape(node, "element_shape");
        if (!node ||
            (strcmp(node->op_name, "Enter") != 0 && strcmp(node->op_name, "Identity") != 0 &&
             strcmp(node->op_name, "TensorArrayGradV3") != 0))
            break;
    }
    return MF_SHAPE_UNKNOWN;
}

static mf_status tensor_array_ops_read_infer(mf_infer *in)
{
    in->out[0] = element_shape(in);
    return MF_OK;
}

static mf_status tensor_array_ops_gather_infer(mf_infer *in)
{
    const mf_shape made = element_shape(in);
    mf_shape element;

    if (mf_shape_merge(&made, mf_node_shape(in->node, "element_shape"), &element) != MF_OK)
        element = MF_SHAPE_UNKNOWN;
    in->out[0] = with_front(&element, in->in[1].rank == 1 ? in->in[1].dims[0] : MF_UNKNOWN_DIM);
    return MF_OK;
}

static mf_status tensor_array_ops_concat_infer(mf_infer *in)
{
    in->out[0] = with_front(mf_node_shape(in->node, "element_shape_except0"), MF_UNKNOWN_DIM);
    in->out[1] = MF_SHAPE(MF_UNKNOWN_DIM);
    return MF_OK;
}

/* ---- gradients: each op's is its counterpart on the gradient array ---- */

/* The gradient array, and a flow that depends on its creation. All calls within one gradient
 * computation share a scope, which separates their arrays from those of another one. */
static mf_output gradient_array(mf_grad *g, mf_output flow, mf_output *flow_out)
{
    const char *scope = g->graph->scope;
    const mf_output array = mf_applyf(g->graph, "TensorArrayGradV3", MF_IN(g->x[0], flow),
                                      "source='%s'", scope && scope[0] ? scope : "gradients");

    *flow_out = MF_G1("Identity", flow);
    if (flow_out->node && array.node)
        mf_control(g->graph, flow_out->node, array.node);
    return array;
}

static mf_status tensor_array_ops_read_grad(mf_grad *g)
{
    mf_output flow;
    const mf_output array = gradient_array(g, g->x[2], &flow);

    g->dx[2] = mf_apply(g->graph, "TensorArrayWriteV3", MF_IN(array, g->x[1], g->dy[0], flow));
    return MF_OK;
}

static mf_status write_grad(mf_grad *g)
{
    mf_output flow;
    const mf_output array = gradient_array(g, g->dy[0], &flow);

    g->dx[2] = mf_applyf(g->graph, "TensorArrayReadV3", MF_IN(array, g->x[1], flow), "dtype=%s",
                         mf_dtype_name(mf_grad_type(g->x[2])));
    g->dx[3] = g->dy[0];
    return MF_OK;
}

static mf_status tensor_array_ops_gather_grad(mf_grad *g)
{
    mf_output flow;
    const mf_output array = gradient_array(g, g->x[2], &flow);

    g->dx[2] = mf_apply(g->graph, "TensorArrayScatterV3", MF_IN(array, g->x[1], g->dy[0], flow));
    return MF_OK;
}

static mf_status scatter_grad(mf_grad *g)
{
    mf_output flow;
    const mf_output array = gradient_array(g, g->dy[0], &flow);

    g->dx[2] = mf_applyf(g->graph, "TensorArrayGatherV3", MF_IN(array, g->x[1], flow), "dtype=%s",
                         mf_dtype_name(mf_grad_type(g->x[2])));
    g->dx[3] = g->dy[0];
    return MF_OK;
}

static mf_status tensor_array_ops_concat_grad(mf_grad *g)
{
    const mf_output lengths = { g->node, 1 };
    mf_output flow;
    const mf_output array = gradient_array(g, g->x[1], &flow);

    g->dx[1] = mf_apply(g->graph, "TensorArraySplitV3", MF_IN(array, g->dy[0], lengths, flow));
    return MF_OK;
}

static mf_status tensor_array_ops_split_grad(mf_grad *g)
{
    mf_output flow;
    const mf_output array = gradient_array(g, g->dy[0], &flow);

    g->dx[1] = mf_applyf(g->graph, "TensorArrayConcatV3", MF_IN(array, flow), "dtype=%s",
                         mf_dtype_name(mf_grad_type(g->x[1])));
    g->dx[3] = g->dy[0];
    return MF_OK;
}

#define OP(NAME, DEF, INFER, GRAD, RUN)                                                            \
    {                                                                                              \
        .name = NAME, .def = DEF " is_stateful", .flags = MF_OP_HEAP | MF_OP_UNPLANNED,            \
        .infer = INFER, .grad = GRAD, .run = RUN                                                   \
    }

const mf_op mf_ops_tensor_array[] = {
    OP("TensorArrayV3",
       "(size:int32) -> (handle:resource, flow:float) {dtype:type, element_shape:shape=shape?, "
       "dynamic_size:bool=false, clear_after_read:bool=true, identical_element_shapes:bool=false, "
       "tensor_array_name:string=''}",
       mf_infer_scalar, mf_grad_none, tensor_array_ops_make_run),
    OP("TensorArrayGradV3",
       "(handle:resource, flow_in:float) -> (grad_handle:resource, flow_out:float) {source:string}",
       mf_infer_scalar, mf_grad_none, tensor_array_ops_gradient_run),
    OP("TensorArrayGradWithShape",
       "(handle:resource, flow_in:float, shape_to_prepend:int32) -> (grad_handle:resource, "
       "flow_out:float) {source:string}",
       mf_infer_scalar, mf_grad_none, tensor_array_ops_gradient_run),
    OP("TensorArrayWriteV3",
       "(handle:resource, index:int32, value:T, flow_in:float) -> (flow_out:float) {T:type}",
       mf_infer_scalar, write_grad, tensor_array_ops_write_run),
    OP("TensorArrayReadV3",
       "(handle:resource, index:int32, flow_in:float) -> (value:dtype) {dtype:type}",
       tensor_array_ops_read_infer, tensor_array_ops_read_grad, tensor_array_ops_read_run),
    OP("TensorArrayGatherV3",
       "(handle:resource, indices:int32, flow_in:float) -> (value:dtype) {dtype:type, "
       "element_shape:shape=shape?}",
       tensor_array_ops_gather_infer, tensor_array_ops_gather_grad, tensor_array_ops_gather_run),
    OP("TensorArrayScatterV3",
       "(handle:resource, indices:int32, value:T, flow_in:float) -> (flow_out:float) {T:type}",
       mf_infer_scalar, scatter_grad, tensor_array_ops_scatter_run),
    OP("TensorArrayConcatV3",
       "(handle:resource, flow_in:float) -> (value:dtype, lengths:int64) {dtype:type, "
       "element_shape_except0:shape=shape?}",
       tensor_array_ops_concat_infer, tensor_array_ops_concat_grad, tensor_array_ops_concat_run),
    OP("TensorArraySplitV3",
       "(handle:resource, value:T, lengths:int64, flow_in:float) -> (flow_out:float) {T:type}",
       mf_infer_scalar, tensor_array_ops_split_grad, tensor_array_ops_split_run),
    OP("TensorArraySizeV3", "(handle:resource, flow_in:float) -> (size:int32) {}", mf_infer_scalar,
       mf_grad_none, tensor_array_ops_size_run),
    OP("TensorArrayCloseV3", "(handle:resource) -> () {}", mf_infer_none, mf_grad_none,
       tensor_array_ops_close_run),
    { 0 },
};
