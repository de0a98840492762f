/* SPDX-License-Identifier: Apache-2.0 */
/* weight_average.h - the mean of variables that several have, each its own. */
#ifndef MF_DIST_LOCAL_SGD_WEIGHT_AVERAGE_H
#define MF_DIST_LOCAL_SGD_WEIGHT_AVERAGE_H

#include "collective/group.h"
#include "dist/data_parallel/shard_assignment.h"
#include "tensor/tensor.h"

/* Whose mean: so many, the leaves of the tree in which they are added. */
typedef struct mf_average_of {
    int64_t leaves;
    const double *weights; /* by leaf: counts, say */
    const mf_share *of; /* by rank: the leaves whose values it brings, in the order of the ranks;
                           each is brought by one */
    const mf_tensor *const *values; /* by leaf that we bring: n tensors */
    int64_t n;
    mf_tensor *means; /* n, allocated: floats or doubles, like the values; nobody else holds them */
} mf_average_of;

/* Every mean becomes that of all leaves, weighted, for all members. Sums are made of doubles, in
 * the tree over the leaves, so what all of them have in common stays as it is, to the bit, and who
 * brings which does not show. Weights that are all 0 leave the means alone.
 * Collective: with the same leaves, weights and shapes on all members. */
MF_MUST mf_status mf_average(mf_group *group, const mf_collective *call, const mf_average_of *a);

#endif
