/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_aggregation.h - what becomes of the gradients of all shards.
 *
 * A shard gives the sum of its samples' gradients, divided by the samples of the whole batch: the
 * sum over all shards is the mean over all samples. Trimmed mean and median look at the mean
 * gradient of each shard instead, element by element, so that some shards may be far out without
 * showing in the result. Adasum looks at the directions of these means, gradient by gradient. The
 * unit is the shard and not the worker: what comes out depends on how many shards there are, not on
 * how many workers. */
#ifndef MF_COLLECTIVE_GRADIENT_AGGREGATION_H
#define MF_COLLECTIVE_GRADIENT_AGGREGATION_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum mf_aggregate {
    MF_AGGREGATE_MEAN, /* over all samples */
    MF_AGGREGATE_SUM, /* of the shards' means, each counted by its samples: the mean times the
                         number of shards, which is a power of two, so it does not matter when it is
                         multiplied */
    MF_AGGREGATE_WEIGHTED, /* of the means over each member's samples, with weights by member */
    MF_AGGREGATE_TRIMMED_MEAN, /* without the largest and the smallest */
    MF_AGGREGATE_MEDIAN,
    MF_AGGREGATE_ADASUM, /* two by two: what is orthogonal adds up, what is parallel is averaged */
} mf_aggregate;

typedef struct mf_aggregation {
    mf_aggregate how;
    double trim; /* this fraction of the shards is left out, at each end; below 0.5 */
    const double *weights; /* by rank */
} mf_aggregation;

/* "median"; and back. False: there is no such name. */
const char *mf_aggregate_name(mf_aggregate how);
bool mf_aggregate_find(const char *name, mf_aggregate *out);

/* Does it need the gradients of all shards one by one? */
static inline bool mf_aggregate_is_apart(mf_aggregate how)
{
    return how == MF_AGGREGATE_TRIMMED_MEAN || how == MF_AGGREGATE_MEDIAN ||
           how == MF_AGGREGATE_ADASUM;
}

/* By what a member multiplies its gradients: it has n[rank] of all samples of the batch. */
double mf_aggregate_factor(const mf_aggregation *a, const int64_t *n, int size, int rank);

/* out[i] = of x[s][i] * factor[s] over all s below n: the trimmed mean or median. What is no number
 * counts as larger than all numbers. Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_aggregate_robust(const mf_aggregation *a, const float *const *x,
                                      const double *factor, int64_t n, int64_t count, float *out);

/* Of the whole gradients x[s] * factor[s] over all s below n, in the tree of
 * tensor/reduction_tree.h, where two siblings become
 *
 *     (1 - a.b / (2 a.a)) a + (1 - a.b / (2 b.b)) b
 *
 * and a gradient of zeros leaves the other as it is. Products are sums of doubles in one order,
 * elements are floats. x is used up; the result is x[0]. */
void mf_aggregate_adasum(float *const *x, const double *factor, int64_t n, int64_t count);

#endif
