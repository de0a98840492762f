/* SPDX-License-Identifier: Apache-2.0 */
/* function.h - functions of a graph's library. */
#ifndef MF_GRAPH_FUNCTION_H
#define MF_GRAPH_FUNCTION_H

#include "graph/graph.h"

/* A function's body as a graph: its arguments are _Arg nodes and its results _Retval nodes, both
 * with an `index` attribute; nodes named in control_ret have the attribute _control_ret. attrs
 * replace the placeholders ("$T"). `lib` provides functions that the body calls. Fails:
 * INVALID_ARGUMENT (malformed body, placeholder without a value). */
MF_MUST mf_status mf_function_body(const mf_graph *lib, const mf_function *function,
                                   const mf_named_attr *attrs, int n_attrs, mf_graph **out);

#endif
