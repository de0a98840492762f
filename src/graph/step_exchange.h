/* SPDX-License-Identifier: Apache-2.0 */
/* step_exchange.h - what a step gives to the other workers of its job and gets from them.
 *
 * A training step is a function mapped over the shards of a batch (_ShardMap). Where an exchange is
 * set, this process computes some of the shards only; their sums go through the exchange, in
 * buckets, and what comes back stands for the sum over all shards of the job. Ops know nothing
 * else: whether gradients are summed by all-reduce or weights come from a parameter server is the
 * exchange's business (parallel/). */
#ifndef MF_GRAPH_STEP_EXCHANGE_H
#define MF_GRAPH_STEP_EXCHANGE_H

#include "graph/op.h"

/* Values that travel together. */
typedef struct mf_exchange_bucket {
    int64_t id; /* 0, 1, ...: the same on all workers, in the order in which they are exchanged */
    bool concat; /* rows of all workers one after the other, instead of sums */
    int n_parts; /* sums of shards that this worker has computed; 0: it had no samples */
    const int64_t *parts; /* two for each: its first shard, and the one behind its last */
    int n_items; /* values of each part */
    const mf_shape *shapes; /* of the items; of rows the first dimension is not known */
    const int64_t *types; /* mf_dtype of the items */
    const char *const *names; /* of the items: the weight whose gradient it is, or "" */
} mf_exchange_bucket;

typedef struct mf_exchange mf_exchange;

typedef struct mf_exchange_kind {
    /* values: part after part. They must be copied or sent before this returns. Thread: any, one
     * at a time; buckets come in any order. */
    mf_status (*begin)(mf_exchange *x, const mf_exchange_bucket *bucket,
                       const mf_tensor *const *values);
    /* Set the kernel's outputs, one for each item, and call mf_kernel_done() once all is there: at
     * once or later, from any thread. */
    void (*end)(mf_exchange *x, const mf_exchange_bucket *bucket, mf_kernel *k);
} mf_exchange_kind;

struct mf_exchange {
    const mf_exchange_kind *kind;
    int64_t first, count; /* the shards computed here */
    int64_t grain; /* no part may have more shards than this, a power of two; 0: any number */
};

#endif
