/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list.c - lists of tensors as values (variants). A list never changes once somebody else
 * can see it: an op that gives a changed list copies it (references to its elements, not their
 * storage), unless the list it was given has no other use. */
#include "ops/tensor_list.h"

#include "ops/array_util.h"
#include "ops/handle.h"

#include <string.h>

typedef struct list {
    mf_object object;
    mf_dtype dtype;
    mf_shape element; /* what is known of the elements */
    int64_t max; /* negative: no limit */
    mf_tensor *items; /* an empty slot was not set yet, and reads as zeros */
    int64_t n, cap;
} list;

enum { LIST_MAX = 1 << 24 };

static void list_destroy(mf_object *o)
{
    list *l = (list *)o;

    for (int64_t i = 0; i < l->n; i++)
        mf_tensor_clear(&l->items[i]);
    mf_free(l->items);
    mf_free(l);
}

static const mf_object_type list_type = { .name = "tensor list", .destroy = list_destroy };

static mf_status list_resize(list *l, int64_t n)
{
    if (n < 0 || n > LIST_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a list cannot have %lld elements", (long long)n);
    MF_TRY(mf_grow(&l->items, &l->cap, n, sizeof *l->items));
    while (l->n > n)
        mf_tensor_clear(&l->items[--l->n]);
    l->n = n;
    return MF_OK;
}

static mf_status list_new(mf_dtype dtype, const mf_shape *element, int64_t n, list **out)
{
    list *l = mf_calloc(1, sizeof *l);
    mf_status st;

    *out = NULL;
    if (!l)
        return MF_NOMEM("a tensor list");
    l->object.type = &list_type;
    atomic_store(&l->object.refs, 1);
    l->dtype = dtype;
    l->element = *element;
    l->max = -1;
    st = list_resize(l, n);
    if (st != MF_OK)
        mf_object_unref(&l->object);
    else
        *out = l;
    return st;
}

/* ---- inputs and outputs ---- */

/* *t becomes a scalar variant that holds the list; takes over the reference, also on failure. */
static mf_status wrap_list(list *l, mf_tensor *t)
{
    mf_tensor holder = { 0 };
    const mf_status st = mf_tensor_alloc(&holder, MF_DTYPE_VARIANT, &MF_SCALAR);

    if (st != MF_OK) {
        mf_object_unref(&l->object);
        return st;
    }
    *(mf_object **)holder.data = &l->object;
    mf_tensor_move(t, &holder);
    return MF_OK;
}

/* Output i becomes the list; takes over the reference, also on failure. */
static mf_status put_list(mf_kernel *k, int i, list *l)
{
    return wrap_list(l, k->out[i]);
}

static mf_status input_list(const mf_kernel *k, mf_dtype dtype, list **out)
{
    mf_object *o = NULL;

    *out = NULL;
    MF_TRY(mf_kernel_object(k, 0, &list_type, &o));
    *out = (list *)o;
    if (dtype != MF_DTYPE_INVALID && dtype != (*out)->dtype)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Invalid data types; op elements %s but list elements %s",
                       mf_dtype_name(dtype), mf_dtype_name((*out)->dtype));
    return MF_OK;
}

/* A list that may be changed, with one reference for the caller. */
static mf_status writable_list(const mf_kernel *k, mf_dtype dtype, list **out)
{
    list *l, *copy;

    MF_TRY(input_list(k, dtype, &l));
    if (k->reuse & 1 && k->in[0]->buffer && mf_buffer_is_sole(k->in[0]->buffer) &&
        atomic_load(&l->object.refs) == 1) {
        *out = (list *)mf_object_ref(&l->object);
        return MF_OK;
    }
    MF_TRY(list_new(l->dtype, &l->element, l->n, &copy));
    copy->max = l->max;
    for (int64_t i = 0; i < l->n; i++)
        mf_tensor_set(&copy->items[i], &l->items[i]);
    *out = copy;
    return MF_OK;
}

