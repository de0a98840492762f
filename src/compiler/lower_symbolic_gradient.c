/* SPDX-License-Identifier: Apache-2.0 */
/* lower_symbolic_gradient.c - SymbolicGradient, the gradient of a function given its arguments and
 * the gradients of its results: the function is called and the call is differentiated like any
 * other (graph/gradients_call.c). Clients create such nodes for Defun functions. */
#include "compiler/inline.h"
#include "graph/gradients.h"

/* Separate arguments, so that two equal ones have separate gradients. */
static mf_status add_arguments(mf_compile *c, const mf_node *n, mf_outputs *args)
{
    for (int i = 0; i < n->n_outputs; i++) {
        mf_node *id;

        MF_TRY(mf_inline_node(c, n->name, "Identity", &n->inputs[i], 1, NULL, 0, &id));
        MF_TRY(mf_outputs_add(c->graph->arena, args, (mf_output){ id, 0 }));
    }
    return MF_OK;
}

static mf_status lower_symbolic_gradient_add_call(mf_compile *c, const mf_node *n,
                                                  const mf_outputs *args, mf_node **call)
{
    mf_func_ref *f = mf_node_attr(n, "f")->func;
    mf_named_attr attrs[] = { { "f", mf_attr_func(f) }, { "Tout", { 0 } } };

    MF_TRY(mf_attr_types(c->graph, n->inputs + n->n_outputs, n->n_inputs - n->n_outputs,
                         &attrs[1].value));
    return mf_call_add(c->graph,
                       mf_call_is_stateful(c->graph, f, 1) ? "StatefulPartitionedCall"
                                                           : "PartitionedCall",
                       args, attrs, MF_COUNT(attrs), call);
}

/* Results without a gradient get zeros. */
static mf_status lower_symbolic_gradient_fill_in(mf_compile *c, const mf_node *n,
                                                 const mf_outputs *args, mf_output *outs)
{
    for (int i = 0; i < n->n_outputs; i++) {
        mf_node *zeros;

        if (outs[i].node)
            continue;
        MF_TRY(mf_inline_node(c, n->name, "ZerosLike", &args->at[i], 1, NULL, 0, &zeros));
        outs[i] = (mf_output){ zeros, 0 };
    }
    return MF_OK;
}

mf_status mf_lower_gradient(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done)
{
    const int n_y = n->n_inputs - n->n_outputs;
    const int64_t before = c->graph->n_nodes;
    const mf_function *function;
    mf_outputs args = { 0 }, ys = { 0 };
    mf_node *call;

    MF_TRY(mf_inline_find(c, n, mf_node_attr(n, "f")->func, &function));
    if (n_y < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "{{node %s}}: SymbolicGradient of %s has %d inputs for %d arguments and no "
                       "gradient of a result",
                       n->name, function->name, n->n_inputs, n->n_outputs);
    MF_TRY(add_arguments(c, n, &args));
    MF_TRY(lower_symbolic_gradient_add_call(c, n, &args, &call));
    for (int i = 0; i < n_y; i++)
        MF_TRY(mf_outputs_add(c->graph->arena, &ys, (mf_output){ call, i }));
    MF_TRY(
        mf_gradients(c->graph, ys.at, n_y, args.at, n->n_outputs, n->inputs + n->n_outputs, outs));
    MF_TRY(lower_symbolic_gradient_fill_in(c, n, &args, outs));
    MF_TRY(mf_inline_node(c, n->name, "NoOp", NULL, 0, NULL, 0, done));
    for (int i = 0; i < n->n_outputs; i++)
        mf_control(c->graph, *done, outs[i].node);
    for (int64_t i = before; i < c->graph->n_nodes; i++)
        MF_TRY(mf_inline_adopt(c, c->graph->nodes[i]));
    return mf_graph_status(c->graph);
}
