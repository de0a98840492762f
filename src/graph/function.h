/* SPDX-License-Identifier: Apache-2.0 */
/* function.h - functions of a graph's library. */
#ifndef MF_GRAPH_FUNCTION_H
#define MF_GRAPH_FUNCTION_H

#include "graph/graph.h"

/* A function's body as a graph: its arguments are _Arg nodes and its results _Retval nodes, both
 * with an `index` attribute; nodes named in control_ret have the attribute _control_ret. attrs
 * replace the placeholders ("$T"). The body calls functions of the same library as `caller`,
 * which must live longer. Fails: INVALID_ARGUMENT (malformed body, placeholder without a value). */
MF_MUST mf_status mf_function_body(const mf_graph *caller, const mf_function *function,
                                   const mf_named_attr *attrs, int n_attrs, mf_graph **out);

/* A graph without nodes whose library holds the function and all that it can reach. NOT_FOUND:
 * there is no such function. */
MF_MUST mf_status mf_function_library(const mf_graph *graph, const mf_func_ref *root,
                                      mf_graph **out);

/* A part of a graph that is to become a function: all that `out` and `effects` need, up to `in`. */
typedef struct mf_function_cut {
    mf_graph *from;
    const mf_output *in; /* become the arguments; what makes them stays outside */
    int n_in;
    const mf_output *out; /* become the results */
    int n_out;
    mf_node *const *effects; /* run whenever the function does: its control_ret */
    int n_effects;
} mf_function_cut;

/* Add the function to the library. Fails: INVALID_ARGUMENT (the name is taken by another function;
 * a placeholder is not among `in`). */
MF_MUST mf_status mf_function_define(const char *name, const mf_function_cut *cut);
/* "base_what", or with a number behind it where that is taken. In the library's arena, or NULL. */
const char *mf_function_name(mf_graph *graph, const char *base, const char *what);

/* A number that one may keep for each output of a graph; starts as 0. `numbers` has one NULL for
 * each node. NULL when memory is gone. */
static inline int *mf_output_number(mf_arena *arena, int **numbers, mf_output o)
{
    if (!numbers[o.node->id])
        numbers[o.node->id] = MF_ARENA_ARRAY(arena, int, o.node->n_outputs);
    return numbers[o.node->id] ? &numbers[o.node->id][o.port] : NULL;
}

#endif
