/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - which kernels treat the samples of a batch independently: the rule `rows` of a kernel
 * record. The first dimension of a value in rows counts samples, or k rows per sample.
 *
 * A node whose kernel has no rule runs once per shard, which is always correct. A rule must be
 * exact: a kernel must not round a row differently depending on the number of other rows. */
#ifndef MF_GRAPH_ROWS_H
#define MF_GRAPH_ROWS_H

#include "graph/op.h"

typedef enum mf_spread {
    MF_SHARED, /* equal for every shard */
    MF_DIMS, /* integers that depend on the number of samples: sizes and shapes */
    MF_ROWS, /* each sample has k adjacent rows, independent of its shard */
    MF_IOVEC, /* different for every shard */
    MF_SUMMED, /* the sum over the shards */
} mf_spread;

/* A query about a node on the full batch, treated as one shard. */
typedef struct mf_rows_query {
    const mf_node *node;
    int64_t samples;
    const mf_spread *in_spread;
    const mf_shape *in, *out;
    const mf_tensor *const *in_value; /* NULL if unknown */
} mf_rows_query;

/* Can the node run once on the full batch, with the same bits for each sample as in its shard? At
 * least one input is MF_ROWS or MF_DIMS, none is MF_IOVEC. All outputs are MF_ROWS. */
bool mf_rows_apart(const mf_rows_query *q);
/* Does it sum over samples, and support doing so shard by shard (attributes _shards, _samples) in
 * the fixed tree? */
bool mf_rows_summed(const mf_rows_query *q);

/* ---- rules; elementwise kernels without a rule have mf_rows_elementwise ---- */

bool mf_rows_elementwise(const mf_rows_query *q); /* shared operands are equal for every row */
bool mf_rows_first(
    const mf_rows_query *q); /* input 0 in rows, the others shared or sizes; rows are preserved */
bool mf_rows_last(const mf_rows_query *q); /* the last input in rows, the others shared or sizes */
bool mf_rows_all(const mf_rows_query *q); /* every input in rows */
bool mf_rows_axes(const mf_rows_query *q);
bool mf_rows_expand(const mf_rows_query *q);
bool mf_rows_reshape(const mf_rows_query *q);
bool mf_rows_squeeze(const mf_rows_query *q);
bool mf_rows_matmul(const mf_rows_query *q);
bool mf_rows_batch_matmul(const mf_rows_query *q);
bool mf_rows_transpose(const mf_rows_query *q);
bool mf_rows_tile(const mf_rows_query *q);
bool mf_rows_pad(const mf_rows_query *q);
bool mf_rows_slice(const mf_rows_query *q);
bool mf_rows_strided(const mf_rows_query *q);
bool mf_rows_strided_grad(const mf_rows_query *q);
bool mf_rows_concat(const mf_rows_query *q);
bool mf_rows_split(const mf_rows_query *q);
bool mf_rows_pack(const mf_rows_query *q);
bool mf_rows_unpack(const mf_rows_query *q);
bool mf_rows_lookup(const mf_rows_query *q);
bool mf_rows_one_hot(const mf_rows_query *q);
bool mf_rows_in_top_k(const mf_rows_query *q);
bool mf_rows_own(const mf_rows_query *q);
bool mf_rows_boxes(const mf_rows_query *q);
bool mf_rows_fill(const mf_rows_query *q);
bool mf_rows_broadcast(const mf_rows_query *q);

#endif
