/* SPDX-License-Identifier: Apache-2.0 */
/* inline.h - copies function bodies into a graph; shared by inline.c and lower_control_flow.c. */
#ifndef MF_COMPILER_INLINE_H
#define MF_COMPILER_INLINE_H

#include "compiler/compiler.h"

/* A body to be inlined: function, arguments, and prerequisites. */
typedef struct mf_inline_call {
    const mf_function *function;
    const mf_named_attr *attrs;
    int n_attrs;
    const mf_output *args;
    int n_args;
    mf_node *pivot; /* nodes without other inputs wait for it; NULL: not needed */
    bool waits; /* the call has control inputs: nodes that use an argument wait for the pivot,
                   too */
    const char *name; /* prefix of new names */
    const char *device;
} mf_inline_call;

/* The result: one output per function result (with a pivot, never a plain constant), and the nodes
 * whose effects must complete before the call counts as done. */
typedef struct mf_inline_result {
    mf_output *outs; /* in the graph's arena */
    int n_outs;
    mf_node **effects;
    int n_effects;
} mf_inline_result;

MF_MUST mf_status mf_inline_body(mf_compile *c, const mf_inline_call *call, mf_inline_result *out);
/* The function named by an attribute such as then_branch. */
MF_MUST mf_status mf_inline_find(const mf_compile *c, const mf_node *n, const mf_func_ref *ref,
                                 const mf_function **out);
/* A new node named "prefix/op". */
MF_MUST mf_status mf_inline_node(mf_compile *c, const char *prefix, const char *op,
                                 const mf_output *in, int n_in, const mf_named_attr *attrs,
                                 int n_attrs, mf_node **out);

/* The origin of nodes: a chain of nested function bodies. */
typedef struct mf_inline_chain mf_inline_place;

/* The body of `function` inside the current origin. training: it is the step of a shard, whose
 * first sample is given. Fails: INVALID_ARGUMENT (recursion). */
MF_MUST mf_status mf_inline_chain(mf_compile *c, const mf_function *function, bool training,
                                  int64_t sample_offset, const mf_inline_place **out);
/* New nodes get this origin from now on. Returns the previous one. */
const mf_inline_place *mf_inline_enter(mf_compile *c, const mf_inline_place *place);
/* A copy of a body's node, named "prefix/name", without control edges. */
MF_MUST mf_status mf_inline_clone(mf_compile *c, const mf_node *n, const char *prefix,
                                  const char *device, const mf_output *in, mf_node **out);
/* Assigns the current origin to a node that was added by other means. */
MF_MUST mf_status mf_inline_adopt(mf_compile *c, const mf_node *node);

/* Replace functional control flow by Switch, Merge and loops (lower_control_flow.c). outs has one
 * output per output of the node; *done replaces the node in control edges. */
MF_MUST mf_status mf_lower_if(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);
MF_MUST mf_status mf_lower_case(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);
MF_MUST mf_status mf_lower_while(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);
/* The gradient of a function (lower_symbolic_gradient.c). */
MF_MUST mf_status mf_lower_gradient(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);
/* Ops produced by a TensorFlow master's optimizer (lower_grappler_ops.c). Fails: UNIMPLEMENTED (any
 * other op). */
MF_MUST mf_status mf_lower_rewritten(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);
/* A function mapped over the shards of a batch (shard_map.c). */
MF_MUST mf_status mf_lower_shard_map(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);

#endif
