/* SPDX-License-Identifier: Apache-2.0 */
/* shard_map.h - how the values of a shard's step lie in a batch; shared by shard_map.c,
 * shard_body.c and shard_rows.c. */
#ifndef MF_COMPILER_SHARDING_SHARD_MAP_H
#define MF_COMPILER_SHARDING_SHARD_MAP_H

#include "collective/gradient_aggregation.h"
#include "compiler/inline.h"
#include "graph/shard.h"

typedef enum mf_spread {
    MF_SHARED, /* the same for every shard */
    MF_DIMS, /* integers that depend on the number of samples: sizes and shapes */
    MF_ROWS, /* each sample has its own k neighbouring rows, whatever shard it is in */
    MF_IOVEC, /* something else for every shard */
    MF_SUMMED, /* what the shards have in sum */
} mf_spread;

/* A node on the whole batch, as if it were one shard. */
typedef struct mf_rows_query {
    const mf_node *node;
    int64_t samples;
    const mf_spread *in_spread;
    const mf_shape *in, *out;
    const mf_tensor *const *in_value; /* NULL where unknown */
} mf_rows_query;

/* Can the node run once on the whole batch, giving each sample the very bits that it would get in
 * its shard? At least one input is MF_ROWS or MF_DIMS, none is MF_IOVEC. All outputs are MF_ROWS.
 */
bool mf_rows_apart(const mf_rows_query *q);
/* Does it add up over samples, and know how to do so shard by shard (attributes _shards, _samples),
 * in the fixed tree? */
bool mf_rows_summed(const mf_rows_query *q);

/* A _ShardMap on the way to what it stands for, or one turn of it. */
typedef struct mf_shard_map {
    mf_compile *c;
    mf_node *node; /* the _ShardMap */
    mf_arena *arena;
    const mf_function *function;
    const mf_attr *join;
    int n_batched;
    const mf_output *in; /* the arguments: the node's inputs, or the rows of this turn */
    int64_t first_sample; /* of this turn in the batch at hand */
    int64_t samples, wanted, shards; /* wanted: those asked for; shards: those that are not empty */
    mf_graph *body;
    mf_compile facts; /* about the body, on the whole batch */
    mf_node **order;
    int64_t n_order;
    struct mf_emitted *done; /* by id of the body's node */
    const char *whole_name, **part_name; /* prefixes */
    const mf_inline_place *whole_place, **part_place;
    mf_node *pivot; /* what the node had to wait for; NULL: nothing */
    bool clever; /* the pass is on */
    mf_aggregation aggregation; /* of turns */
} mf_shard_map;

/* Put the function's body into the graph, for the samples of this turn, and join the results
 * (shard_body.c). m->wanted, samples, first_sample and in are set. */
MF_MUST mf_status mf_shard_body(mf_shard_map *m, mf_output *outs);
/* The shapes of the function's results for one sample, without putting it anywhere. */
MF_MUST mf_status mf_shard_shapes(mf_shard_map *m, mf_shape *shapes);
/* The function on m->wanted neighbouring shards, which are a whole branch of the tree and begin at
 * m->first_sample: in turns if so asked (shard_map.c). */
MF_MUST mf_status mf_shard_branch(const mf_shard_map *m, mf_output *outs);
/* Add, or lay one behind the other, the results of two neighbouring branches: a = a and b. */
MF_MUST mf_status mf_shard_join(mf_shard_map *m, int port, mf_output *a, mf_output b);
/* Only those shards that are computed here, the rest by exchange with others (shard_exchange.c). */
MF_MUST mf_status mf_shard_exchange(mf_shard_map *m, mf_output *outs);
/* A new node named after the _ShardMap. */
MF_MUST mf_status mf_shard_node(mf_shard_map *m, const char *op, const mf_output *in, int n_in,
                                const mf_named_attr *attrs, int n_attrs, mf_output *out);

/* ---- shard_aggregate.c: n turns with so many samples ---- */

/* m->aggregation, from the node's attributes. INVALID_ARGUMENT. */
MF_MUST mf_status mf_shard_aggregation_read(mf_shard_map *m);
/* Is this result a gradient that is not just added up? And one whose turns are not added at all? */
bool mf_shard_is_aggregated(const mf_shard_map *m, int port);
bool mf_shard_is_apart(const mf_shard_map *m, int port);
/* Before the results of all turns are joined: gradients are multiplied, if need be. */
MF_MUST mf_status mf_shard_weigh(mf_shard_map *m, mf_output *const *results, const int64_t *samples,
                                 int n);
/* After that: results[0] has what becomes of all gradients. */
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
