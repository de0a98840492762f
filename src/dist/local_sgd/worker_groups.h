/* SPDX-License-Identifier: Apache-2.0 */
/* worker_groups.h - the groups of a job, and which worker computes what for which group.
 *
 * A group has a part of every batch, some neighbouring shards, and between two averages its own
 * variables. It is to averages what a shard is to sums: the number of groups is fixed, and no
 * result depends on the number of workers or on which of them has a group. Groups that have
 * converged do not count as active.
 *
 * With fewer workers than groups a worker has complete neighbouring groups; with more, a group has
 * several neighbouring workers. Only this file knows the rule. */
#ifndef MF_DIST_LOCAL_SGD_WORKER_GROUPS_H
#define MF_DIST_LOCAL_SGD_WORKER_GROUPS_H

#include "dist/data_parallel/shard_assignment.h"
#include "train/step/trainer.h"

typedef struct mf_worker_groups {
    int n; /* that there were at first */
    int64_t shards; /* of a batch; at least the number of groups */
    int workers;
    int active[MF_MOST_GROUPS]; /* the groups that train, ascending: a place in it is a group's
                                   place */
    int n_active;
} mf_worker_groups;

/* left_at[g]: the step after which group g ended; 0: it trains. */
void mf_worker_groups_assign(mf_worker_groups *g, int n, int64_t shards, int workers,
                             const int64_t *left_at);

/* The shards of every batch that a group has. */
static inline mf_share mf_worker_groups_shards(const mf_worker_groups *g, int group)
{
    const int64_t first = mf_shard_of_group(g->shards, g->n, group);

    return (mf_share){ first, mf_shard_of_group(g->shards, g->n, group + 1) - first };
}
/* Its samples of a batch of this size. */
mf_share mf_worker_groups_samples(const mf_worker_groups *g, int group, int64_t samples);

/* Places of the groups that a worker computes; or one place, which it may share with other workers.
 */
mf_share mf_worker_groups_places(const mf_worker_groups *g, int worker);
/* The workers of the group at a place. */
mf_share mf_worker_groups_workers(const mf_worker_groups *g, int place);
/* Is it the one of its group's workers that speaks for it? */
static inline bool mf_worker_groups_speaks(const mf_worker_groups *g, int worker)
{
    return mf_worker_groups_workers(g, (int)mf_worker_groups_places(g, worker).first).first ==
           worker;
}
/* All shards from a worker's first to its last; some between them may belong to ended groups. */
mf_share mf_worker_groups_reads(const mf_worker_groups *g, int worker);

#endif
