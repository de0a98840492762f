/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_array.c - TensorArray: the array object of a step. */
#include "ops/state/tensor_array.h"

#include "ops/state/handle.h"

#include <string.h>

void mf_array_close(mf_array *a)
{
    for (int64_t i = 0; i < a->n; i++)
        mf_tensor_clear(&a->items[i].value);
    a->n = 0;
    a->closed = true;
}

static void array_destroy(mf_object *o)
{
    mf_array *a = (mf_array *)o;

    mf_array_close(a);
    while (a->grads) {
        mf_array_grad *g = a->grads;

        a->grads = g->next;
        mf_object_unref(&g->array->object);
        mf_free(g->source);
        mf_free(g);
    }
    mf_free(a->items);
    mf_free(a->name);
    pthread_mutex_destroy(&a->lock);
    mf_free(a);
}

const mf_object_type mf_array_type = { .name = "tensor array", .destroy = array_destroy };

mf_status mf_array_resize(mf_array *a, int64_t n)
{
    if (n > MF_ARRAY_MAX)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "TensorArray %s: %lld elements are more than %d",
                       a->name, (long long)n, MF_ARRAY_MAX);
    if (n <= a->n)
        return MF_OK;
    MF_TRY(mf_grow(&a->items, &a->cap, n, sizeof *a->items));
    a->n = n;
    return MF_OK;
}

mf_status mf_array_new(const char *name, mf_dtype dtype, int64_t n, mf_array **out)
{
    mf_array *a = mf_calloc(1, sizeof *a);
    mf_status st;

    *out = NULL;
    if (!a)
        return MF_NOMEM("a tensor array");
    a->object.type = &mf_array_type;
    atomic_store(&a->object.refs, 1);
    pthread_mutex_init(&a->lock, NULL);
    a->dtype = dtype;
    a->element = MF_SHAPE_UNKNOWN;
    a->name = mf_strdup(name);
    st = a->name ? mf_array_resize(a, n) : MF_NOMEM("a tensor array");
    if (st != MF_OK)
        mf_object_unref(&a->object);
    else
        *out = a;
    return st;
}

/* ---- gradients ---- */

/* The dimensions of `prepend` followed by `s`. */
static mf_shape tensor_array_behind(const mf_shape *prepend, const mf_shape *s)
{
    mf_shape out = *prepend;

    if (s->rank < 0 || prepend->rank + s->rank > MF_MAX_RANK)
        return MF_SHAPE_UNKNOWN;
    memcpy(out.dims + out.rank, s->dims, (size_t)s->rank * sizeof(int64_t));
    out.rank += s->rank;
    return out;
}

static mf_status gradient_new(mf_array *a, const char *source, const mf_shape *prepend)
{
    mf_array_grad *g = mf_calloc(1, sizeof *g);
    mf_status st;

    if (!g)
        return MF_NOMEM("a gradient array");
    g->source = mf_strdup(source);
    st =
        g->source ? mf_array_new(a->name, a->dtype, a->n, &g->array) : MF_NOMEM("a gradient array");
    if (st != MF_OK) {
        mf_free(g->source);
        mf_free(g);
        return st;
    }
    g->array->is_grad = true;
    g->array->clear_after_read = true;
    g->array->same_shapes = a->same_shapes;
    g->array->element = tensor_array_behind(prepend, &a->element);
    for (int64_t i = 0; i < a->n; i++) {
        if (!a->items[i].written)
            continue;
        g->array->items[i].shape = tensor_array_behind(prepend, &a->items[i].shape);
        g->array->items[i].has_shape = g->array->items[i].shape.rank >= 0;
    }
    a->dynamic = false; /* the gradient was created for this size */
    g->next = a->grads;
    a->grads = g;
    return MF_OK;
}

static mf_array *gradient_find(const mf_array *a, const char *source)
{
    for (const mf_array_grad *g = a->grads; g; g = g->next) {
        if (strcmp(g->source, source) == 0)
            return (mf_array *)mf_object_ref(&g->array->object);
    }
    return NULL;
}

mf_status mf_array_gradient(mf_array *a, const char *source, const mf_shape *prepend,
                            mf_array **out)
{
    mf_status st = MF_OK;

    *out = NULL;
    if (a->is_grad)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Creating a gradients TensorArray from a gradients TensorArray (%s)",
                       a->name);
    pthread_mutex_lock(&a->lock);
    *out = gradient_find(a, source);
    if (!*out) {
        st = gradient_new(a, source, prepend);
        if (st == MF_OK)
            *out = gradient_find(a, source);
    }
    pthread_mutex_unlock(&a->lock);
    return st;
}

/* ---- elements ---- */

