/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.h - how gradients pass through calls of functions, branches and loops.
 *
 * The body of a function is differentiated as a graph of its own: mf_gradients() adds the backward
 * nodes to it. Then it is cut in two, and both parts become functions of the library:
 *
 *   forward: what the function was, with more results: the values that the backward part takes;
 *   backward: from the gradients of the results and those values to the gradients of the arguments.
 *
 * The call itself becomes one of the forward function, in place: nothing runs twice, so a random
 * number is the same number on the way back. Its old outputs stay what they were. */
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
/* Zeros of the shape of x; of a variable's value where x is a handle to one. */
mf_output mf_grad_zeros(mf_graph *graph, mf_output x, mf_dtype type);

/* ---- one body (gradients_body.c) ---- */

/* A value of the forward part that the backward part takes. */
typedef struct mf_taken {
    mf_output at;
    int arg, result; /* it is this argument, or this result; -1: no */
} mf_taken;

/* Arrays live as long as the body. */
typedef struct mf_diff {
    const char *name; /* of the function */
    mf_graph *body;
    mf_output *args, *results;
    int n_args, n_results;
    mf_node **effects;
    int n_effects;
    int64_t n_before; /* nodes of the body before it was differentiated */
    mf_output *dy; /* by result: a placeholder; empty where no gradient arrives */
    mf_output *dx; /* by argument; empty where none flows */
    int64_t n_cut; /* nodes of the body when it was cut */
    bool *forward; /* by node id */
    mf_taken *taken;
    int n_taken;
} mf_diff;

/* Open the body of the function that `call` refers to. Fails: NOT_FOUND, INVALID_ARGUMENT (other
 * numbers of arguments or results; the function reaches itself), RESOURCE_EXHAUSTED (nested too
 * deep, or functions that call each other too often). Close it in either case. */
MF_MUST mf_status mf_diff_open(mf_graph *graph, const mf_node *call, const mf_func_ref *function,
                               int n_args, int n_results, mf_diff *d);
void mf_diff_close(mf_diff *d);
/* Build dy and dx, for the results where a gradient arrives and the arguments that want one. */
MF_MUST mf_status mf_diff_run(mf_diff *d, const bool *arrives, const bool *wants);
/* Part forward from backward. What is added to the body from here on belongs to neither. */
MF_MUST mf_status mf_diff_cut(mf_diff *d);
/* The backward part takes `to` where it took `from`. */
void mf_diff_replace(mf_diff *d, mf_output from, mf_output to);
/* Add the function "name_what" between these outputs of the body; *ref refers to it. */
MF_MUST mf_status mf_diff_define(mf_diff *d, const char *what, const mf_function_cut *cut,
                                 mf_func_ref *ref);
/* The error of differentiating a function's body, told with the place. */
MF_MUST mf_status mf_diff_explain(mf_status st, const mf_diff *d, const mf_node *call);

/* ---- lists that grow, in an arena ---- */

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
/* The types of `outs` as an attribute. */
MF_MUST mf_status mf_attr_types(mf_graph *graph, const mf_output *outs, int n, mf_attr *out);
/* The node becomes `op` with these inputs and n_out outputs. Its attributes stay, but for those in
 * `attrs`. */
MF_MUST mf_status mf_call_become(mf_graph *graph, mf_node *node, const char *op,
                                 const mf_output *in, int n_in, int n_out,
                                 const mf_named_attr *attrs, int n_attrs);
/* A new call of backward functions. */
MF_MUST mf_status mf_call_add(mf_graph *graph, const char *op, const mf_outputs *in,
                              const mf_named_attr *attrs, int n_attrs, mf_node **out);
/* Does one of these functions of the library hold state? */
bool mf_call_is_stateful(const mf_graph *graph, const mf_func_ref *functions, int n);

#endif
