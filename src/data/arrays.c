/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.c - a data set whose samples are rows of tensors in memory. */
#include "data/arrays.h"

#include "base/host_state.h"

#include <stdlib.h>
#include <string.h>

typedef struct arrays {
    mf_dataset base;
    mf_rows *rows; /* one per column */
} arrays;

static mf_status arrays_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                             void *const *columns)
{
    const arrays *a = (const arrays *)set;

    (void)epoch;
    for (int i = 0; i < set->n_columns; i++) {
        const mf_rows *r = &a->rows[i];
        const size_t bytes = set->bytes[i];

        if (!columns[i])
            continue;
        if (r->loading)
            MF_TRY(mf_loading_wait(r->loading, (index + 1) * (int64_t)bytes));
        memcpy(columns[i], (const char *)r->tensor->data + (size_t)index * bytes, bytes);
    }
    return MF_OK;
}

static void arrays_deinit(mf_dataset *set)
{
    arrays *a = (arrays *)set;

    for (int i = 0; a->rows && i < set->n_columns; i++) {
        mf_loading_free(a->rows[i].loading); /* before the tensor it writes to */
        mf_tensor_free(a->rows[i].tensor);
    }
}

static const mf_dataset_ops arrays_ops = { .read = arrays_read, .deinit = arrays_deinit };

static mf_status set_column(arrays *a, int i, const char *name)
{
    const mf_tensor *t = a->rows[i].tensor, *first = a->rows[0].tensor;
    mf_shape row = { .rank = t->shape.rank - 1 };

    if (t->shape.rank == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "column '%s' is a scalar: its first dimension must be the samples", name);
    if (t->shape.dims[0] != first->shape.dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT, "column '%s' has %lld samples, column '%s' has %lld",
                       name, (long long)t->shape.dims[0], a->base.columns[0].name,
                       (long long)first->shape.dims[0]);
    for (int d = 0; d < row.rank; d++)
        row.dims[d] = t->shape.dims[d + 1];
    return mf_dataset_set_column(&a->base, i, name, t->dtype, &row);
}

mf_status mf_arrays_new(mf_rows *columns, int n, mf_dataset **out)
{
    arrays *a = NULL;
    mf_status st = mf_dataset_new(&arrays_ops, sizeof *a, n, &a);

    *out = NULL;
    if (st == MF_OK) {
        a->rows = MF_ARENA_ARRAY(a->base.arena, mf_rows, n);
        st = a->rows ? MF_OK : MF_NOMEM("a data set");
    }
    for (int i = 0; i < n; i++) {
        if (st == MF_OK || (a && a->rows)) {
            a->rows[i] = columns[i];
        } else {
            mf_loading_free(columns[i].loading);
            mf_tensor_free(columns[i].tensor);
        }
        columns[i].tensor = NULL;
        columns[i].loading = NULL;
    }
    for (int i = 0; i < n && st == MF_OK; i++)
        st = set_column(a, i, columns[i].name);
    if (st != MF_OK) {
        mf_dataset_unref(a ? &a->base : NULL);
        return st;
    }
    a->base.count = a->base.id_count = a->rows[0].tensor->shape.dims[0];
    *out = &a->base;
    return MF_OK;
}

mf_status mf_arrays_count_classes(mf_dataset *set, const char *column)
{
    const int at = mf_dataset_find_column(set, column);
    const mf_tensor *t = at >= 0 ? ((arrays *)set)->rows[at].tensor : NULL;
    int32_t most = -1;

    if (!t || t->dtype != MF_DTYPE_I32 || t->shape.rank != 1)
        return MF_OK;
    for (int64_t i = 0; i < t->count; i++) {
        const int32_t v = ((const int32_t *)t->data)[i];

        if (v < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "sample %lld has the label %d, but labels start "
                           "at 0",
                           (long long)i, v);
        most = v > most ? v : most;
    }
    set->classes = (int64_t)most + 1;
    return MF_OK;
}

mf_status mf_arrays_to_int32(const mf_tensor *from, mf_tensor **out)
{
    *out = NULL;
    if (!mf_dtype_is_int(from->dtype) && from->dtype != MF_DTYPE_BOOL)
        return MF_FAIL(MF_INVALID_ARGUMENT, "labels have the type %s, but must be integers",
                       mf_dtype_name(from->dtype));
    MF_TRY(mf_tensor_new(MF_DTYPE_I32, from->shape.dims, from->shape.rank, out));
    for (int64_t i = 0; i < from->count; i++) {
        const int64_t v = mf_tensor_int_at(from, i);

        if (v != (int32_t)v) {
            mf_tensor_free(*out);
            *out = NULL;
            return MF_FAIL(MF_INVALID_ARGUMENT, "label %lld of sample %lld is too large",
                           (long long)v, (long long)i);
        }
        ((int32_t *)(*out)->data)[i] = (int32_t)v;
    }
    return MF_OK;
}

mf_status mf_dataset_of(const char *const *names, const mf_tensor *const *columns, int n_columns,
                        mf_dataset **out)
{
    MF_ENTRY;
    MF_NEED(out);
    MF_NEED_ALL(names, n_columns);
    MF_NEED_ALL(columns, n_columns);

    mf_rows *rows = mf_calloc(n_columns, sizeof *rows);
    mf_status st = MF_OK;

    *out = NULL;
    if (!rows)
        return MF_NOMEM("a data set");
    for (int i = 0; i < n_columns && st == MF_OK; i++) {
        rows[i].name = names[i];
        st = mf_tensor_copy(columns[i], &rows[i].tensor);
    }
    if (st == MF_OK) {
        st = mf_arrays_new(rows, n_columns, out);
        if (st == MF_OK)
            st = mf_arrays_count_classes(*out, "label");
        if (st != MF_OK) {
            mf_dataset_unref(*out);
            *out = NULL;
        }
    }
    for (int i = 0; i < n_columns; i++)
        mf_tensor_free(rows[i].tensor);
    mf_free(rows);
    return st;
}
