/* SPDX-License-Identifier: Apache-2.0 */
/* step_exchange.h - exchange of values between the workers of a job during a step.
 *
 * A training step maps a function over the shards of a batch (_ShardMap). With an exchange, this
 * process computes only some of the shards; their sums are exchanged in buckets, and the results
 * replace the sums over all shards of the job. Ops do not know whether gradients are all-reduced or
 * weights are pulled from a parameter server; the exchange does (dist/). */
#ifndef MF_GRAPH_STEP_EXCHANGE_H
#define MF_GRAPH_STEP_EXCHANGE_H

#include "graph/op.h"

/* Values that are exchanged together. */
typedef struct mf_exchange_bucket {
    int64_t id; /* 0, 1, ...: equal on all workers, in the order of the exchange */
    bool concat; /* concatenate the rows of all workers instead of adding */
    int n_parts; /* partial sums computed by this worker; 0: it had no samples */
    const int64_t *parts; /* two per partial sum: its first shard, and the end of its range */
    int n_items; /* values per partial sum */
    const mf_shape *shapes; /* of the items; for rows the first dimension is unknown */
    const int64_t *types; /* mf_dtype of the items */
    const char *const *names; /* of the items: the weight of this gradient, or "" */
} mf_exchange_bucket;

typedef struct mf_exchange mf_exchange;

typedef struct mf_exchange_kind {
    /* values: one partial sum after the other. They must be copied or sent before this returns.
     * Thread: any, one at a time; buckets are in any order. */
    mf_status (*begin)(mf_exchange *x, const mf_exchange_bucket *bucket,
                       const mf_tensor *const *values);
    /* Set the kernel's outputs, one per item, and call mf_kernel_done() when all results have
     * arrived: immediately or later, from any thread. */
    void (*end)(mf_exchange *x, const mf_exchange_bucket *bucket, mf_kernel *k);
} mf_exchange_kind;

struct mf_exchange {
    const mf_exchange_kind *kind;
    int64_t first, count; /* the shards computed by this worker */
    int64_t grain; /* maximum number of shards per partial sum, a power of two; 0: no maximum */
};

#endif
