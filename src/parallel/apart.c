/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/apart.h"

#include "base/mem.h"
#include "graph/shard.h"

#include <string.h>

typedef struct work {
    const mf_apart *a;
    size_t cell;
    int64_t lo, hi; /* our slice of the vector */
    int64_t *sizes; /* bytes from rank to rank */
    char *ours; /* our shards, slice by slice */
    char *slice; /* of all shards, one behind the other */
    char *result; /* our slice of it */
    mf_tree_part *shards;
    const float **at;
    double *factor; /* by shard */
} work;

static void work_deinit(work *w)
{
    mf_free(w->sizes);
    mf_free(w->ours);
    mf_free(w->slice);
    mf_free(w->result);
    mf_free(w->shards);
    mf_free(w->at);
    mf_free(w->factor);
}

static mf_status work_init(work *w)
{
    const mf_apart *a = w->a;
    const mf_group *g = a->group;

    w->cell = mf_dtype_cell(a->dtype);
    w->lo = mf_group_cut(g, a->count, g->rank);
    w->hi = mf_group_cut(g, a->count, g->rank + 1);
    w->sizes = mf_calloc((int64_t)g->size * g->size, sizeof *w->sizes);
    w->ours = mf_calloc(mf_shares_grains(a->shares, g->rank) * a->count, w->cell);
    w->slice = mf_calloc(a->shares->leaves * (w->hi - w->lo), w->cell);
    w->result = mf_calloc(w->hi - w->lo, w->cell);
    w->shards = mf_calloc(a->shares->leaves, sizeof *w->shards);
    w->at = mf_calloc(a->shares->leaves, sizeof *w->at);
    w->factor = mf_calloc(a->shares->leaves, sizeof *w->factor);
    if (!w->sizes || !w->ours || !w->slice || !w->result || !w->shards || !w->at || !w->factor)
        return MF_NOMEM("gradients");
    for (int64_t s = 0; s < a->shares->leaves; s++) {
        const int64_t n = mf_shard_begin(a->shares->samples, a->shares->shards, s + 1) -
                          mf_shard_begin(a->shares->samples, a->shares->shards, s);

        const mf_tree_node shard = a->shares->grains[s]; /* as they come: rank by rank */

        w->shards[shard.lo] =
            (mf_tree_part){ shard, w->slice + (size_t)(s * (w->hi - w->lo)) * w->cell };
        w->factor[s] =
            (double)a->shares->samples / (double)n; /* from a share of the mean to a mean */
    }
    return MF_OK;
}

static mf_status exchange_slices(work *w)
{
    const mf_apart *a = w->a;
    mf_group *g = a->group;
    char *to = w->ours;

    for (int r = 0; r < g->size; r++) {
        const int64_t lo = mf_group_cut(g, a->count, r), n = mf_group_cut(g, a->count, r + 1) - lo;

        for (int q = 0; q < g->size; q++)
            w->sizes[q * g->size + r] = mf_shares_grains(a->shares, q) * n * (int64_t)w->cell;
        for (int p = 0; p < mf_shares_grains(a->shares, g->rank); p++, to += (size_t)n * w->cell)
            memcpy(to, (const char *)a->shards[p] + (size_t)lo * w->cell, (size_t)n * w->cell);
    }
    return mf_all_to_all(g, &a->call, w->ours, w->sizes, w->slice);
}

static mf_status aggregate(work *w)
{
    const mf_apart *a = w->a;
    const int64_t n = a->shares->leaves;

    MF_TRY(mf_tree_sum(n, (mf_tree_node){ 0, n }, w->shards, (int)n, a->dtype, w->hi - w->lo,
                       w->result));
    for (int i = 0; i < a->n_gradients; i++) {
        const mf_apart_item g = a->gradients[i];
        const int64_t from = g.at > w->lo ? g.at : w->lo;
        const int64_t to = g.at + g.count < w->hi ? g.at + g.count : w->hi;

        if (from >= to)
            continue;
        for (int64_t s = 0; s < n; s++)
            w->at[s] = (const float *)w->shards[s].data + (from - w->lo);
        MF_TRY(mf_aggregate_robust(a->aggregation, w->at, w->factor, n, to - from,
                                   (float *)(void *)w->result + (from - w->lo)));
    }
    return MF_OK;
}

static mf_status gather_slices(work *w)
{
    const mf_apart *a = w->a;
    mf_group *g = a->group;

    for (int r = 0; r < g->size; r++)
        w->sizes[r] =
            (mf_group_cut(g, a->count, r + 1) - mf_group_cut(g, a->count, r)) * (int64_t)w->cell;
    return mf_all_gather(g, &(mf_gather){ a->call, w->result, w->sizes, a->out });
}

mf_status mf_apart_reduce(const mf_apart *a)
{
    work w = { .a = a };
    mf_status st = work_init(&w);

    if (st == MF_OK)
        st = exchange_slices(&w);
    if (st == MF_OK)
        st = aggregate(&w);
    if (st == MF_OK)
        st = gather_slices(&w);
    work_deinit(&w);
    return st;
}
