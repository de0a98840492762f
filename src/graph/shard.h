/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - how a batch is split into shards. Kernels that sum over samples have the attributes
 * _shards and _samples: every shard is summed separately, and the sums are added in the reduction
 * tree of compiler/sharding/shard_map.c. */
#ifndef MF_GRAPH_SHARD_H
#define MF_GRAPH_SHARD_H

#include <stdint.h>

/* First sample of shard s of `shards`; sizes differ by at most one. With more shards than samples,
 * the last ones are empty. */
static inline int64_t mf_shard_begin(int64_t samples, int64_t shards, int64_t s)
{
    const int64_t rest = samples % shards;

    return s * (samples / shards) + (s < rest ? s : rest);
}

/* First shard of group g, if adjacent shards are assigned to a group. */
static inline int64_t mf_shard_of_group(int64_t shards, int64_t groups, int64_t g)
{
    return shards * g / groups;
}

#endif