mf_status mf_array_check(const mf_array *a, mf_dtype dtype)
{
    if (a->closed)
        return MF_FAIL(MF_INVALID_ARGUMENT, "TensorArray %s has already been closed.", a->name);
    if (dtype != MF_DTYPE_INVALID && a->dtype != dtype)
        return MF_FAIL(MF_INVALID_ARGUMENT, "TensorArray dtype is %s but Op is using dtype %s.",
                       mf_dtype_name(a->dtype), mf_dtype_name(dtype));
    return MF_OK;
}

/* A second write to an element of a gradient array adds. */
static mf_status tensor_array_add_to(const mf_array *a, mf_array_item *item, int64_t index,
                                     const mf_tensor *v)
{
    const mf_op *op = mf_op_find("AddV2");
    mf_span_fn *add = op ? mf_kernel_of(op)->loop->fn[a->dtype] : NULL;
    char have[MF_SHAPE_TEXT], with[MF_SHAPE_TEXT];
    mf_tensor sum = { 0 };

    if (!add)
        return MF_FAIL(MF_UNIMPLEMENTED, "gradient arrays of type %s", mf_dtype_name(a->dtype));
    if (!mf_shape_equal(&item->value.shape, &v->shape))
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "Could not aggregate to TensorArray index %lld because the existing shape is "
            "%s but the new input shape is %s.",
            (long long)index, mf_shape_text(&item->value.shape, have),
            mf_shape_text(&v->shape, with));
    MF_TRY(mf_tensor_alloc(&sum, a->dtype, &v->shape));
    add(&(mf_span){ .in = { item->value.data, v->data }, .out = sum.data, .n = v->count });
    mf_tensor_move(&item->value, &sum);
    return MF_OK;
}

static mf_status check_write(mf_array *a, int64_t index, const mf_tensor *v)
{
    char have[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];
    const mf_array_item *item;

    if (index < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Tried to write to index %lld", (long long)index);
    if (index >= a->n && !a->dynamic)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Tried to write to index %lld but array is not resizeable and size is: %lld",
                       (long long)index, (long long)a->n);
    if (!mf_shape_compatible(&a->element, &v->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Could not write to TensorArray index %lld because the value shape is %s "
                       "which is incompatible with the TensorArray's inferred element shape: %s "
                       "(consider setting infer_shape=False).",
                       (long long)index, mf_shape_text(&v->shape, have),
                       mf_shape_text(&a->element, want));
    MF_TRY(mf_array_resize(a, index + 1));
    item = &a->items[index];
    if (item->read)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "Could not write to TensorArray index %lld because it has already been read.",
            (long long)index);
    if (item->written && !a->is_grad)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Could not write to TensorArray index %lld because it has already been "
                       "written to.",
                       (long long)index);
    return MF_OK;
}

mf_status mf_array_write(mf_array *a, int64_t index, const mf_tensor *value)
{
    mf_array_item *item;

    MF_TRY(mf_array_check(a, value->dtype));
    MF_TRY(check_write(a, index, value));
    item = &a->items[index];
    if (item->written)
        return tensor_array_add_to(a, item, index, value);
    MF_TRY(mf_tensor_keep(&item->value, value));
    item->written = true;
    item->has_shape = true;
    item->shape = value->shape;
    if (a->same_shapes && a->element.rank < 0)
        a->element = value->shape;
    return MF_OK;
}

static mf_status read_zeros(const mf_array *a, const mf_array_item *item, int64_t index,
                            mf_tensor *out)
{
    const mf_shape *shape = item->has_shape ? &item->shape : &a->element;
    char text[MF_SHAPE_TEXT];
    mf_tensor zeros = { 0 };

    if (!mf_shape_is_static(shape))
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "Could not read from TensorArray index %lld.  Furthermore, the element shape "
            "is not fully defined: %s.  It is possible you are working with a resizeable "
            "TensorArray and stop_gradients is not allowing the gradients to be written. "
            " If you set the full element_shape property on the forward TensorArray, the "
            "proper all-zeros tensor will be returned instead of incurring this error.",
            (long long)index, mf_shape_text(shape, text));
    MF_TRY(mf_tensor_alloc(&zeros, a->dtype, shape));
    if (mf_dtype_is_plain(a->dtype) && zeros.count > 0)
        memset(zeros.data, 0, (size_t)zeros.count * mf_dtype_cell(a->dtype));
    mf_tensor_move(out, &zeros);
    return MF_OK;
}

mf_status mf_array_read(mf_array *a, int64_t index, mf_tensor *out)
{
    mf_array_item *item;

    if (index < 0 || index >= a->n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Tried to read from index %lld but array size is: %lld",
                       (long long)index, (long long)a->n);
    item = &a->items[index];
    if (item->cleared)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Could not read index %lld twice because it was cleared after a previous "
                       "read (perhaps try setting clear_after_read = false?).",
                       (long long)index);
    if (!item->written)
        MF_TRY(read_zeros(a, item, index, out));
    else
        mf_tensor_set(out, &item->value);
    item->read = true;
    if (a->clear_after_read) {
        mf_tensor_clear(&item->value);
        item->cleared = true;
    }
    return MF_OK;
}
