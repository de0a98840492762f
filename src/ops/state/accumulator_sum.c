/* SPDX-License-Identifier: Apache-2.0 */
/* accumulator_sum.c - adds dense and sparse gradients, and divides by their number. */
#include "ops/math/elementwise.h"
#include "ops/state/accumulator.h"

#include <string.h>

#define MEAN(x) ((x) / _Generic((x), double : param, default : (float)param))
MF_EACH_FLOAT(MF_UNARY, mean, MEAN)
static const mf_loop mean_loop = { .arity = 1, .fn = { MF_FN_FLOATS(mean) } };

static mf_status find_add(mf_dtype dtype, mf_span_fn **add)
{
    const mf_op *op = mf_op_find("AddV2");

    *add = op ? mf_kernel_of(op)->loop->fn[dtype] : NULL;
    if (!*add || !mean_loop.fn[dtype])
        return MF_FAIL(MF_UNIMPLEMENTED, "no accumulator for type %s", mf_dtype_name(dtype));
    return MF_OK;
}

static void accumulator_sum_add_to(mf_span_fn *add, void *sum, const void *x, int64_t n)
{
    const mf_span s = { .in = { sum, x }, .out = sum, .n = n };

    add(&s);
}

static void accumulator_sum_divide(const mf_accumulator *a, void *sum, int64_t n, int64_t by)
{
    const mf_span s = { .in = { sum }, .out = sum, .n = n, .param = (double)by };

    if (a->is_mean && by > 1)
        mean_loop.fn[a->dtype](&s);
}

static mf_status accumulator_sum_check_type(const mf_accumulator *a, const mf_tensor *gradient)
{
    if (gradient->dtype == a->dtype)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "the accumulator is of type %s, the gradient of type %s",
                   mf_dtype_name(a->dtype), mf_dtype_name(gradient->dtype));
}

void mf_accumulator_reset(mf_accumulator *a)
{
    a->count = 0;
    mf_tensor_clear(&a->sum);
    a->sparse.n = 0;
    mf_tensor_clear(&a->sparse.rows);
}

/* ---- dense: (handle, local_step, gradient) ---- */

mf_status mf_accumulator_add(mf_accumulator *a, const mf_kernel *k)
{
    const mf_tensor *g = k->in[2];
    char want[MF_SHAPE_TEXT], have[MF_SHAPE_TEXT];
    mf_span_fn *add;

    MF_TRY(accumulator_sum_check_type(a, g));
    if (!mf_shape_compatible(&a->shape, &g->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Shape mismatch: expected %s, got %s",
                       mf_shape_text(&a->shape, want), mf_shape_text(&g->shape, have));
    MF_TRY(find_add(a->dtype, &add));
    if (a->count == 0)
        return mf_tensor_clone(&a->sum, g);
    if (!mf_shape_equal(&a->sum.shape, &g->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Shape mismatch: expected %s, got %s",
                       mf_shape_text(&a->sum.shape, want), mf_shape_text(&g->shape, have));
    accumulator_sum_add_to(add, a->sum.data, g->data, g->count);
    return MF_OK;
}

mf_status mf_accumulator_put(mf_accumulator *a, mf_kernel *k)
{
    accumulator_sum_divide(a, a->sum.data, a->sum.count, a->count);
    mf_kernel_set(k, 0, &a->sum);
    mf_accumulator_reset(a);
    return MF_OK;
}

/* ---- sparse: (handle, local_step, indices, values, shape) ---- */

/* The declared shape is a prefix, as in TensorFlow: () matches every gradient. */
static mf_status check_dims(const mf_accumulator *a, const char *what, const int64_t *dims,
                            int64_t rank, int first)
{
    if (a->shape.rank > rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Shape mismatch: expected %s rank at least %d, got %lld", what,
                       a->shape.rank, (long long)rank);
    for (int d = first; d < a->shape.rank; d++) {
        if (a->shape.dims[d] >= 0 && a->shape.dims[d] != dims[d])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Shape mismatch: expected %s dim %d to be %lld, got %lld", what, d,
                           (long long)a->shape.dims[d], (long long)dims[d]);
    }
    return MF_OK;
}

static mf_status check_indices(const mf_accumulator *a, const mf_tensor *indices)
{
    const int64_t end = a->shape.rank > 0 && a->shape.dims[0] >= 0 ? a->shape.dims[0] : INT64_MAX;

    for (int64_t i = 0; i < indices->count; i++) {
        const int64_t at = mf_tensor_int_at(indices, i);

        if (at < 0 || at >= end)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Shape mismatch: index of slice %lld exceeded limits of shape; index is "
                           "%lld exceeded %lld",
                           (long long)i, (long long)at, (long long)end);
    }
    return MF_OK;
}

