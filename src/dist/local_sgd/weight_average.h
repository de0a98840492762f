/* SPDX-License-Identifier: Apache-2.0 */
/* weight_average.h - the mean of variables that several have, each its own. */
#ifndef MF_DIST_LOCAL_SGD_WEIGHT_AVERAGE_H
#define MF_DIST_LOCAL_SGD_WEIGHT_AVERAGE_H

#include "collective/group.h"
#include "dist/data_parallel/shard_assignment.h"
#include "tensor/tensor.h"

/* The number of values averaged: the leaves of the tree in which they are added. */
typedef struct mf_average_of {
    int64_t leaves;
    const double *weights; /* by leaf: counts, for example */
    const mf_share *of; /* by rank: the leaves whose values it contributes, in the order of ranks;
                           each leaf has one contributor */
    const mf_tensor *const *values; /* by leaf of this worker: n tensors */
    int64_t n;
    mf_tensor *means; /* n, allocated: floats or doubles, like the values; not shared */
} mf_average_of;

/* Every mean becomes that of all leaves, weighted, on all members. Sums are of doubles, in the tree
 * over the leaves, so a value that all leaves share does not change a bit, and the result does not
 * depend on the contributors. Weights that are all 0 leave the means unchanged. Collective: with
 * the same leaves, weights and shapes on all members. */
MF_MUST mf_status mf_average(mf_group *group, const mf_collective *call, const mf_average_of *a);

#endif
