/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - how the values of a shard's step lie in a batch; shared by shard.c and shard_rows.c. */
#ifndef MF_COMPILE_SHARD_H
#define MF_COMPILE_SHARD_H

#include "graph/op.h"

typedef enum mf_spread {
    MF_SHARED, /* the same for every shard */
    MF_DIMS, /* integers that depend on the number of samples: sizes and shapes */
    MF_ROWS, /* each sample has its own k neighbouring rows, whatever shard it is in */
    MF_PARTS, /* something else for every shard */
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
 * its shard? At least one input is MF_ROWS or MF_DIMS, none is MF_PARTS. All outputs are MF_ROWS.
 */
bool mf_rows_apart(const mf_rows_query *q);
/* Does it add up over samples, and know how to do so shard by shard (attributes _shards, _samples),
 * in the fixed tree? */
bool mf_rows_summed(const mf_rows_query *q);

#endif