static mf_status accumulator_sum_check_sparse(const mf_accumulator *a, const mf_kernel *k)
{
    const mf_tensor *indices = k->in[2], *values = k->in[3], *shape = k->in[4];
    int64_t dims[MF_MAX_RANK] = { 0 };

    MF_TRY(accumulator_sum_check_type(a, values));
    if (indices->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input indices should be vector but has rank %d",
                       indices->shape.rank);
    if (values->shape.rank < 1 || values->shape.dims[0] != indices->count)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "there are %lld indices, but another number of slices of values",
                       (long long)indices->count);
    for (int d = 0; d < shape->count && d < MF_MAX_RANK; d++)
        dims[d] = mf_tensor_int_at(shape, d);
    if (mf_node_bool(k->node, "has_known_shape"))
        MF_TRY(check_dims(a, "shape", dims, shape->count, 0));
    MF_TRY(check_indices(a, indices));
    return check_dims(a, "values", values->shape.dims, values->shape.rank, 1);
}

/* Reserves `more` rows of the shape of `values`. */
static mf_status sparse_reserve(mf_sparse_sum *s, const mf_tensor *values, int64_t more)
{
    const int64_t have = s->rows.dtype ? s->rows.shape.dims[0] : 0;
    mf_shape shape = values->shape;
    mf_tensor rows = { 0 };
    int64_t cap;

    if (!mf_add_i64(s->n, more, &shape.dims[0]))
        return MF_NOMEM("a sparse accumulator");
    cap = s->cap;
    MF_TRY(mf_grow(&s->index, &cap, shape.dims[0], sizeof(int64_t)));
    cap = s->cap;
    MF_TRY(mf_grow(&s->slot, &cap, shape.dims[0], sizeof(int64_t)));
    cap = s->cap;
    MF_TRY(mf_grow(&s->times, &cap, shape.dims[0], sizeof(int64_t)));
    s->cap = cap;
    if (s->rows.dtype && shape.dims[0] <= have)
        return MF_OK;
    if (shape.dims[0] < 2 * have)
        shape.dims[0] = 2 * have;
    MF_TRY(mf_tensor_alloc(&rows, values->dtype, &shape));
    if (s->n > 0) /* rows 0..n-1 are in use */
        memcpy(rows.data, s->rows.data,
               (size_t)(s->n * mf_shape_span(&shape, 1, shape.rank)) * mf_dtype_size(rows.dtype));
    mf_tensor_move(&s->rows, &rows);
    return MF_OK;
}

/* Keeps entry i of `from` in the list. */
static void keep_entry(mf_sparse_sum *s, const int64_t *from, int64_t n_from, int64_t i)
{
    s->index[s->n] = from[i];
    s->slot[s->n] = from[n_from + i];
    s->times[s->n++] = from[2 * n_from + i];
}

typedef struct merging {
    mf_span_fn *add;
    const char *values;
    int64_t len; /* elements of a slice */
    size_t row; /* bytes of one */
} merging;

/* Adds slice i to the row of the last entry, or makes it a new row. */
static void accumulator_sum_take_slice(const merging *m, mf_sparse_sum *s, int64_t i, bool is_new)
{
    char *to = (char *)s->rows.data + (size_t)s->slot[s->n - 1] * m->row;
    const char *from = m->values + (size_t)i * m->row;

    if (is_new)
        memcpy(to, from, m->row);
    else
        accumulator_sum_add_to(m->add, to, from, m->len);
}