/* An element_shape input: a vector that may hold -1, or the scalar -1 for an unknown rank. */
static mf_status shape_input(const mf_kernel *k, int i, mf_shape *out)
{
    const mf_tensor *t = k->in[i];

    *out = MF_SHAPE_UNKNOWN;
    if (t->shape.rank == 0 && mf_tensor_int_at(t, 0) == -1)
        return MF_OK;
    if (t->shape.rank != 1 || t->count > MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "element_shape must be a vector of at most %d elements, or -1", MF_MAX_RANK);
    out->rank = (int)t->count;
    for (int d = 0; d < out->rank; d++) {
        out->dims[d] = mf_tensor_int_at(t, d);
        if (out->dims[d] < -1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "element_shape[%d] = %lld", d,
                           (long long)out->dims[d]);
    }
    return MF_OK;
}

static mf_status int_input(const mf_kernel *k, int i, int64_t *out)
{
    return mf_int_read(k->in[i], k->node->def->in[i].name, out);
}

/* The element shape that the op and the list together know. */
static mf_status both_shapes(const mf_kernel *k, int i, const list *l, mf_shape *out)
{
    mf_shape asked;

    MF_TRY(shape_input(k, i, &asked));
    return mf_shape_merge(&asked, &l->element, out);
}

static mf_status check_item(const list *l, const mf_tensor *t)
{
    char have[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];

    if (mf_shape_compatible(&l->element, &t->shape))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "Tried to append a tensor with incompatible shape to a list. Op element shape: "
                   "%s list shape: %s",
                   mf_shape_text(&t->shape, have), mf_shape_text(&l->element, want));
}

/* Element i; zeros where it was not set, of `shape` or of the shape of those that were. */
static mf_status read_item(const list *l, int64_t i, const mf_shape *shape, mf_tensor *out)
{
    mf_shape s = *shape;
    char text[MF_SHAPE_TEXT];
    mf_tensor zeros = { 0 };

    if (l->items[i].dtype != MF_DTYPE_INVALID) {
        if (!mf_shape_compatible(shape, &l->items[i].shape))
            return MF_FAIL(MF_INVALID_ARGUMENT, "element %lld does not have the shape %s",
                           (long long)i, mf_shape_text(shape, text));
        mf_tensor_set(out, &l->items[i]);
        return MF_OK;
    }
    for (int64_t j = 0; j < l->n && !mf_shape_is_static(&s); j++) {
        if (l->items[j].dtype != MF_DTYPE_INVALID)
            s = l->items[j].shape;
    }
    if (!mf_shape_is_static(&s))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Trying to read an uninitialized element but element_shape is not fully "
                       "defined: %s",
                       mf_shape_text(&s, text));
    MF_TRY(mf_tensor_alloc(&zeros, l->dtype, &s));
    mf_cells_zero(l->dtype, zeros.data, 0, zeros.count);
    mf_tensor_move(out, &zeros);
    return MF_OK;
}

/* ---- making ---- */

static mf_status empty_run(mf_kernel *k)
{
    mf_shape element;
    int64_t max;
    list *l;

    MF_TRY(shape_input(k, 0, &element));
    MF_TRY(int_input(k, 1, &max));
    MF_TRY(list_new(mf_node_type(k->node, "element_dtype"), &element, 0, &l));
    l->max = max;
    return put_list(k, 0, l);
}

static mf_status reserve_run(mf_kernel *k)
{
    mf_shape element;
    int64_t n;
    list *l;

    MF_TRY(shape_input(k, 0, &element));
    MF_TRY(int_input(k, 1, &n));
    MF_TRY(list_new(mf_node_type(k->node, "element_dtype"), &element, n, &l));
    return put_list(k, 0, l);
}

/* Element `at` becomes row i of t. */
static mf_status put_row(list *l, int64_t at, const mf_tensor *t, int64_t i)
{
    mf_shape one = t->shape;
    mf_tensor *item = &l->items[at];

    one.rank--;
    memmove(one.dims, one.dims + 1, (size_t)one.rank * sizeof(int64_t));
    mf_tensor_clear(item);
    MF_TRY(mf_tensor_alloc(item, t->dtype, &one));
    MF_TRY(check_item(l, item));
    return mf_cells_copy(t->dtype, item->data, 0, t->data, i * item->count, item->count);
}

static mf_status from_tensor_fill(const mf_tensor *t, list *l)
{
    for (int64_t i = 0; i < l->n; i++)
        MF_TRY(put_row(l, i, t, i));
    return MF_OK;
}

