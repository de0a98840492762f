/* SPDX-License-Identifier: Apache-2.0 */
/* load_balance.h - which shards the workers of a synchronous job take, as their speeds show. */
#ifndef MF_DIST_DATA_PARALLEL_LOAD_BALANCE_H
#define MF_DIST_DATA_PARALLEL_LOAD_BALANCE_H

#include "dist/data_parallel/shard_assignment.h"
#include "train/loop/dist.h"

typedef struct mf_balance {
    int64_t grain; /* shards that must stay together */
    mf_share *shares; /* by rank */
    int *order; /* ranks, in the order of their shards */
    double *speed; /* by rank, as seen last: shards by second */
    bool moves; /* speeds are measured during training */
    /* of this worker, since the last check */
    int64_t steps, ns;
    int64_t pause; /* steps between two checks */
} mf_balance;

/* Shards are assigned by the workers' threads. moves: and later by their speeds. Collective, all
 * workers at once. Owns: mf_balance_deinit(), also after a failure. */
MF_MUST mf_status mf_balance_init(mf_balance *b, mf_dist *dist, int64_t shards, int64_t grain,
                                  int threads, bool moves);
void mf_balance_deinit(mf_balance *b);

/* near: how much of each shard's data this worker has. From the next step on it has as many shards
 * as before, chosen so that workers read as much local data as possible. Collective. */
MF_MUST mf_status mf_balance_near(mf_balance *b, mf_dist *dist, const double *near);

/* A step is done, and this worker computed its part in so many nanoseconds. *changed: from the next
 * step on it has other shards: dist->shards. Collective in some steps, the same for all. */
MF_MUST mf_status mf_balance_step(mf_balance *b, mf_dist *dist, int64_t step, int64_t ns,
                                  bool *changed);

#endif
