/* SPDX-License-Identifier: Apache-2.0 */
/* shard_assignment.h - which shards of a batch each worker has: how many, by its threads and by its
 * measured speed; which, by data locality. No result depends on the assignment. */
#ifndef MF_DIST_DATA_PARALLEL_SHARD_ASSIGNMENT_H
#define MF_DIST_DATA_PARALLEL_SHARD_ASSIGNMENT_H

#include <stdint.h>

/* Neighbouring shards. */
typedef struct mf_share {
    int64_t first, n;
} mf_share;

/* shares, by rank: all shards, in complete grains, so that the slowest rank finishes as early as
 * possible. Every rank has at least one grain if there are enough. speed: in any unit, by rank,
 * above 0; equal speeds give equal shares, within one grain. order: the ranks, from the first
 * shards to the last. */
void mf_shard_assign(int64_t shards, int64_t grain, int ranks, const double *speed,
                     const int *order, mf_share *shares);

/* The time of the slowest rank: shards divided by speed. */
double mf_shard_assign_time(int ranks, const double *speed, const mf_share *shares);

/* Reorder the ranks so that shares of these sizes have more local data; without a gain the order
 * does not change. near[rank * shards + shard]: how much of a shard's data the rank has, not
 * negative. Returns the amount of local data in the end. */
double mf_shard_assign_near(int64_t shards, int ranks, const double *near, const mf_share *shares,
                            int *order);

#endif
