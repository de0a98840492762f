/* SPDX-License-Identifier: Apache-2.0 */
/* absent.h - TensorFlow ops that Meshflow does not implement. Their signatures are known, so a
 * graph with such an op loads, is placed and runs; only a run that reaches the op fails. */
#ifndef MF_GRAPH_ABSENT_H
#define MF_GRAPH_ABSENT_H

#include "graph/op.h"

typedef struct mf_absent_op {
    const char *name;
    const char *def; /* see opdef.h */
} mf_absent_op;

/* Terminated by a NULL name. */
extern const mf_absent_op mf_absent_ops[];

/* An op with this signature whose kernel fails with UNIMPLEMENTED. NULL: TensorFlow has no such op,
 * or Meshflow implements it (mf_op_find). */
const mf_op *mf_op_absent(const char *name);

#endif
