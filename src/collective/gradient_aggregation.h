/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_aggregation.h - how the gradients of all shards are combined.
 *
 * A shard contributes the sum of its samples' gradients, divided by the number of samples of the
 * batch: the sum over all shards is the mean over all samples. Trimmed mean and median use the mean
 * gradient of each shard, elementwise, so outliers among the shards do not affect the result.
 * Adasum uses the directions of these means, gradient by gradient. The unit is the shard, not the
 * worker: the result depends on the number of shards, not on the number of workers. */
#ifndef MF_COLLECTIVE_GRADIENT_AGGREGATION_H
#define MF_COLLECTIVE_GRADIENT_AGGREGATION_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum mf_aggregate {
    MF_AGGREGATE_MEAN, /* over all samples */
    MF_AGGREGATE_SUM, /* of the shards' means, weighted by their samples: the mean times the number
                         of
                         shards, a power of two, so the order of multiplications does not matter */
    MF_AGGREGATE_WEIGHTED, /* of the means over each member's samples, weighted by member */
    MF_AGGREGATE_TRIMMED_MEAN, /* without the largest and the smallest values */
    MF_AGGREGATE_MEDIAN,
    MF_AGGREGATE_ADASUM, /* pairwise: orthogonal components are added, parallel ones are averaged */
} mf_aggregate;

typedef struct mf_aggregation {
    mf_aggregate how;
    double trim; /* fraction of the shards removed at each end; below 0.5 */
    const double *weights; /* by rank */
} mf_aggregation;

/* "median", and the inverse. Returns false for an unknown name. */
const char *mf_aggregate_name(mf_aggregate how);
bool mf_aggregate_find(const char *name, mf_aggregate *out);

/* Does it need the gradient of each shard separately? */
static inline bool mf_aggregate_is_apart(mf_aggregate how)
{
    return how == MF_AGGREGATE_TRIMMED_MEAN || how == MF_AGGREGATE_MEDIAN ||
           how == MF_AGGREGATE_ADASUM;
}

/* The factor for a member's gradients: it has n[rank] of the samples of the batch. */
double mf_aggregate_factor(const mf_aggregation *a, const int64_t *n, int size, int rank);

/* out[i] = trimmed mean or median of x[s][i] * factor[s] over all s below n. NaN counts as larger
 * than all numbers. Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_aggregate_robust(const mf_aggregation *a, const float *const *x,
                                      const double *factor, int64_t n, int64_t count, float *out);

/* Combines the complete gradients x[s] * factor[s] over all s below n, in the tree of
 * tensor/reduction_tree.h, where two siblings become
 *
 *     (1 - a.b / (2 a.a)) a + (1 - a.b / (2 b.b)) b
 *
 * and a zero gradient leaves the other unchanged. Products are sums of doubles in a fixed order,
 * elements are floats. x is overwritten; the result is x[0]. */
void mf_aggregate_adasum(float *const *x, const double *factor, int64_t n, int64_t count);

#endif
