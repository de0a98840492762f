/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_view.c - some samples of another set in another order: ranges, shards, splits,
 * interleaving. */
#include "data/dataset_view.h"

#include "base/host_state.h"
#include "data/order.h"

#include <stdlib.h>
#include <string.h>

typedef struct dataset_view {
    mf_dataset base;
    mf_dataset *inner;
    int64_t from, step; /* inner index = from + i * step ... */
    int64_t *table; /* ... or table[i], if there is one. On the heap: it may be large */
} dataset_view;

static int64_t inner_index(const dataset_view *v, int64_t i)
{
    return v->table ? v->table[i] : v->from + i * v->step;
}

static mf_status view_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                           void *const *columns)
{
    const dataset_view *v = (const dataset_view *)set;

    return v->inner->ops->read(v->inner, epoch, inner_index(v, index), columns);
}

static int64_t view_sample_id(const mf_dataset *set, int64_t index)
{
    const dataset_view *v = (const dataset_view *)set;

    return mf_dataset_sample_id(v->inner, inner_index(v, index));
}

static int64_t view_file(const mf_dataset *set, int64_t index)
{
    const dataset_view *v = (const dataset_view *)set;

    return mf_dataset_file(v->inner, inner_index(v, index));
}

static void dataset_view_deinit(mf_dataset *set)
{
    dataset_view *v = (dataset_view *)set;

    mf_free(v->table);
    mf_dataset_unref(v->inner);
}

static const mf_dataset_ops view_ops = {
    .read = view_read, .sample_id = view_sample_id, .file = view_file, .deinit = dataset_view_deinit
};

/* Takes ownership of `table`, even on failure. */
static mf_status view_new(mf_dataset *inner, int64_t count, int64_t from, int64_t step,
                          int64_t *table, mf_dataset **out)
{
    dataset_view *v;
    mf_status st = mf_dataset_new(&view_ops, sizeof *v, inner->n_columns, &v);

    *out = NULL;
    if (st != MF_OK) {
        mf_free(table);
        return st;
    }
    v->inner = mf_dataset_ref(inner);
    v->from = from;
    v->step = step;
    v->table = table;
    v->base.count = count;
    v->base.id_count = inner->id_count;
    st = mf_dataset_like(&v->base, inner);
    if (st != MF_OK) {
        mf_dataset_unref(&v->base);
        return st;
    }
    *out = &v->base;
    return MF_OK;
}

mf_status mf_view_new(mf_dataset *inner, int64_t count, int64_t *table, mf_dataset **out)
{
    return view_new(inner, count, 0, 0, table, out);
}

mf_status mf_dataset_range(mf_dataset *set, int64_t from, int64_t to, mf_dataset **out)
{
    MF_ENTRY;
    MF_NEED(set, out);

    *out = NULL;
    if (from < 0 || to < from || to > set->count)
        return MF_FAIL(MF_OUT_OF_RANGE, "samples %lld to %lld are out of range: there are %lld",
                       (long long)from, (long long)to, (long long)set->count);
    return view_new(set, to - from, from, 1, NULL, out);
}

mf_status mf_dataset_shard(mf_dataset *set, int64_t parts, int64_t index, mf_dataset **out)
{
    MF_ENTRY;
    MF_NEED(set, out);

    *out = NULL;
    if (parts < 1 || index < 0 || index >= parts)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there is no shard %lld of %lld", (long long)index,
                       (long long)parts);
    return view_new(set, set->count > index ? (set->count - index - 1) / parts + 1 : 0, index,
                    parts, NULL, out);
}

/* ---- split ---- */

static int dataset_view_by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* Part of a permutation, sorted: neighbours in a file stay neighbours. */
static mf_status dataset_view_take_part(mf_dataset *set, const int64_t *order, int64_t n,
                                        mf_dataset **out)
{
    int64_t *part = mf_calloc(n, sizeof *part);

    if (!part)
        return MF_NOMEM("a split");
    if (n > 0) {
        memcpy(part, order, (size_t)n * sizeof *part);
        qsort(part, (size_t)n, sizeof *part, dataset_view_by_number);
    }
    return mf_view_new(set, n, part, out);
}

mf_status mf_dataset_split(mf_dataset *set, double fraction, uint64_t seed, mf_dataset **first,
                           mf_dataset **second)
{
    MF_ENTRY;
    MF_NEED(set, first, second);

    const uint64_t stream = 0x73706c6974u; /* "split": far from epochs, which are streams from 0 */
    int64_t *order, n;
    mf_status st;

    *first = *second = NULL;
    if (!(fraction >= 0 && fraction <= 1))
        return MF_FAIL(MF_INVALID_ARGUMENT, "the fraction is %g, but must be 0 to 1", fraction);
    order = mf_calloc(set->count, sizeof *order);
    if (!order)
        return MF_NOMEM("a split");
    mf_order_shuffle(seed, stream << 16, order, set->count);
    n = (int64_t)(fraction * (double)set->count + 0.5);
    n = n > set->count ? set->count : n;
    MF_TRY_TO(done, dataset_view_take_part(set, order, n, first));
    MF_TRY_TO(done, dataset_view_take_part(set, order + n, set->count - n, second));
done:
    mf_free(order);
    if (st != MF_OK) {
        mf_dataset_unref(*first);
        *first = NULL;
    }
    return st;
}
