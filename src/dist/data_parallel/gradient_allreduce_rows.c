/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_allreduce_rows.c - rows of tables that were touched, of all workers, in the order of the
 * shards. */
#include "base/mem.h"
#include "dist/data_parallel/gradient_allreduce_private.h"

#include <string.h>

mf_status mf_gradient_allreduce_pack_rows(const mf_gradient_allreduce *x,
                                          mf_gradient_allreduce_bucket *k,
                                          const mf_tensor *const *values)
{
    const mf_exchange_bucket *b = k->about;
    int64_t bytes = 0;
    char *to;

    if (!k->rows)
        k->rows = mf_calloc(b->n_items, sizeof *k->rows);
    if (!k->rows)
        return MF_NOMEM("an exchange");
    for (int i = 0; i < b->n_items; i++) {
        k->rows[i] = b->n_parts > 0 ? values[i]->shape.dims[0] : 0;
        bytes += b->n_parts > 0 ? (int64_t)mf_tensor_bytes(values[i]) : 0;
    }
    k->count = bytes;
    MF_TRY(mf_shard_owners_reserve(&k->packed, MF_DTYPE_U8, bytes > 0 ? bytes : 1));
    to = k->packed.data;
    for (int i = 0; i < b->n_items && b->n_parts > 0; i++) {
        memcpy(to, values[i]->data, mf_tensor_bytes(values[i]));
        mf_gradient_allreduce_weigh(x, b, i, to, values[i]->count);
        to += mf_tensor_bytes(values[i]);
    }
    return MF_OK;
}

static size_t row_bytes(const mf_exchange_bucket *b, int i)
{
    return (size_t)mf_shape_span(&b->shapes[i], 1, b->shapes[i].rank) *
           mf_dtype_cell((mf_dtype)b->types[i]);
}

/* Bytes of a member with these numbers of rows of the items. */
static mf_status gradient_allreduce_rows_size_of(const mf_exchange_bucket *b, const int64_t *rows,
                                                 int64_t *size)
{
    *size = 0;
    for (int i = 0; i < b->n_items; i++) {
        int64_t bytes;

        if (rows[i] < 0 || !mf_mul_i64(rows[i], (int64_t)row_bytes(b, i), &bytes) ||
            !mf_add_i64(*size, bytes, size))
            return MF_FAIL(MF_DATA_LOSS, "a worker sent a row count of %lld", (long long)rows[i]);
    }
    return MF_OK;
}

/* rows: of all ranks, item by item; sizes: of each contribution. */
static mf_status gradient_allreduce_rows_gather_rows(mf_gradient_allreduce *x,
                                                     mf_gradient_allreduce_bucket *k, int64_t *rows,
                                                     int64_t *sizes)
{
    const mf_exchange_bucket *b = k->about;
    mf_group *g = x->o.group;
    const mf_collective c = mf_gradient_allreduce_call(x, k, "the gradients of rows");
    int64_t total = 0;

    for (int r = 0; r < g->size; r++)
        sizes[r] = b->n_items * (int64_t)sizeof *rows;
    MF_TRY(mf_all_gather(g, &(mf_gather){ c, k->rows, sizes, rows }));
    for (int r = 0; r < g->size; r++) {
        MF_TRY(
            gradient_allreduce_rows_size_of(b, rows + (size_t)r * (size_t)b->n_items, &sizes[r]));
        if (!mf_add_i64(total, sizes[r], &total))
            return MF_FAIL(MF_DATA_LOSS, "workers have more rows than there can be");
    }
    mf_tensor_clear(&k->result);
    MF_TRY(mf_tensor_alloc(&k->result, MF_DTYPE_U8, &MF_SHAPE(total > 0 ? total : 1)));
    return mf_all_gather(g, &(mf_gather){ c, k->packed.data, sizes, k->result.data });
}

/* From the received order, rank by rank, to item by item, each in the order of the shards. sizes:
 * of the contributions; on return, their offsets. */
static mf_status sort_rows(const mf_gradient_allreduce *x, mf_gradient_allreduce_bucket *k,
                           const int64_t *rows, int64_t *sizes)
{
    const mf_exchange_bucket *b = k->about;
    mf_tensor sorted = { 0 };
    int64_t begin = 0;
    char *to;

    MF_TRY(mf_tensor_alloc(&sorted, MF_DTYPE_U8, &MF_SHAPE(k->result.count)));
    to = sorted.data;
    for (int r = 0; r < x->o.group->size; r++) {
        const int64_t size = sizes[r];

        sizes[r] = begin;
        begin += size;
    }
    for (int i = 0; i < b->n_items; i++) {
        k->rows[i] = 0;
        for (int s = 0; s < x->o.group->size; s++) {
            const int r = x->shares.order[s];
            const int64_t *of_rank = rows + (size_t)r * (size_t)b->n_items;
            const size_t bytes = (size_t)of_rank[i] * row_bytes(b, i);
            const char *at = (const char *)k->result.data + sizes[r];

            for (int j = 0; j < i; j++)
                at += (size_t)of_rank[j] * row_bytes(b, j);
            memcpy(to, at, bytes);
            to += bytes;
            k->rows[i] += of_rank[i];
        }
    }
    mf_tensor_clear(&k->result);
    k->result = sorted;
    return MF_OK;
}

mf_status mf_gradient_allreduce_concat(mf_gradient_allreduce *x, mf_gradient_allreduce_bucket *k)
{
    const int n = x->o.group->size;
    int64_t *rows = mf_calloc((int64_t)n * k->about->n_items, sizeof *rows);
    int64_t *sizes = mf_calloc(n, sizeof *sizes);
    mf_status st = rows && sizes ? gradient_allreduce_rows_gather_rows(x, k, rows, sizes)
                                 : MF_NOMEM("an exchange");

    if (st == MF_OK)
        st = sort_rows(x, k, rows, sizes);
    mf_free(rows);
    mf_free(sizes);
    return st;
}
