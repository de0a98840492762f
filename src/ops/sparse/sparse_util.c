/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_util.c - checks and reads the indices, values and shape of a sparse tensor. */
#include "ops/sparse/sparse_util.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* ---- sparse tensors ---- */

mf_status mf_sparse_infer(const mf_infer *in, int first)
{
    MF_TRY(mf_infer_rank(in, first, 2));
    MF_TRY(mf_infer_rank(in, first + 1, 1));
    return mf_infer_rank(in, first + 2, 1);
}

mf_status mf_sparse_read(const mf_kernel *k, int first, mf_sparse *out)
{
    const mf_tensor *index = k->in[first], *values = k->in[first + 1], *shape = k->in[first + 2];
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT], c[MF_SHAPE_TEXT];

    if (index->shape.rank != 2 || values->shape.rank != 1 || shape->shape.rank != 1 ||
        index->shape.dims[0] != values->count || index->shape.dims[1] != shape->count)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "indices, values and shape of a sparse tensor do not fit: they are %s, %s "
                       "and %s",
                       mf_shape_text(&index->shape, a), mf_shape_text(&values->shape, b),
                       mf_shape_text(&shape->shape, c));
    MF_TRY(mf_rank_check(shape->count > MF_MAX_RANK ? MF_MAX_RANK + 1 : (int)shape->count));
    *out = (mf_sparse){ values->count, (int)shape->count, index, values, { 0 } };
    for (int d = 0; d < out->rank; d++) {
        out->size[d] = mf_index_at(shape, d);
        if (out->size[d] < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "size %" PRId64 " of dimension %d of a sparse tensor is negative",
                           out->size[d], d);
    }
    return MF_OK;
}

mf_status mf_sparse_check_bounds(const mf_sparse *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        for (int d = 0; d < s->rank; d++) {
            const int64_t at = mf_sparse_at(s, i, d);

            if (at < 0 || at >= s->size[d])
                return MF_FAIL(MF_INVALID_ARGUMENT,
                               "index %" PRId64 " of element %" PRId64
                               " is out of bounds: dimension %d has size %" PRId64,
                               at, i, d, s->size[d]);
        }
    }
    return MF_OK;
}

mf_status mf_sparse_dense_count(const mf_sparse *s, int64_t *out)
{
    *out = 1;
    for (int d = 0; d < s->rank; d++) {
        if (!mf_mul_i64(*out, s->size[d], out))
            return MF_FAIL(MF_INVALID_ARGUMENT, "the shape of a sparse tensor is too large");
    }
    return MF_OK;
}

int mf_sparse_compare(const mf_sparse *a, int64_t i, const mf_sparse *b, int64_t j)
{
    for (int d = 0; d < a->rank; d++) {
        const int64_t x = mf_sparse_at(a, i, d), y = mf_sparse_at(b, j, d);

        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

/* Merges two sorted runs [from, mid) and [mid, to). */
static void sparse_util_merge(const mf_sparse *s, const int64_t *in, int64_t *out, int64_t from,
                              int64_t mid, int64_t to)
{
    int64_t a = from, b = mid;

    for (int64_t i = from; i < to; i++)
        out[i] =
            b >= to || (a < mid && mf_sparse_compare(s, in[a], s, in[b]) <= 0) ? in[a++] : in[b++];
}

mf_status mf_sparse_order(const mf_sparse *s, int64_t **order)
{
    int64_t *a = mf_calloc(s->n + 1, sizeof *a), *b = mf_calloc(s->n + 1, sizeof *b);

    *order = NULL;
    if (!a || !b) {
        mf_free(a);
        mf_free(b);
        return MF_NOMEM("sorting a sparse tensor");
    }
    for (int64_t i = 0; i < s->n; i++)
        a[i] = i;
    for (int64_t run = 1; run < s->n; run *= 2) {
        int64_t *t = a;

        for (int64_t from = 0; from < s->n; from += 2 * run) {
            const int64_t mid = from + run < s->n ? from + run : s->n;

            sparse_util_merge(s, a, b, from, mid, mid + run < s->n ? mid + run : s->n);
        }
        a = b;
        b = t;
    }
    mf_free(b);
    *order = a;
    return MF_OK;
}

/* ---- numbers ---- */

static bool sparse_util_whole(mf_dtype type)
{
    return !mf_dtype_is_float(type) && !mf_dtype_is_complex(type);
}

mf_number mf_number_at(const mf_tensor *t, int64_t at)
{
    mf_number x = { .type = t->dtype };

    if (t->dtype == MF_DTYPE_U64)
        x.i = ((const uint64_t *)t->data)[at];
    else if (sparse_util_whole(t->dtype))
        x.i = (uint64_t)mf_tensor_int_at(t, at);
    else if (t->dtype == MF_DTYPE_C64)
        x.z = ((const float _Complex *)t->data)[at];
    else if (t->dtype == MF_DTYPE_C128)
        x.z = ((const double _Complex *)t->data)[at];
    else
        x.z = mf_tensor_float_at(t, at);
    return x;
}

void mf_number_put(mf_tensor *t, int64_t at, mf_number x)
{
    const size_t cell = mf_dtype_cell(t->dtype);

    if (sparse_util_whole(t->dtype)) /* the low bytes come first */
        memcpy((char *)t->data + (size_t)at * cell, &x.i, cell);
    else if (t->dtype == MF_DTYPE_C64)
        ((float _Complex *)t->data)[at] = (float _Complex)x.z;
    else if (t->dtype == MF_DTYPE_C128)
        ((double _Complex *)t->data)[at] = x.z;
    else
        mf_tensor_put(t, at, creal(x.z));
}

mf_number mf_number_add(mf_number a, mf_number b)
{
    return (mf_number){ a.type, a.i + b.i, a.z + b.z };
}

mf_number mf_number_mul(mf_number a, mf_number b)
{
    if (mf_dtype_is_complex(a.type))
        return (mf_number){ a.type, 0, a.z * b.z };
    return (mf_number){ a.type, a.i * b.i, creal(a.z) * creal(b.z) };
}

mf_number mf_number_conj(mf_number a)
{
    a.z = conj(a.z);
    return a;
}

bool mf_number_less(mf_number a, mf_number b)
{
    if (a.type == MF_DTYPE_U64)
        return a.i < b.i;
    return sparse_util_whole(a.type) ? (int64_t)a.i < (int64_t)b.i : creal(a.z) < creal(b.z);
}

double mf_number_size(mf_number a)
{
    if (a.type == MF_DTYPE_U64)
        return (double)a.i;
    return sparse_util_whole(a.type) ? fabs((double)(int64_t)a.i) : cabs(a.z);
}
