/* SPDX-License-Identifier: Apache-2.0 */
/* robust_reduce.c - robust aggregation (median, trimmed mean, Adasum) of the gradients of all
 * shards across workers. */
#include "dist/data_parallel/robust_reduce.h"

#include "base/mem.h"
#include "graph/shard.h"

#include <stddef.h>
#include <string.h>

typedef struct robust_reduce_work {
    const mf_robust_reduce *a;
    size_t cell;
    int64_t *cuts; /* of the vector: rank r has the slice from cuts[r] to cuts[r + 1] */
    int64_t lo, hi; /* this worker's */
    int64_t *sizes; /* bytes from rank to rank */
    char *ours; /* this worker's shards, slice by slice */
    char *slice; /* of all shards, concatenated */
    char *result; /* this worker's slice of it */
    mf_reduction_tree_part *shards;
    float **at; /* a gradient, by shard */
    double *factor; /* by shard */
} robust_reduce_work;

static void work_deinit(robust_reduce_work *w)
{
    mf_free(w->cuts);
    mf_free(w->sizes);
    mf_free(w->ours);
    mf_free(w->slice);
    mf_free(w->result);
    mf_free(w->shards);
    mf_free(w->at);
    mf_free(w->factor);
}

/* The end of the gradient that has elements on both sides of `at`; otherwise `at`. */
static int64_t robust_reduce_whole(const mf_robust_reduce *a, int64_t at)
{
    for (int i = 0; i < a->n_gradients; i++) {
        const mf_robust_reduce_item g = a->gradients[i];

        if (g.at < at && at < g.at + g.count)
            return g.at + g.count;
    }
    return at;
}

static mf_status robust_reduce_cut(robust_reduce_work *w)
{
    const mf_robust_reduce *a = w->a;
    const mf_group *g = a->group;

    w->cuts = mf_calloc(g->size + 1, sizeof *w->cuts);
    if (!w->cuts)
        return MF_NOMEM("gradients");
    for (int r = 0; r <= g->size; r++) {
        const int64_t even = mf_group_cut(g, a->count, r);

        w->cuts[r] =
            a->aggregation->how == MF_AGGREGATE_ADASUM ? robust_reduce_whole(a, even) : even;
    }
    w->lo = w->cuts[g->rank];
    w->hi = w->cuts[g->rank + 1];
    return MF_OK;
}

static mf_status work_init(robust_reduce_work *w)
{
    const mf_robust_reduce *a = w->a;
    const mf_group *g = a->group;

    MF_TRY(robust_reduce_cut(w));
    w->cell = mf_dtype_cell(a->dtype);
    w->sizes = mf_calloc((int64_t)g->size * g->size, sizeof *w->sizes);
    w->ours = mf_calloc(mf_shard_owners_grains(a->shares, g->rank) * a->count, w->cell);
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

        const mf_reduction_tree_node shard = a->shares->grains[s]; /* in the received order: rank by
                                                                      rank */

        w->shards[shard.lo] =
            (mf_reduction_tree_part){ shard, w->slice + (size_t)(s * (w->hi - w->lo)) * w->cell };
        w->factor[s] = a->means ? 1.0 : (double)a->shares->samples / (double)n;
    }
    return MF_OK;
}

static mf_status exchange_slices(robust_reduce_work *w)
{
    const mf_robust_reduce *a = w->a;
    mf_group *g = a->group;
    char *to = w->ours;

    for (int r = 0; r < g->size; r++) {
        const int64_t lo = w->cuts[r], n = w->cuts[r + 1] - lo;

        for (int q = 0; q < g->size; q++)
            w->sizes[q * g->size + r] = mf_shard_owners_grains(a->shares, q) * n * (int64_t)w->cell;
        for (int p = 0; p < mf_shard_owners_grains(a->shares, g->rank);
             p++, to += (size_t)n * w->cell)
            memcpy(to, (const char *)a->shards[p] + (size_t)lo * w->cell, (size_t)n * w->cell);
    }
    return mf_all_to_all(g, &a->call, w->ours, w->sizes, w->slice);
}

/* Where in w->slice shard s is. */
static ptrdiff_t robust_reduce_offset_of(const robust_reduce_work *w, int64_t s)
{
    return (const char *)w->shards[s].data - w->slice;
}

/* Elements [from, to) of the vector, of a gradient: w->at has them by shard. */
static mf_status aggregate_gradient(robust_reduce_work *w, int64_t from, int64_t to)
{
    const int64_t n = w->a->shares->leaves;
    float *out = (float *)(void *)w->result + (from - w->lo);

    if (w->a->aggregation->how != MF_AGGREGATE_ADASUM)
        return mf_aggregate_robust(w->a->aggregation, (const float *const *)w->at, w->factor, n,
                                   to - from, out);
    mf_aggregate_adasum(w->at, w->factor, n, to - from);
    memcpy(out, w->at[0], (size_t)(to - from) * sizeof *out);
    return MF_OK;
}

static mf_status robust_reduce_aggregate(robust_reduce_work *w)
{
    const mf_robust_reduce *a = w->a;
    const int64_t n = a->shares->leaves;

    MF_TRY(mf_reduction_tree_sum(n, (mf_reduction_tree_node){ 0, n }, w->shards, (int)n, a->dtype,
                                 w->hi - w->lo, w->result));
    for (int i = 0; i < a->n_gradients; i++) {
        const mf_robust_reduce_item g = a->gradients[i];
        const int64_t from = g.at > w->lo ? g.at : w->lo;
        const int64_t to = g.at + g.count < w->hi ? g.at + g.count : w->hi;

        if (from >= to)
            continue;
        for (int64_t s = 0; s < n; s++)
            w->at[s] = (float *)(void *)(w->slice + robust_reduce_offset_of(w, s)) + (from - w->lo);
        MF_TRY(aggregate_gradient(w, from, to));
    }
    return MF_OK;
}

static mf_status gather_slices(robust_reduce_work *w)
{
    const mf_robust_reduce *a = w->a;
    mf_group *g = a->group;

    for (int r = 0; r < g->size; r++)
        w->sizes[r] = (w->cuts[r + 1] - w->cuts[r]) * (int64_t)w->cell;
    return mf_all_gather(g, &(mf_gather){ a->call, w->result, w->sizes, a->out });
}

mf_status mf_robust_reduce_reduce(const mf_robust_reduce *a)
{
    robust_reduce_work w = { .a = a };
    mf_status st = work_init(&w);

    if (st == MF_OK)
        st = exchange_slices(&w);
    if (st == MF_OK)
        st = robust_reduce_aggregate(&w);
    if (st == MF_OK)
        st = gather_slices(&w);
    work_deinit(&w);
    return st;
}
