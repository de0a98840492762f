/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list.c - lists of tensors as values: creation, an op's list, elements. See tensor_list.h.
 */
#include "ops/state/tensor_list.h"

#include "ops/array/array_util.h"
#include "ops/state/handle.h"

static void list_destroy(mf_object *o)
{
    mf_list *l = (mf_list *)o;

    for (int64_t i = 0; i < l->n; i++)
        mf_tensor_clear(&l->items[i]);
    mf_free(l->items);
    mf_free(l);
}

const mf_object_type mf_list_type = { .name = "tensor list", .destroy = list_destroy };

mf_status mf_list_resize(mf_list *l, int64_t n)
{
    if (n < 0 || n > MF_LIST_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a list cannot have %lld elements", (long long)n);
    MF_TRY(mf_grow(&l->items, &l->cap, n, sizeof *l->items));
    while (l->n > n)
        mf_tensor_clear(&l->items[--l->n]);
    l->n = n;
    return MF_OK;
}

mf_status mf_list_new(mf_dtype dtype, const mf_shape *element, int64_t n, mf_list **out)
{
    mf_list *l = mf_calloc(1, sizeof *l);
    mf_status st;

    *out = NULL;
    if (!l)
        return MF_NOMEM("a tensor list");
    l->object.type = &mf_list_type;
    atomic_store(&l->object.refs, 1);
    l->dtype = dtype;
    l->element = *element;
    l->max = -1;
    st = mf_list_resize(l, n);
    if (st != MF_OK)
        mf_object_unref(&l->object);
    else
        *out = l;
    return st;
}

/* ---- inputs and outputs ---- */

mf_status mf_list_wrap(mf_list *l, mf_tensor *t)
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

mf_status mf_list_put(mf_kernel *k, int i, mf_list *l)
{
    return mf_list_wrap(l, k->out[i]);
}

mf_status mf_list_input(const mf_kernel *k, mf_dtype dtype, mf_list **out)
{
    mf_object *o = NULL;

    *out = NULL;
    MF_TRY(mf_kernel_object(k, 0, &mf_list_type, &o));
    *out = (mf_list *)o;
    if (dtype != MF_DTYPE_INVALID && dtype != (*out)->dtype)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Invalid data types; op elements %s but list elements %s",
                       mf_dtype_name(dtype), mf_dtype_name((*out)->dtype));
    return MF_OK;
}

mf_status mf_list_writable(const mf_kernel *k, mf_dtype dtype, mf_list **out)
{
    mf_list *l, *copy;

    MF_TRY(mf_list_input(k, dtype, &l));
    if (k->reuse & 1 && k->in[0]->buffer && mf_buffer_is_sole(k->in[0]->buffer) &&
        atomic_load(&l->object.refs) == 1) {
        *out = (mf_list *)mf_object_ref(&l->object);
        return MF_OK;
    }
    MF_TRY(mf_list_new(l->dtype, &l->element, l->n, &copy));
    copy->max = l->max;
    for (int64_t i = 0; i < l->n; i++)
        mf_tensor_set(&copy->items[i], &l->items[i]);
    *out = copy;
    return MF_OK;
}

mf_status mf_list_shape_input(const mf_kernel *k, int i, mf_shape *out)
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

mf_status mf_list_int_input(const mf_kernel *k, int i, int64_t *out)
{
    return mf_int_read(k->in[i], k->node->def->in[i].name, out);
}

mf_status mf_list_both_shapes(const mf_kernel *k, int i, const mf_list *l, mf_shape *out)
{
    mf_shape asked;

    MF_TRY(mf_list_shape_input(k, i, &asked));
    return mf_shape_merge(&asked, &l->element, out);
}

mf_status mf_list_check_item(const mf_list *l, const mf_tensor *t)
{
    char have[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];

    if (mf_shape_compatible(&l->element, &t->shape))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "Tried to append a tensor with incompatible shape to a list. Op element shape: "
                   "%s list shape: %s",
                   mf_shape_text(&t->shape, have), mf_shape_text(&l->element, want));
}

mf_status mf_list_read_item(const mf_list *l, int64_t i, const mf_shape *shape, mf_tensor *out)
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

mf_shape mf_list_infer_element(const mf_infer *in, int i)
{
    mf_shape s = MF_SHAPE_UNKNOWN;

    if (!in->in_value[i] || in->in_value[i]->shape.rank != 1 ||
        mf_infer_shape_input(in, i, &s) != MF_OK)
        return MF_SHAPE_UNKNOWN;
    return s;
}
