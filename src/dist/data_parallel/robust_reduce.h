/* SPDX-License-Identifier: Apache-2.0 */
/* robust_reduce.h - vectors of all shards of which gradients are looked at one by one: every member
 * makes a slice of the result out of that slice of all shards, and all get all slices. Slices are
 * equally long, but for Adasum, which needs whole gradients: there they end between two. */
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
    const mf_robust_reduce_item *gradients; /* floats; all else is summed in the tree */
    int n_gradients;
    const void *const *shards; /* ours */
    bool means; /* gradients are means already; else a shard's share of the batch's mean */
    void *out; /* a vector */
} mf_robust_reduce;

MF_MUST mf_status mf_robust_reduce_reduce(const mf_robust_reduce *a);

#endif
