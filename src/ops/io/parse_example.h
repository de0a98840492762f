/* SPDX-License-Identifier: Apache-2.0 */
/* parse_example.h - parses tf.Example messages into tensors, one column per feature. */
#ifndef MF_OPS_IO_PARSE_EXAMPLE_H
#define MF_OPS_IO_PARSE_EXAMPLE_H

#include "formats/example.h"
#include "graph/op.h"

/* A requested feature. */
typedef struct mf_column {
    const char *key;
    mf_dtype type; /* float, int64 or string */
    mf_shape shape; /* dense: of one example; the first dimension may be unknown */
    const mf_tensor *missing; /* dense: default value; empty: required */
    mf_dtype splits; /* ragged: int32 or int64 */
} mf_column;

/* The request of an op. Outputs are in this order: indices, values and shapes of sparse columns,
 * dense columns, values and splits of ragged columns. */
typedef struct mf_parse {
    mf_kernel *k;
    mf_arena *arena;
    const mf_tensor *serialized; /* a vector of messages, or one */
    const mf_tensor *names; /* of the messages, for errors; NULL or empty: none */
    mf_column *sparse, *dense, *ragged;
    int n_sparse, n_dense, n_ragged;
    mf_example *examples; /* decoded */
} mf_parse;

/* Parses the examples and sets all outputs of the kernel. Fails: INVALID_ARGUMENT with TensorFlow's
 * messages. */
MF_MUST mf_status mf_parse_run(mf_parse *p);

#endif
