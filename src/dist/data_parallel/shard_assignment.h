/* SPDX-License-Identifier: Apache-2.0 */
/* shard_assignment.h - which shards of a batch each worker takes: how many, by what it can do and
 * by how fast it was seen to be; which, by what it has near. Who computes a shard shows in no
 * result. */
#ifndef MF_DIST_DATA_PARALLEL_SHARD_ASSIGNMENT_H
#define MF_DIST_DATA_PARALLEL_SHARD_ASSIGNMENT_H

#include <stdint.h>

/* Neighbouring shards. */
typedef struct mf_share {
    int64_t first, n;
} mf_share;

/* shares, by rank: all shards, in whole grains, so that whoever takes longest is done as early as
 * possible. Everybody gets something where there is enough. speed: in any unit, by rank, above 0;
 * equal ones get equally many, give or take a grain. order: the ranks from the one that takes the
 * first shards to the one that takes the last. */
void mf_shard_assign(int64_t shards, int64_t grain, int ranks, const double *speed,
                     const int *order, mf_share *shares);

/* How long the one takes that takes longest: shards by speed. */
double mf_shard_assign_time(int ranks, const double *speed, const mf_share *shares);

/* Changes the order of ranks so that with shares of these sizes they take shards that are near to
 * them; where nothing is gained it stays as it is. near[rank * shards + shard]: how much of a
 * shard's data the rank has near, not negative. Returns how much that is in the end. */
double mf_shard_assign_near(int64_t shards, int ranks, const double *near, const mf_share *shares,
                            int *order);

#endif
