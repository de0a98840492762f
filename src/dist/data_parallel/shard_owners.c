/* SPDX-License-Identifier: Apache-2.0 */
/* shard_owners.c - the table of which worker owns which shards, and sums over shards in the
 * reduction tree. */
#include "dist/data_parallel/shard_owners.h"

#include "base/mem.h"
#include "graph/shard.h"

#include <string.h>

static void sort_ranks(mf_shard_owners *s)
{
    for (int r = 0; r < s->ranks; r++) {
        int at = r;

        for (; at > 0 && s->of[s->order[at - 1]].first > s->of[r].first; at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = r;
    }
}

mf_status mf_shard_owners_init(mf_shard_owners *s, int ranks, int64_t shards, int64_t grain,
                               const mf_share *of)
{
    int64_t room = 0;

    *s = (mf_shard_owners){ .ranks = ranks, .shards = shards, .grain = grain };
    for (int r = 0; r < ranks; r++)
        room += mf_reduction_tree_room(of[r].n, grain);
    s->of = mf_calloc(ranks, sizeof *s->of);
    s->order = mf_calloc(ranks, sizeof *s->order);
    s->branches = mf_calloc(ranks, sizeof *s->branches);
    s->parts = mf_calloc(ranks, sizeof *s->parts);
    s->n_parts = mf_calloc(ranks, sizeof *s->n_parts);
    s->grains = mf_calloc(room, sizeof *s->grains);
    s->first_grain = mf_calloc(ranks + 1, sizeof *s->first_grain);
    if (!s->of || !s->order || !s->branches || !s->parts || !s->n_parts || !s->grains ||
        !s->first_grain)
        return MF_NOMEM("shards");
    memcpy(s->of, of, (size_t)ranks * sizeof *of);
    sort_ranks(s);
    return MF_OK;
}

void mf_shard_owners_deinit(mf_shard_owners *s)
{
    mf_free(s->of);
    mf_free(s->order);
    mf_free(s->branches);
    mf_free(s->parts);
    mf_free(s->n_parts);
    mf_free(s->grains);
    mf_free(s->first_grain);
}

void mf_shard_owners_set(mf_shard_owners *s, int64_t samples)
{
    if (samples == s->samples)
        return;
    s->samples = samples;
    s->leaves = samples < s->shards ? samples : s->shards;
    for (int r = 0; r < s->ranks; r++) {
        const int64_t lo = s->of[r].first, n = s->of[r].n;
        const int64_t own =
            mf_shard_begin(samples, s->shards, lo + n) - mf_shard_begin(samples, s->shards, lo);

        s->n_parts[r] = mf_reduction_tree_share(s->shards, lo, n, own, 0, s->branches[r]);
        s->parts[r] = s->branches[r];
        s->first_grain[r + 1] =
            s->first_grain[r] +
            mf_reduction_tree_share(s->shards, lo, n, own, s->grain, s->grains + s->first_grain[r]);
    }
}

mf_status mf_shard_owners_reserve(mf_tensor *t, mf_dtype dtype, int64_t count)
{
    if (t->buffer && t->dtype == dtype && t->count == count && mf_buffer_is_sole(t->buffer))
        return MF_OK;
    mf_tensor_clear(t);
    return mf_tensor_alloc(t, dtype, &MF_SHAPE(count));
}

/* ---- sums ---- */

typedef struct own {
    const mf_shard_owners *s;
    int rank;
    const void *const *grains;
    mf_dtype dtype;
    int64_t count;
} own;

/* This worker's grains of a branch: *data, if it is one grain; otherwise their sum, in *data. */
static mf_status add_branch(const own *o, mf_reduction_tree_node branch,
                            mf_reduction_tree_part *parts, void *room, const void **data)
{
    const mf_reduction_tree_node *nodes = o->s->grains + o->s->first_grain[o->rank];
    int n = 0;

    for (int i = 0; i < mf_shard_owners_grains(o->s, o->rank); i++) {
        if (nodes[i].lo >= branch.lo && nodes[i].hi <= branch.hi)
            parts[n++] = (mf_reduction_tree_part){ nodes[i], o->grains[i] };
    }
    *data = n == 1 ? parts[0].data : room;
    if (n == 1)
        return MF_OK;
    return mf_reduction_tree_sum(o->s->leaves, branch, parts, n, o->dtype, o->count, room);
}

static mf_status add_branches(const own *o, mf_tensor *scratch, const void **data)
{
    const int n = o->s->n_parts[o->rank];
    const size_t bytes = (size_t)o->count * mf_dtype_cell(o->dtype);
    mf_reduction_tree_part *parts;
    mf_status st;

    MF_TRY(mf_shard_owners_reserve(scratch, o->dtype, o->count * (n > 0 ? n : 1)));
    parts = mf_calloc(mf_shard_owners_grains(o->s, o->rank), sizeof *parts);
    st = parts ? MF_OK : MF_NOMEM("a sum");
    for (int i = 0; st == MF_OK && i < n; i++)
        st = add_branch(o, o->s->branches[o->rank][i], parts,
                        (char *)scratch->data + (size_t)i * bytes, &data[i]);
    mf_free(parts);
    return st;
}

static mf_status reduce_to_first(mf_group *group, const mf_reduce *r)
{
    int64_t *from = mf_calloc(group->size + 1, sizeof *from);
    mf_status st;

    if (!from)
        return MF_NOMEM("a sum");
    for (int i = 1; i <= group->size; i++)
        from[i] = r->count;
    st = mf_reduce_scatter(group, r, from);
    mf_free(from);
    return st;
}

mf_status mf_shard_owners_sum(const mf_shard_owners *s, mf_group *group, const mf_collective *call,
                              const void *const *grains, mf_dtype dtype, int64_t count,
                              mf_tensor *scratch, bool to_first, void *out)
{
    const own o = { s, group->rank, grains, dtype, count };
    const void *data[MF_REDUCTION_TREE_PARTS];
    const mf_reduce r = { .call = *call,
                          .leaves = s->leaves,
                          .parts = s->parts,
                          .n_parts = s->n_parts,
                          .data = s->grain > 0 ? data : grains,
                          .dtype = dtype,
                          .count = count,
                          .out = out };

    if (count == 0)
        return MF_OK;
    if (s->grain > 0)
        MF_TRY(add_branches(&o, scratch, data));
    return to_first ? reduce_to_first(group, &r) : mf_all_reduce(group, &r);
}

mf_status mf_shard_owners_factor(const mf_aggregation *a, const mf_share *of, int size, int rank,
                                 int64_t shards, int64_t samples, float *out)
{
    int64_t *n;

    *out = a->how == MF_AGGREGATE_SUM ? (float)shards : 1.0f;
    if (a->how != MF_AGGREGATE_WEIGHTED)
        return MF_OK;
    n = mf_calloc(size, sizeof *n);
    if (!n)
        return MF_NOMEM("weights");
    for (int r = 0; r < size; r++)
        n[r] = mf_shard_begin(samples, shards, of[r].first + of[r].n) -
               mf_shard_begin(samples, shards, of[r].first);
    *out = (float)mf_aggregate_factor(a, n, size, rank);
    mf_free(n);
    return MF_OK;
}
