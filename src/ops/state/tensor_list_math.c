/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list_math.c - arithmetic of lists of tensors: zeros like a list, sums of lists. Lists may
 * be nested. */
#include "ops/array/array_util.h"
#include "ops/state/handle.h"
#include "ops/state/tensor_list.h"

enum { NESTING_MAX = 32 }; /* maximum depth of nested lists */

static mf_status tensor_list_math_zeros_of(const mf_list *l, int depth, mf_list **out);
static mf_status tensor_list_math_sum_of(const mf_list *a, const mf_list *b, int depth,
                                         mf_list **out);

/* The list in a scalar variant. */
static mf_status list_in(const mf_tensor *t, int depth, const mf_list **out)
{
    const mf_object *o = t->count == 1 ? mf_handle_object(t) : NULL;

    *out = NULL;
    if (!o || o->type != &mf_list_type)
        return MF_FAIL(MF_UNIMPLEMENTED, "arithmetic with a variant that is not a tensor list");
    if (depth > NESTING_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "lists are nested more than %d deep", NESTING_MAX);
    *out = (const mf_list *)o;
    return MF_OK;
}

static mf_status zero_item(const mf_tensor *item, int depth, mf_tensor *out)
{
    const mf_list *inner;
    mf_list *zeros;

    if (item->dtype == MF_DTYPE_VARIANT) {
        MF_TRY(list_in(item, depth, &inner));
        MF_TRY(tensor_list_math_zeros_of(inner, depth + 1, &zeros));
        return mf_list_wrap(zeros, out);
    }
    MF_TRY(mf_tensor_alloc(out, item->dtype, &item->shape));
    mf_cells_zero(item->dtype, out->data, 0, out->count);
    return MF_OK;
}

static mf_status tensor_list_math_zeros_of(const mf_list *l, int depth, mf_list **out)
{
    mf_status st = MF_OK;

    MF_TRY(mf_list_new(l->dtype, &l->element, l->n, out));
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
    const mf_list *left, *right;
    mf_list *sum;

    MF_TRY(list_in(a, depth, &left));
    MF_TRY(list_in(b, depth, &right));
    MF_TRY(tensor_list_math_sum_of(left, right, depth, &sum));
    return mf_list_wrap(sum, out);
}

static mf_status sum_items(const mf_tensor *a, const mf_tensor *b, int depth, mf_tensor *out)
{
    const mf_loop *add = mf_kernel_of(mf_op_find("AddV2"))->loop;
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

static mf_status tensor_list_math_sum_of(const mf_list *a, const mf_list *b, int depth,
                                         mf_list **out)
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
    MF_TRY(mf_list_new(a->dtype, &element, a->n, out));
    (*out)->max = a->max;
    for (int64_t i = 0; st == MF_OK && i < a->n; i++)
        st = sum_items(&a->items[i], &b->items[i], depth, &(*out)->items[i]);
    if (st != MF_OK)
        mf_object_unref(&(*out)->object);
    return st;
}

mf_status mf_tensor_list_zeros(mf_kernel *k)
{
    const mf_list *l;
    mf_list *zeros;

    MF_TRY(list_in(k->in[0], 0, &l));
    MF_TRY(tensor_list_math_zeros_of(l, 0, &zeros));
    return mf_list_wrap(zeros, k->out[0]);
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
