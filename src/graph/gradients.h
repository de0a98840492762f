/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.h - gradients through function calls, branches and loops.
 *
 * The body of a function is differentiated as a separate graph: mf_gradients() adds the backward
 * nodes to it. Then the body is split in two, and both parts become functions of the library:
 *
 *   forward: the original function with additional results: the values that the backward part uses;
 *   backward: from the gradients of the results and those values to the gradients of the arguments.
 *
 * The call is replaced in place by a call of the forward function: nothing runs twice, so the
 * backward part sees the same random numbers. The original outputs do not change. */
#ifndef MF_GRAPH_GRADIENTS_H
#define MF_GRAPH_GRADIENTS_H

#include "graph/function.h"
#include "graph/op.h"

/* Gradients of the ops that call functions. */
MF_MUST mf_status mf_grad_call(mf_grad *g); /* PartitionedCall, and functions called by name */
MF_MUST mf_status mf_grad_branches(mf_grad *g); /* If, Case */
MF_MUST mf_status mf_grad_loop(mf_grad *g); /* While */

/* Can gradients pass along an edge of this type? */
bool mf_grad_is_type(mf_dtype type);
/* Zeros of the shape of x; if x is a variable's handle, of its value. */
mf_output mf_grad_zeros(mf_graph *graph, mf_output x, mf_dtype type);

/* ---- one body (gradients_body.c) ---- */

/* A value of the forward part that the backward part uses. */
typedef struct mf_taken {
    mf_output at;
    int arg, result; /* index if the value is an argument, or a result; -1: it is not */
} mf_taken;

/* Arrays are valid as long as the body. */
typedef struct mf_diff {
    const char *name; /* of the function */
    mf_graph *body;
    mf_output *args, *results;
    int n_args, n_results;
    mf_node **effects;
    int n_effects;
    int64_t n_before; /* number of nodes of the body before differentiation */
    mf_output *dy; /* by result: a placeholder; empty if there is no gradient */
    mf_output *dx; /* by argument; empty if there is no gradient */
    int64_t n_cut; /* number of nodes of the body when it was split */
    bool *forward; /* by node id */
    mf_taken *taken;
    int n_taken;
} mf_diff;

/* Open the body of the function that `call` refers to. Fails: NOT_FOUND, INVALID_ARGUMENT (another
 * number of arguments or results; the function is recursive), RESOURCE_EXHAUSTED (nested too deep,
 * or too many calls). The caller closes it in either case. */
MF_MUST mf_status mf_diff_open(mf_graph *graph, const mf_node *call, const mf_func_ref *function,
                               int n_args, int n_results, mf_diff *d);
void mf_diff_close(mf_diff *d);
/* Build dy and dx, for results with a gradient and arguments whose gradient is wanted. */
MF_MUST mf_status mf_diff_run(mf_diff *d, const bool *arrives, const bool *wants);
/* Split forward from backward. Nodes added to the body later belong to neither. */
MF_MUST mf_status mf_diff_cut(mf_diff *d);
/* The backward part uses `to` instead of `from`. */
void mf_diff_replace(mf_diff *d, mf_output from, mf_output to);
/* Add the function "name_what" between these outputs of the body; *ref refers to it. */
MF_MUST mf_status mf_diff_define(mf_diff *d, const char *what, const mf_function_cut *cut,
                                 mf_func_ref *ref);
/* Add the position to the error of differentiating a function body. */
MF_MUST mf_status mf_diff_explain(mf_status st, const mf_diff *d, const mf_node *call);

/* ---- growing lists in an arena ---- */

typedef struct mf_outputs {
    mf_output *at;
    int n, cap;
} mf_outputs;

MF_MUST mf_status mf_outputs_add(mf_arena *arena, mf_outputs *list, mf_output o);
MF_MUST mf_status mf_outputs_add_all(mf_arena *arena, mf_outputs *list, const mf_output *o, int n);

/* ---- calls ---- */

static inline mf_attr mf_attr_func(mf_func_ref *f)
{
    return (mf_attr){ .kind = MF_ATTR_FUNC, .n = 1, .func = f };
}
/* The types of `outs` as an attribute value. */
MF_MUST mf_status mf_attr_types(mf_graph *graph, const mf_output *outs, int n, mf_attr *out);
/* Replace the node by `op` with these inputs and n_out outputs. Its other attributes stay, `attrs`
 * are set. */
MF_MUST mf_status mf_call_become(mf_graph *graph, mf_node *node, const char *op,
                                 const mf_output *in, int n_in, int n_out,
                                 const mf_named_attr *attrs, int n_attrs);
/* Add a call of backward functions. */
MF_MUST mf_status mf_call_add(mf_graph *graph, const char *op, const mf_outputs *in,
                              const mf_named_attr *attrs, int n_attrs, mf_node **out);
/* Is one of these functions of the library stateful? */
bool mf_call_is_stateful(const mf_graph *graph, const mf_func_ref *functions, int n);

#endif
