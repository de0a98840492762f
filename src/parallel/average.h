/* SPDX-License-Identifier: Apache-2.0 */
/* average.h - the mean of the variables of all members of a group. */
#ifndef MF_PARALLEL_AVERAGE_H
#define MF_PARALLEL_AVERAGE_H

#include "comm/group.h"
#include "graph/resource.h"

/* Every variable becomes the mean of those of all members, weighted: weights[rank] are counts.
 * Sums are made of doubles, in the tree over the ranks, so that what all members have in common
 * stays as it is, to the bit. Variables that are not of floats are left alone.
 * Collective: with the same variables and weights on all members. */
MF_MUST mf_status mf_average(mf_group *group, const mf_collective *call, const int64_t *weights,
                             mf_variable *const *variables, int64_t n);

#endif
