/* SPDX-License-Identifier: Apache-2.0 */
/* load_balance.h - which shards the workers of a synchronous job take, as their speeds show. */
#ifndef MF_DIST_DATA_PARALLEL_LOAD_BALANCE_H
#define MF_DIST_DATA_PARALLEL_LOAD_BALANCE_H

#include "dist/data_parallel/shard_assignment.h"
#include "train/loop/dist.h"

typedef struct mf_balance {
    int64_t grain; /* shards that must stay together */
    mf_share *shares; /* by rank */
    int *order; /* ranks, as their shards follow each other */
    double *speed; /* by rank, as seen last: shards by second */
    bool moves; /* speeds are looked at while training goes on */
    /* of this worker, since the last look */
    int64_t steps, ns;
    int64_t pause; /* steps between two looks */
} mf_balance;

/* Shards are dealt out by the workers' threads. moves: and later by their speeds. Collective, all
 * workers of the team at once. Owns: mf_balance_deinit(), also after a failure. */
MF_MUST mf_status mf_balance_init(mf_balance *b, mf_dist *dist, int64_t shards, int64_t grain,
                                  int threads, bool moves);
void mf_balance_deinit(mf_balance *b);

/* This worker has so much of each shard's data near: from the next step on it has as many shards as
 * before, but such that most is near to all. Collective. */
MF_MUST mf_status mf_balance_near(mf_balance *b, mf_dist *dist, const double *near);

/* A step was done, and this worker took so long to compute its part of it. *changed: from the next
 * step on it has other shards, as the team says. Collective in some steps, the same for all. */
MF_MUST mf_status mf_balance_step(mf_balance *b, mf_dist *dist, int64_t step, int64_t ns,
                                  bool *changed);

#endif
