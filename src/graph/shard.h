/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - how a batch is cut into shards. Kernels that add up over samples are told by the
 * attributes _shards and _samples: every shard is summed by itself, and the sums are added in the
 * tree of compiler/sharding/shard_map.c. */
#ifndef MF_GRAPH_SHARD_H
#define MF_GRAPH_SHARD_H

#include <stdint.h>

/* Shard s of `shards` has the samples from this one on; sizes differ by one at most. With more
 * shards than samples, the last ones are empty. */
static inline int64_t mf_shard_begin(int64_t samples, int64_t shards, int64_t s)
{
    const int64_t rest = samples % shards;

    return s * (samples / shards) + (s < rest ? s : rest);
}

/* Where shards are dealt out to groups, neighbours to one: the first of group g. */
static inline int64_t mf_shard_of_group(int64_t shards, int64_t groups, int64_t g)
{
    return shards * g / groups;
}

#endif
