/* SPDX-License-Identifier: Apache-2.0 */
/* shard_owners.h - which worker computes which shards of a step, and sums over their results. */
#ifndef MF_DIST_DATA_PARALLEL_SHARD_OWNERS_H
#define MF_DIST_DATA_PARALLEL_SHARD_OWNERS_H

#include "collective/gradient_aggregation.h"
#include "collective/group.h"
#include "dist/data_parallel/shard_assignment.h"
#include "tensor/tensor.h"

typedef struct mf_shard_owners {
    int ranks;
    int64_t shards; /* of a batch */
    int64_t grain; /* shards that are summed before they are sent; 0: as many as possible */
    mf_share *of; /* by rank */
    int *order; /* ranks, in the order of their shards */
    /* of the current step */
    int64_t samples, leaves;
    mf_reduction_tree_node (*branches)[MF_REDUCTION_TREE_PARTS]; /* by rank: the largest */
    const mf_reduction_tree_node **parts; /* the same, in the form of collectives */
    int *n_parts;
    mf_reduction_tree_node *grains; /* of all ranks, rank by rank: the grains */
    int *first_grain; /* by rank, and the end after the last rank */
} mf_shard_owners;

/* Owns: mf_shard_owners_deinit(), also after a failure. */
MF_MUST mf_status mf_shard_owners_init(mf_shard_owners *s, int ranks, int64_t shards, int64_t grain,
                                       const mf_share *of);
void mf_shard_owners_deinit(mf_shard_owners *s);

/* Steps have this number of samples from now on. */
void mf_shard_owners_set(mf_shard_owners *s, int64_t samples);

static inline int mf_shard_owners_grains(const mf_shard_owners *s, int rank)
{
    return s->first_grain[rank + 1] - s->first_grain[rank];
}
static inline int mf_shard_owners_all_grains(const mf_shard_owners *s)
{
    return s->first_grain[s->ranks];
}

/* The factor of member `rank`'s gradients in a step of so many samples in so many shards; of: by
 * rank, its shards. 1: none. Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_shard_owners_factor(const mf_aggregation *a, const mf_share *of, int size,
                                         int rank, int64_t shards, int64_t samples, float *out);

/* out[0..count) = the sum over all grains of all members of the group; grains: this worker's. Local
 * sums are made before anything is sent. scratch: reusable memory. to_first: only the first member
 * gets the sum. */
MF_MUST mf_status mf_shard_owners_sum(const mf_shard_owners *s, mf_group *group,
                                      const mf_collective *call, const void *const *grains,
                                      mf_dtype dtype, int64_t count, mf_tensor *scratch,
                                      bool to_first, void *out);

/* *t has memory for so many elements, which no other tensor shares. */
MF_MUST mf_status mf_shard_owners_reserve(mf_tensor *t, mf_dtype dtype, int64_t count);

#endif
