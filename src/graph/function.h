/* SPDX-License-Identifier: Apache-2.0 */
/* function.h - functions of a graph's library. */
#ifndef MF_GRAPH_FUNCTION_H
#define MF_GRAPH_FUNCTION_H

#include "graph/graph.h"

/* The body of a function as a graph: its arguments are _Arg nodes and its results _Retval nodes,
 * both with an `index` attribute; nodes named in control_ret have the attribute _control_ret. attrs
 * replace the placeholders ("$T"). The body calls functions of the same library as `caller`, which
 * must outlive it. Fails: INVALID_ARGUMENT (malformed body, placeholder without a value). */
MF_MUST mf_status mf_function_body(const mf_graph *caller, const mf_function *function,
                                   const mf_named_attr *attrs, int n_attrs, mf_graph **out);

/* A graph without nodes whose library contains the function and all functions reachable from it.
 * Fails: NOT_FOUND (no such function). */
MF_MUST mf_status mf_function_library(const mf_graph *graph, const mf_func_ref *root,
                                      mf_graph **out);

/* A subgraph to be turned into a function: everything that `out` and `effects` depend on, up to
 * `in`. */
typedef struct mf_function_cut {
    mf_graph *from;
    const mf_output *in; /* become the arguments; their producers stay outside */
    int n_in;
    const mf_output *out; /* become the results */
    int n_out;
    mf_node *const *effects; /* nodes that run in every call: control_ret */
    int n_effects;
} mf_function_cut;

/* Add the function to the library. Fails: INVALID_ARGUMENT (another function has this name; a
 * placeholder is not among `in`). */
MF_MUST mf_status mf_function_define(const char *name, const mf_function_cut *cut);
/* "base_what", or with a number appended if that name is taken. In the library's arena, or NULL. */
const char *mf_function_name(mf_graph *graph, const char *base, const char *what);

/* A number for each output of a graph, initially 0. `numbers` has one NULL for each node. Returns
 * NULL when memory is exhausted. */
static inline int *mf_output_number(mf_arena *arena, int **numbers, mf_output o)
{
    if (!numbers[o.node->id])
        numbers[o.node->id] = MF_ARENA_ARRAY(arena, int, o.node->n_outputs);
    return numbers[o.node->id] ? &numbers[o.node->id][o.port] : NULL;
}

#endif