static mf_status from_tensor_run(mf_kernel *k)
{
    const mf_tensor *t = k->in[0];
    mf_shape element;
    mf_status st;
    list *l;

    if (t->shape.rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Tensor must be at least a vector, but saw shape: []");
    MF_TRY(shape_input(k, 1, &element));
    MF_TRY(list_new(t->dtype, &element, t->shape.dims[0], &l));
    st = from_tensor_fill(t, l);
    if (st == MF_OK)
        return put_list(k, 0, l);
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

/* Sets the elements, and hands over the list, also on failure. */
static mf_status scatter_into(mf_kernel *k, list *l, const mf_tensor *t, const mf_tensor *indices)
{
    mf_status st = MF_OK;

    for (int64_t i = 0; st == MF_OK && i < indices->count; i++)
        st = put_row(l, mf_index_at(indices, i), t, i);
    if (st == MF_OK)
        return put_list(k, 0, l);
    mf_object_unref(&l->object);
    return st;
}

/* TensorListScatter: (tensor, indices, element_shape); V2 also: num_elements, -1 for as many as the
 * indices need. */
static mf_status scatter_run(mf_kernel *k)
{
    const mf_tensor *t = k->in[0], *indices = k->in[1];
    int64_t n = -1, largest;
    mf_shape element;
    list *l;

    MF_TRY(scatter_check(t, indices, &largest));
    MF_TRY(shape_input(k, 2, &element));
    if (k->n_in > 3)
        MF_TRY(int_input(k, 3, &n));
    if (n < -1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "TensorListScatter expects num_elements >= -1, found: %lld", (long long)n);
    if (n >= 0 && largest >= n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "TensorListScatter: Trying to scatter at index %lld in list with size %lld",
                       (long long)largest, (long long)n);
    MF_TRY(list_new(t->dtype, &element, n >= 0 ? n : largest + 1, &l));
    return scatter_into(k, l, t, indices);
}

/* TensorListScatterIntoExistingList: (list, tensor, indices); the list grows as far as needed. */
static mf_status scatter_existing_run(mf_kernel *k)
{
    const mf_tensor *t = k->in[1], *indices = k->in[2];
    int64_t largest;
    list *l;

    MF_TRY(scatter_check(t, indices, &largest));
    if (largest >= LIST_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a list cannot have an element %lld",
                       (long long)largest);
    MF_TRY(writable_list(k, t->dtype, &l));
    if (largest >= l->n) {
        const mf_status st = list_resize(l, largest + 1);

        if (st != MF_OK) {
            mf_object_unref(&l->object);
            return st;
        }
    }
    return scatter_into(k, l, t, indices);
}

/* ---- changing ---- */

static mf_status push(list *l, const mf_tensor *t)
{
    MF_TRY(check_item(l, t));
    if (l->max >= 0 && l->n >= l->max)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Tried to push item into a full list list size: %lld max_num_elements: %lld",
                       (long long)l->n, (long long)l->max);
    MF_TRY(list_resize(l, l->n + 1));
    return mf_tensor_keep(&l->items[l->n - 1], t);
}

static mf_status push_run(mf_kernel *k)
{
    list *l;
    mf_status st;

    MF_TRY(writable_list(k, k->in[1]->dtype, &l));
    st = push(l, k->in[1]);
    if (st == MF_OK)
        return put_list(k, 0, l);
    mf_object_unref(&l->object);
    return st;
}

static mf_status pop(mf_kernel *k, list *l)
{
    mf_shape shape;

    if (l->n == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Trying to pop from an empty list.");
    MF_TRY(both_shapes(k, 1, l, &shape));
    MF_TRY(read_item(l, l->n - 1, &shape, k->out[1]));
    return list_resize(l, l->n - 1);
}

static mf_status pop_run(mf_kernel *k)
{
    list *l;
    mf_status st;

    MF_TRY(writable_list(k, k->node->out_types[1], &l));
    st = pop(k, l);
    if (st == MF_OK)
        return put_list(k, 0, l);
    mf_object_unref(&l->object);
    return st;
}

static mf_status set(const mf_kernel *k, list *l, int64_t index)
{
    if (index >= l->n && index < LIST_MAX && mf_node_bool(k->node, "resize_if_index_out_of_bounds"))
        MF_TRY(list_resize(l, index + 1));
    if (index < 0 || index >= l->n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Trying to modify element %lld in a list with %lld elements.",
                       (long long)index, (long long)l->n);
    MF_TRY(check_item(l, k->in[2]));
    return mf_tensor_keep(&l->items[index], k->in[2]);
}

static mf_status set_run(mf_kernel *k)
{
    int64_t index;
    list *l;
    mf_status st;

    MF_TRY(int_input(k, 1, &index));
    MF_TRY(writable_list(k, k->in[2]->dtype, &l));
    st = set(k, l, index);
    if (st == MF_OK)
        return put_list(k, 0, l);
    mf_object_unref(&l->object);
    return st;
}

static mf_status resize_run(mf_kernel *k)
{
    int64_t n;
    list *l;
    mf_status st;

    MF_TRY(int_input(k, 1, &n));
    MF_TRY(writable_list(k, MF_DTYPE_INVALID, &l));
    st = list_resize(l, n);
    if (st == MF_OK)
        return put_list(k, 0, l);
    mf_object_unref(&l->object);
    return st;
}

/* ---- reading ---- */

static mf_status get_run(mf_kernel *k)
{
    mf_shape shape;
    int64_t index;
    list *l;

    MF_TRY(input_list(k, k->node->out_types[0], &l));
    MF_TRY(int_input(k, 1, &index));
    if (index < 0 || index >= l->n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Trying to access element %lld in a list with %lld elements.",
                       (long long)index, (long long)l->n);
    MF_TRY(both_shapes(k, 2, l, &shape));
    return read_item(l, index, &shape, k->out[0]);
}

/* Elements indices[0..n) (NULL: all in order) as one tensor. */
static mf_status stack_into(mf_kernel *k, const list *l, const mf_tensor *indices, int64_t n,
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
            MF_TRY(read_item(l, at, &first, item));
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
    list *l;

    MF_TRY(input_list(k, k->node->out_types[0], &l));
    MF_TRY(both_shapes(k, shape_at, l, &shape));
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

static mf_status gather_run(mf_kernel *k)
{
    return stack_list(k, k->in[1], 2);
}

static mf_status length_run(mf_kernel *k)
{
    mf_tensor *out;
    list *l;

    MF_TRY(input_list(k, MF_DTYPE_INVALID, &l));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    *(int32_t *)out->data = (int32_t)l->n;
    return MF_OK;
}

static mf_status element_shape_run(mf_kernel *k)
{
    mf_tensor *out;
    list *l;

    MF_TRY(input_list(k, MF_DTYPE_INVALID, &l));
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

/* ---- lists as numbers ---- */

enum { NESTING_MAX = 32 }; /* lists within lists */

static mf_status zeros_of(const list *l, int depth, list **out);
static mf_status sum_of(const list *a, const list *b, int depth, list **out);

/* The list in a scalar variant. */
static mf_status list_in(const mf_tensor *t, int depth, const list **out)
{
    const mf_object *o = t->count == 1 ? mf_handle_object(t) : NULL;

    *out = NULL;
    if (!o || o->type != &list_type)
        return MF_FAIL(MF_UNIMPLEMENTED, "arithmetic with a variant that is no tensor list");
    if (depth > NESTING_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "lists are nested more than %d deep", NESTING_MAX);
    *out = (const list *)o;
    return MF_OK;
}

static mf_status zero_item(const mf_tensor *item, int depth, mf_tensor *out)
{
    const list *inner;
    list *zeros;

    if (item->dtype == MF_DTYPE_VARIANT) {
        MF_TRY(list_in(item, depth, &inner));
        MF_TRY(zeros_of(inner, depth + 1, &zeros));
        return wrap_list(zeros, out);
    }
    MF_TRY(mf_tensor_alloc(out, item->dtype, &item->shape));
    mf_cells_zero(item->dtype, out->data, 0, out->count);
    return MF_OK;
}

static mf_status zeros_of(const list *l, int depth, list **out)
{
    mf_status st = MF_OK;

    MF_TRY(list_new(l->dtype, &l->element, l->n, out));
    (*out)->max = l->max;
    for (int64_t i = 0; st == MF_OK && i < l->n; i++) {
        if (l->items[i].dtype != MF_DTYPE_INVALID)
            st = zero_item(&l->items[i], depth, &(*out)->items[i]);
    }
    if (st != MF_OK)
        mf_object_unref(&(*out)->object);
    return st;
}

static mf_status sum_lists(const mf_tensor *a, const mf_tensor *b, int depth, mf_tensor *out)
{
    const list *left, *right;
    list *sum;

    MF_TRY(list_in(a, depth, &left));
    MF_TRY(list_in(b, depth, &right));
    MF_TRY(sum_of(left, right, depth, &sum));
    return wrap_list(sum, out);
}

static mf_status sum_items(const mf_tensor *a, const mf_tensor *b, int depth, mf_tensor *out)
{
    const mf_loop *add = mf_op_find("AddV2")->loop;
    char have[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];

    if (a->dtype == MF_DTYPE_INVALID || b->dtype == MF_DTYPE_INVALID) { /* zero */
        mf_tensor_set(out, a->dtype == MF_DTYPE_INVALID ? b : a);
        return MF_OK;
    }
    if (a->dtype == MF_DTYPE_VARIANT)
        return sum_lists(a, b, depth + 1, out);
    if (!mf_shape_equal(&a->shape, &b->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT, "elements of the shapes %s and %s cannot be added",
                       mf_shape_text(&a->shape, have), mf_shape_text(&b->shape, want));
    if (!add->fn[a->dtype])
        return MF_FAIL(MF_UNIMPLEMENTED, "lists of %s cannot be added", mf_dtype_name(a->dtype));
    MF_TRY(mf_tensor_alloc(out, a->dtype, &a->shape));
    add->fn[a->dtype](&(mf_span){ .in = { a->data, b->data }, .out = out->data, .n = out->count });
    return MF_OK;
}

static mf_status sum_of(const list *a, const list *b, int depth, list **out)
{
    mf_shape element;
    mf_status st = MF_OK;

    if (a->dtype != b->dtype || a->n != b->n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Trying to add two lists of tensors with different lengths or types: %lld "
                       "of %s and %lld of %s",
                       (long long)a->n, mf_dtype_name(a->dtype), (long long)b->n,
                       mf_dtype_name(b->dtype));
    MF_TRY(mf_shape_merge(&a->element, &b->element, &element));
    MF_TRY(list_new(a->dtype, &element, a->n, out));
    (*out)->max = a->max;
    for (int64_t i = 0; st == MF_OK && i < a->n; i++)
        st = sum_items(&a->items[i], &b->items[i], depth, &(*out)->items[i]);
    if (st != MF_OK)
        mf_object_unref(&(*out)->object);
    return st;
}

mf_status mf_tensor_list_zeros(mf_kernel *k)
{
    const list *l;
    list *zeros;

    MF_TRY(list_in(k->in[0], 0, &l));
    MF_TRY(zeros_of(l, 0, &zeros));
    return wrap_list(zeros, k->out[0]);
}

mf_status mf_tensor_list_sum(mf_kernel *k)
{
    mf_tensor sum = { 0 };

    mf_tensor_set(&sum, k->in[0]);
    for (int j = 1; j < k->n_in; j++) {
        mf_tensor next = { 0 };
        const mf_status st = sum_lists(&sum, k->in[j], 0, &next);

        mf_tensor_clear(&sum);
        MF_TRY(st);
        sum = next;
    }
    mf_tensor_move(k->out[0], &sum);
    return MF_OK;
}

/* ---- shapes ---- */

/* The element shape that input i says, if its value is known. */
static mf_shape infer_element(const mf_infer *in, int i)
{
    mf_shape s = MF_SHAPE_UNKNOWN;

    if (!in->in_value[i] || in->in_value[i]->shape.rank != 1 ||
        mf_infer_shape_input(in, i, &s) != MF_OK)
        return MF_SHAPE_UNKNOWN;
    return s;
}

static mf_status get_infer(mf_infer *in)
{
    in->out[0] = infer_element(in, 2);
    return MF_OK;
}

static mf_status pop_infer(mf_infer *in)
{
    in->out[0] = MF_SCALAR;
    in->out[1] = infer_element(in, 1);
    return MF_OK;
}

static mf_status stack_infer(mf_infer *in)
{
    const mf_shape s = infer_element(in, in->n_in - 1);
    const int64_t n = in->n_in == 2 ? mf_node_int(in->node, "num_elements") : MF_UNKNOWN_DIM;

    if (s.rank < 0 || s.rank >= MF_MAX_RANK)
        return MF_OK;
    in->out[0] = (mf_shape){ .rank = s.rank + 1, .dims = { n < 0 ? MF_UNKNOWN_DIM : n } };
    memcpy(in->out[0].dims + 1, s.dims, (size_t)s.rank * sizeof(int64_t));
    return MF_OK;
}

#define OP(NAME, DEF, INFER, GRAD, RUN)                                                            \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_HEAP | MF_OP_UNPLANNED, .infer = INFER,           \
        .grad = GRAD, .run = RUN                                                                   \
    }
#define MAKES "{element_dtype:type, shape_type:type in index}"

const mf_op mf_ops_tensor_list[] = {
    OP("EmptyTensorList",
       "(element_shape:shape_type, max_num_elements:int32) -> (handle:variant) " MAKES,
       mf_infer_scalar, mf_grad_none, empty_run),
    OP("TensorListReserve",
       "(element_shape:shape_type, num_elements:int32) -> (handle:variant) " MAKES, mf_infer_scalar,
       mf_grad_none, reserve_run),
    OP("TensorListFromTensor",
       "(tensor:element_dtype, element_shape:shape_type) -> (output_handle:variant) " MAKES,
       mf_infer_scalar, mf_list_from_tensor_grad, from_tensor_run),
    OP("TensorListPushBack",
       "(input_handle:variant, tensor:element_dtype) -> (output_handle:variant) "
       "{element_dtype:type}",
       mf_infer_scalar, mf_list_push_grad, push_run),
    OP("TensorListPopBack",
       "(input_handle:variant, element_shape:int32) -> (output_handle:variant, "
       "tensor:element_dtype) {element_dtype:type}",
       pop_infer, mf_list_pop_grad, pop_run),
    OP("TensorListGetItem",
       "(input_handle:variant, index:int32, element_shape:Tshape) -> (item:element_dtype) "
       "{element_dtype:type, Tshape:type=int32 in index}",
       get_infer, mf_list_get_grad, get_run),
    OP("TensorListSetItem",
       "(input_handle:variant, index:int32, item:element_dtype) -> (output_handle:variant) "
       "{element_dtype:type, resize_if_index_out_of_bounds:bool=false}",
       mf_infer_scalar, mf_list_set_grad, set_run),
    OP("TensorListStack",
       "(input_handle:variant, element_shape:int32) -> (tensor:element_dtype) {element_dtype:type, "
       "num_elements:int=-1}",
       stack_infer, mf_list_stack_grad, stack_run),
    OP("TensorListGather",
       "(input_handle:variant, indices:int32, element_shape:int32) -> (values:element_dtype) "
       "{element_dtype:type}",
       stack_infer, mf_list_gather_grad, gather_run),
    OP("TensorListLength", "(input_handle:variant) -> (length:int32) {}", mf_infer_scalar,
       mf_grad_none, length_run),
    OP("TensorListElementShape",
       "(input_handle:variant) -> (element_shape:shape_type) {shape_type:type in index}",
       mf_infer_unknown, mf_grad_none, element_shape_run),
    OP("TensorListResize", "(input_handle:variant, size:int32) -> (output_handle:variant) {}",
       mf_infer_scalar, mf_list_resize_grad, resize_run),
    OP("TensorListScatter",
       "(tensor:element_dtype, indices:int32, element_shape:shape_type) -> "
       "(output_handle:variant) " MAKES,
       mf_infer_scalar, mf_list_scatter_grad, scatter_run),
    OP("TensorListScatterV2",
       "(tensor:element_dtype, indices:int32, element_shape:shape_type, num_elements:int32) -> "
       "(output_handle:variant) " MAKES,
       mf_infer_scalar, mf_list_scatter_grad, scatter_run),
    OP("TensorListScatterIntoExistingList",
       "(input_handle:variant, tensor:element_dtype, indices:int32) -> (output_handle:variant) "
       "{element_dtype:type}",
       mf_infer_scalar, mf_list_scatter_existing_grad, scatter_existing_run),
    { 0 },
};
