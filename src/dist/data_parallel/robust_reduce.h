/* SPDX-License-Identifier: Apache-2.0 */
/* robust_reduce.h - vectors of all shards, whose gradients are combined one by one: every member
 * computes a slice of the result from that slice of all shards, and all members get all slices.
 * Slices have equal length, except for Adasum, which needs complete gradients: there slices end
 * between two gradients. */
#ifndef MF_DIST_DATA_PARALLEL_ROBUST_REDUCE_H
#define MF_DIST_DATA_PARALLEL_ROBUST_REDUCE_H

#include "collective/gradient_aggregation.h"
#include "dist/data_parallel/shard_owners.h"

typedef struct mf_robust_reduce_item {
    int64_t at, count; /* elements of the vector */
} mf_robust_reduce_item;

typedef struct mf_robust_reduce {
    mf_group *group;
    mf_collective call;
    const mf_aggregation *aggregation;
    const mf_shard_owners *shares; /* of grain 1 */
    mf_dtype dtype;
    int64_t count; /* elements of a shard's vector */
    const mf_robust_reduce_item *gradients; /* floats; everything else is summed in the tree */
    int n_gradients;
    const void *const *shards; /* this worker's */
    bool means; /* gradients are means already; otherwise a shard's share of the batch's mean */
    void *out; /* a vector */
} mf_robust_reduce;

MF_MUST mf_status mf_robust_reduce_reduce(const mf_robust_reduce *a);

#endif