/* As in TensorFlow, both lists are assumed to be ascending. A gradient with a duplicate index adds
 * to two entries; the op that applies the result adds them. */
static void accumulator_sum_merge(const merging *m, mf_sparse_sum *s, const int64_t *old,
                                  int64_t n_old, const mf_tensor *indices)
{
    int64_t i = 0, j = 0, next = n_old; /* rows 0..n_old-1 are in use */

    s->n = 0;
    while (i < n_old || j < indices->count) {
        const int64_t index = j < indices->count ? mf_tensor_int_at(indices, j) : 0;

        if (j == indices->count || (i < n_old && old[i] < index)) {
            keep_entry(s, old, n_old, i++);
        } else if (i < n_old && old[i] == index) {
            keep_entry(s, old, n_old, i++);
            s->times[s->n - 1]++;
            accumulator_sum_take_slice(m, s, j++, false);
        } else {
            s->index[s->n] = index;
            s->slot[s->n] = next++;
            s->times[s->n++] = 1;
            accumulator_sum_take_slice(m, s, j++, true);
        }
    }
}

mf_status mf_accumulator_add_sparse(mf_accumulator *a, const mf_kernel *k)
{
    const mf_tensor *indices = k->in[2], *values = k->in[3];
    const int64_t len = mf_shape_span(&values->shape, 1, values->shape.rank);
    mf_sparse_sum *s = &a->sparse;
    const int64_t n_old = s->n;
    mf_span_fn *add;
    int64_t *old;
    merging m;

    MF_TRY(accumulator_sum_check_sparse(a, k));
    MF_TRY(find_add(a->dtype, &add));
    if (s->rows.dtype && (s->rows.shape.rank != values->shape.rank ||
                          memcmp(s->rows.shape.dims + 1, values->shape.dims + 1,
                                 (size_t)(values->shape.rank - 1) * sizeof(int64_t)) != 0))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Shape mismatch: the slices differ in shape from those "
                                            "accumulated before");
    MF_TRY(sparse_reserve(s, values, indices->count));
    old = mf_calloc(3 * n_old + 1, sizeof *old);
    if (!old)
        return MF_NOMEM("a sparse accumulator");
    if (n_old > 0) {
        memcpy(old, s->index, (size_t)n_old * sizeof *old);
        memcpy(old + n_old, s->slot, (size_t)n_old * sizeof *old);
        memcpy(old + 2 * n_old, s->times, (size_t)n_old * sizeof *old);
    }
    m = (merging){ .add = add, .values = values->data, .len = len };
    m.row = (size_t)len * mf_dtype_size(a->dtype);
    accumulator_sum_merge(&m, s, old, n_old, indices);
    mf_free(old);
    return MF_OK;
}

mf_status mf_accumulator_put_sparse(mf_accumulator *a, mf_kernel *k)
{
    mf_sparse_sum *s = &a->sparse;
    mf_shape shape = s->rows.shape;
    const int64_t len = mf_shape_span(&shape, 1, shape.rank);
    const size_t row = (size_t)len * mf_dtype_size(a->dtype);
    mf_tensor *index, *values, *dims;

    shape.dims[0] = s->n;
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(s->n), &index));
    MF_TRY(mf_kernel_out(k, 1, &shape, &values));
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(shape.rank), &dims));
    for (int64_t i = 0; i < s->n; i++) {
        char *to = (char *)values->data + (size_t)i * row;

        ((int64_t *)index->data)[i] = s->index[i];
        memcpy(to, (const char *)s->rows.data + (size_t)s->slot[i] * row, row);
        accumulator_sum_divide(a, to, len, s->times[i]);
    }
    memcpy(dims->data, shape.dims, (size_t)shape.rank * sizeof(int64_t));
    *(int64_t *)dims->data = a->shape.rank > 0 ? a->shape.dims[0] : MF_UNKNOWN_DIM;
    mf_accumulator_reset(a);
    return MF_OK;
}
