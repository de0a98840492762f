/* SPDX-License-Identifier: Apache-2.0 */
/* ps_robust_reduce.c - a parameter server aggregates gradients of shards individually: trimmed
 * mean, median and Adasum. Workers push the gradients of their shards without adding them, so a
 * push has one part for each shard. */
#include "base/mem.h"
#include "dist/param_server/ps_server.h"
#include "graph/shard.h"

#include <string.h>

int mf_ps_most_parts(const server *s)
{
    return mf_aggregate_is_apart(s->o.mode.aggregation.how) ? MF_REDUCTION_TREE_LEAVES
                                                            : MF_REDUCTION_TREE_PARTS;
}

static mf_status ps_robust_reduce_refuse(const mf_ps_push *head)
{
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "the pushes of step %lld are not one gradient of each shard",
                   (long long)head->step);
}

static mf_status ps_robust_reduce_place(mf_ps_shards *x, const server *s, const push *p)
{
    for (int64_t i = 0; i < p->head.n_parts; i++) {
        mf_reduction_tree_node node;

        memcpy(&node, &p->parts[i], sizeof node); /* of a message: at any address */
        if (node.lo < 0 || node.lo >= x->n || node.hi != node.lo + 1 || x->dense[node.lo])
            return ps_robust_reduce_refuse(&p->head);
        x->dense[node.lo] = p->dense + i * s->dense;
    }
    return MF_OK;
}

mf_status mf_ps_shards_init(mf_ps_shards *x, const server *s, const push *const *all, int n_all)
{
    const mf_ps_push *head = &all[0]->head;
    const int64_t shards = s->t->options.shards;

    *x = (mf_ps_shards){ .aggregation = &s->o.mode.aggregation, .n = head->leaves };
    x->dense = mf_calloc(x->n, sizeof *x->dense);
    x->factor = mf_calloc(x->n, sizeof *x->factor);
    x->at = mf_calloc(x->n, sizeof *x->at);
    if (!x->dense || !x->factor || !x->at)
        return MF_NOMEM("gradients");
    for (int i = 0; i < n_all; i++) {
        if (all[i]->head.samples != head->samples)
            return ps_robust_reduce_refuse(head);
        MF_TRY(ps_robust_reduce_place(x, s, all[i]));
    }
    for (int64_t k = 0; k < x->n; k++) {
        const int64_t n =
            mf_shard_begin(head->samples, shards, k + 1) - mf_shard_begin(head->samples, shards, k);

        if (!x->dense[k] || n < 1)
            return ps_robust_reduce_refuse(head);
        x->factor[k] = (double)head->samples / (double)n;
    }
    return MF_OK;
}

void mf_ps_shards_deinit(mf_ps_shards *x)
{
    mf_free(x->dense);
    mf_free(x->factor);
    mf_free(x->at);
}

/* Adasum works in place, and pushes lie in memory that workers share. */
static mf_status ps_robust_reduce_adasum(const mf_ps_shards *x, int64_t count, float *out)
{
    float *copies = mf_calloc(x->n * count, sizeof *copies);
    float **at = mf_calloc(x->n, sizeof *at);
    const mf_status st = copies && at ? MF_OK : MF_NOMEM("gradients");

    for (int64_t k = 0; st == MF_OK && k < x->n; k++) {
        at[k] = copies + k * count;
        memcpy(at[k], x->at[k], (size_t)count * sizeof *copies);
    }
    if (st == MF_OK) {
        mf_aggregate_adasum(at, x->factor, x->n, count);
        memcpy(out, at[0], (size_t)count * sizeof *out);
    }
    mf_free(at);
    mf_free(copies);
    return st;
}

mf_status mf_ps_shards_aggregate(const mf_ps_shards *x, int64_t at, int64_t n, float *out)
{
    for (int64_t k = 0; k < x->n; k++)
        x->at[k] = x->dense[k] + at;
    if (x->aggregation->how == MF_AGGREGATE_ADASUM)
        return ps_robust_reduce_adasum(x, n, out);
    return mf_aggregate_robust(x->aggregation, x->at, x->factor, x->n, n, out);
}
