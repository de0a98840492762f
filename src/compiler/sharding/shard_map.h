/* SPDX-License-Identifier: Apache-2.0 */
/* shard_map.h - how the values of a shard's step are distributed over a batch; shared by
 * shard_map.c and shard_body.c. */
#ifndef MF_COMPILER_SHARDING_SHARD_MAP_H
#define MF_COMPILER_SHARDING_SHARD_MAP_H

#include "collective/gradient_aggregation.h"
#include "compiler/inline.h"
#include "graph/rows.h"
#include "graph/shard.h"

/* A _ShardMap being lowered, or one micro-batch of it. */
typedef struct mf_shard_map {
    mf_compile *c;
    mf_node *node; /* the _ShardMap */
    mf_arena *arena;
    const mf_function *function;
    const mf_attr *join;
    int n_batched;
    const mf_output *in; /* the arguments: the node's inputs, or the rows of this micro-batch */
    int64_t first_sample; /* of this micro-batch in the batch */
    int64_t samples, wanted, shards; /* wanted: requested; shards: nonempty */
    mf_graph *body;
    mf_compile facts; /* facts about the body, on the full batch */
    mf_node **order;
    int64_t n_order;
    struct mf_emitted *done; /* by node id of the body */
    const char *whole_name, **part_name; /* name prefixes */
    const mf_inline_place *whole_place, **part_place;
    mf_node *pivot; /* the node's control dependencies; NULL: none */
    bool enabled; /* the pass is enabled */
    mf_aggregation aggregation; /* of micro-batches */
} mf_shard_map;

/* Copy the function's body into the graph for the samples of this micro-batch, and join the results
 * (shard_body.c). m->wanted, samples, first_sample and in are set. */
MF_MUST mf_status mf_shard_body(mf_shard_map *m, mf_output *outs);
/* The shapes of the function's results for one sample, without copying it. */
MF_MUST mf_status mf_shard_shapes(mf_shard_map *m, mf_shape *shapes);
/* The function on m->wanted adjacent shards, which are a branch of the tree and begin at
 * m->first_sample: in micro-batches if requested (shard_map.c). */
MF_MUST mf_status mf_shard_branch(const mf_shard_map *m, mf_output *outs);
/* Add, or concatenate, the results of two adjacent branches: a = a and b. */
MF_MUST mf_status mf_shard_join(mf_shard_map *m, int port, mf_output *a, mf_output b);
/* Only the local shards; the rest by exchange with other workers (shard_exchange.c). */
MF_MUST mf_status mf_shard_exchange(mf_shard_map *m, mf_output *outs);
/* A new node named after the _ShardMap. */
MF_MUST mf_status mf_shard_node(mf_shard_map *m, const char *op, const mf_output *in, int n_in,
                                const mf_named_attr *attrs, int n_attrs, mf_output *out);

/* ---- shard_aggregate.c: n micro-batches with these numbers of samples ---- */

/* Reads m->aggregation from the node's attributes. Fails: INVALID_ARGUMENT. */
MF_MUST mf_status mf_shard_aggregation_read(mf_shard_map *m);
/* Is this result a gradient with an aggregation other than the plain sum? And one whose
 * micro-batches are not added at all? */
bool mf_shard_is_aggregated(const mf_shard_map *m, int port);
bool mf_shard_is_apart(const mf_shard_map *m, int port);
/* Before the results of all micro-batches are joined: scale gradients, if necessary. */
MF_MUST mf_status mf_shard_weigh(mf_shard_map *m, mf_output *const *results, const int64_t *samples,
                                 int n);
/* Afterwards: results[0] gets the aggregate of all gradients. */
MF_MUST mf_status mf_shard_aggregate(mf_shard_map *m, mf_output *const *results,
                                     const int64_t *samples, int n);

static inline int64_t mf_shard_map_begin(const mf_shard_map *m, int64_t s)
{
    return mf_shard_begin(m->samples, m->wanted, s);
}

static inline mf_attr mf_shard_int(int64_t value)
{
    return (mf_attr){ .kind = MF_ATTR_INT, .n = 1, .i = value };
}

#endif
