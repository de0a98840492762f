/* SPDX-License-Identifier: Apache-2.0 */
/* worker_groups.h - which groups of a job there are, and which worker does what for which of them.
 *
 * A group has a part of every batch, some neighbouring shards, and between two averages variables
 * of its own. It is to averages what a shard is to sums: how many there are is fixed, and neither
 * how many workers there are nor who of them has a group shows in a result. Groups that have left
 * (converged) are not counted among those that train.
 *
 * With fewer workers than groups a worker has whole groups, neighbours; with more, a group has
 * several workers, neighbours too. No file but this one knows how. */
#ifndef MF_DIST_LOCAL_SGD_WORKER_GROUPS_H
#define MF_DIST_LOCAL_SGD_WORKER_GROUPS_H

#include "dist/data_parallel/shard_assignment.h"
#include "train/step/trainer.h"

typedef struct mf_worker_groups {
    int n; /* that there were at first */
    int64_t shards; /* of a batch; as many as groups, or more */
    int workers;
    int active[MF_MOST_GROUPS]; /* those that train, ascending: a place in it is a group's place */
    int n_active;
} mf_worker_groups;

/* left_at[g]: the step after which group g has left; 0: it is there. */
void mf_worker_groups_assign(mf_worker_groups *g, int n, int64_t shards, int workers,
                             const int64_t *left_at);

/* The shards of every batch that a group has. */
static inline mf_share mf_worker_groups_shards(const mf_worker_groups *g, int group)
{
    const int64_t first = mf_shard_of_group(g->shards, g->n, group);

    return (mf_share){ first, mf_shard_of_group(g->shards, g->n, group + 1) - first };
}
/* Its samples of a batch of so many. */
mf_share mf_worker_groups_samples(const mf_worker_groups *g, int group, int64_t samples);

/* Places of the groups that a worker does; one, which others may do with it. */
mf_share mf_worker_groups_places(const mf_worker_groups *g, int worker);
/* The workers of the group at a place. */
mf_share mf_worker_groups_workers(const mf_worker_groups *g, int place);
/* Is it the one of its group's workers that speaks for it? */
static inline bool mf_worker_groups_speaks(const mf_worker_groups *g, int worker)
{
    return mf_worker_groups_workers(g, (int)mf_worker_groups_places(g, worker).first).first ==
           worker;
}
/* All shards from a worker's first to its last: between them may be some of groups that have left.
 */
mf_share mf_worker_groups_reads(const mf_worker_groups *g, int worker);

#endif
