/* SPDX-License-Identifier: Apache-2.0 */
/* apart.h - a bucket of gradients of which all shards are looked at one by one: every member makes
 * a slice of the result out of that slice of all shards, and all get all slices. */
#ifndef MF_PARALLEL_APART_H
#define MF_PARALLEL_APART_H

#include "comm/group.h"
#include "graph/exchange.h"
#include "parallel/aggregate.h"

enum { MF_APART_ALIGN = 16 }; /* elements: items of a bucket begin at multiples of it */

static inline int64_t mf_apart_padded(int64_t n)
{
    return (n + MF_APART_ALIGN - 1) / MF_APART_ALIGN * MF_APART_ALIGN;
}

/* Else it is a loss, a metric, a statistic. */
static inline bool mf_apart_is_gradient(const mf_aggregation *a, const mf_exchange_bucket *b,
                                        int item)
{
    return b->ports[item] >= a->first_gradient && b->types[item] == MF_DTYPE_F32;
}

typedef struct mf_apart {
    mf_group *group;
    mf_collective call;
    const mf_aggregation *aggregation;
    int64_t samples, shards, leaves; /* leaves: shards that have samples */
    const int *n_parts; /* by rank: its shards, in the order of the ranks */
    const mf_exchange_bucket *bucket;
    int64_t count; /* elements of a shard's vector */
    const void *data; /* our shards */
    void *out; /* a vector */
} mf_apart;

MF_MUST mf_status mf_apart_reduce(const mf_apart *a);

#endif
