/* SPDX-License-Identifier: Apache-2.0 */
/* inline.h - putting function bodies into a graph; shared by inline.c and lower_control_flow.c. */
#ifndef MF_COMPILER_INLINE_H
#define MF_COMPILER_INLINE_H

#include "compiler/compiler.h"

/* A body to be put in: which function, what its arguments are, and what must have happened first.
 */
typedef struct mf_inline_call {
    const mf_function *function;
    const mf_named_attr *attrs;
    int n_attrs;
    const mf_output *args;
    int n_args;
    mf_node *pivot; /* nodes without a cue of their own wait for it; NULL: none needed */
    bool waits; /* the call has control inputs: nodes that take an argument wait for the pivot, too
                 */
    const char *name; /* prefix of the new names */
    const char *device;
} mf_inline_call;

/* What came out: one output per result, each with a cue (never a bare constant when there is a
 * pivot), and the nodes whose effects must have happened before the call counts as done. */
typedef struct mf_inline_result {
    mf_output *outs; /* in the graph's arena */
    int n_outs;
    mf_node **effects;
    int n_effects;
} mf_inline_result;

MF_MUST mf_status mf_inline_body(mf_compile *c, const mf_inline_call *call, mf_inline_result *out);
/* The function behind an attribute such as then_branch. */
MF_MUST mf_status mf_inline_find(const mf_compile *c, const mf_node *n, const mf_func_ref *ref,
                                 const mf_function **out);
/* A new node named "prefix/op". */
MF_MUST mf_status mf_inline_node(mf_compile *c, const char *prefix, const char *op,
                                 const mf_output *in, int n_in, const mf_named_attr *attrs,
                                 int n_attrs, mf_node **out);

/* Where nodes come from: a function's body, inside of another. */
typedef struct mf_inline_chain mf_inline_place;

/* The body of `function` inside of where we are. training: it is the step of a shard, whose first
 * sample this is. Fails: INVALID_ARGUMENT (the function calls itself). */
MF_MUST mf_status mf_inline_chain(mf_compile *c, const mf_function *function, bool training,
                                  int64_t sample_offset, const mf_inline_place **out);
/* New nodes belong there from now on. Returns where they did before. */
const mf_inline_place *mf_inline_enter(mf_compile *c, const mf_inline_place *place);
/* A copy of a body's node, named "prefix/name", without its control edges. */
MF_MUST mf_status mf_inline_clone(mf_compile *c, const mf_node *n, const char *prefix,
                                  const char *device, const mf_output *in, mf_node **out);
/* A node that was added to the graph otherwise belongs to the body at hand too. */
MF_MUST mf_status mf_inline_adopt(mf_compile *c, const mf_node *node);

/* Replace functional control flow by Switch, Merge and loops (lower_control_flow.c). outs has one
 * output per output of the node; *done stands for the node in control edges. */
MF_MUST mf_status mf_lower_if(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);
MF_MUST mf_status mf_lower_case(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);
MF_MUST mf_status mf_lower_while(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);
/* The gradient of a function (lower_symbolic_gradient.c). */
MF_MUST mf_status mf_lower_gradient(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);
/* What masters of TensorFlow's make of nodes (lower_grappler_ops.c). UNIMPLEMENTED: any other op.
 */
MF_MUST mf_status mf_lower_rewritten(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);
/* A function mapped over the shards of a batch (shard_map.c). */
MF_MUST mf_status mf_lower_shard_map(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done);

#endif
