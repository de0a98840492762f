/* SPDX-License-Identifier: Apache-2.0 */
/* gradients_call.c - the gradient of a function call is a call of its backward function, or of the
 * gradient function that the library registers for it. */
#include "graph/gradients.h"

/* ---- registered by the library (GradientDef) ---- */

/* TensorFlow's convention: takes the arguments and then the gradients of all results, returns the
 * gradients of all arguments. */
static mf_status call_registered(mf_grad *g, const mf_func_ref *f, const char *gradient)
{
    mf_func_ref ref = { .name = gradient, .attrs = f->attrs, .n_attrs = f->n_attrs };
    mf_named_attr attrs[] = { { "f", mf_attr_func(&ref) }, { "Tout", { 0 } } };
    mf_outputs in = { 0 };
    mf_node *call;

    MF_TRY(mf_outputs_add_all(g->graph->arena, &in, g->x, g->n_in));
    for (int i = 0; i < g->n_out; i++) {
        const mf_output dy =
            g->dy[i].node ? g->dy[i] : mf_grad_zeros(g->graph, g->y[i], g->node->out_types[i]);

        MF_TRY(mf_outputs_add(g->graph->arena, &in, dy));
    }
    MF_TRY(mf_attr_types(g->graph, g->x, g->n_in, &attrs[1].value));
    MF_TRY(mf_call_add(g->graph, "StatefulPartitionedCall", &in, attrs, MF_COUNT(attrs), &call));
    for (int i = 0; i < g->n_in; i++)
        g->dx[i] = (mf_output){ call, i };
    return MF_OK;
}

/* ---- derived here ---- */

/* The call becomes one of the forward function. Values that are neither arguments nor results
 * become additional results; *port[i] is the index. */
static mf_status call_forward(mf_grad *g, mf_diff *d, int *port)
{
    mf_func_ref ref;
    mf_named_attr attrs[] = { { "f", mf_attr_func(&ref) }, { "Tout", { 0 } } };
    const char *op = g->node->op ? g->node->op_name : "StatefulPartitionedCall";
    mf_outputs out = { 0 };
    mf_function_cut cut = { .from = d->body,
                            .in = d->args,
                            .n_in = d->n_args,
                            .effects = d->effects,
                            .n_effects = d->n_effects };

    MF_TRY(mf_outputs_add_all(d->body->arena, &out, d->results, d->n_results));
    for (int i = 0; i < d->n_taken; i++) {
        port[i] = d->taken[i].result;
        if (d->taken[i].arg >= 0 || port[i] >= 0)
            continue;
        port[i] = out.n;
        MF_TRY(mf_outputs_add(d->body->arena, &out, d->taken[i].at));
    }
    cut.out = out.at;
    cut.n_out = out.n;
    MF_TRY(mf_diff_define(d, "forward", &cut, &ref));
    MF_TRY(mf_attr_types(g->graph, out.at, out.n, &attrs[1].value));
    return mf_call_become(g->graph, g->node, op, g->x, g->n_in, out.n, attrs, MF_COUNT(attrs));
}

/* in: inside the backward function; args: the same values at its call. */
static mf_status backward_args(mf_grad *g, const mf_diff *d, const int *port, mf_outputs *in,
                               mf_outputs *args)
{
    mf_arena *arena = d->body->arena;

    for (int i = 0; i < d->n_results; i++) {
        if (d->dy[i].node) {
            MF_TRY(mf_outputs_add(arena, in, d->dy[i]));
            MF_TRY(mf_outputs_add(arena, args, g->dy[i]));
        }
    }
    for (int i = 0; i < d->n_taken; i++) {
        const int arg = d->taken[i].arg;

        MF_TRY(mf_outputs_add(arena, in, d->taken[i].at));
        MF_TRY(mf_outputs_add(arena, args, arg >= 0 ? g->x[arg] : (mf_output){ g->node, port[i] }));
    }
    return MF_OK;
}

static mf_status call_backward(mf_grad *g, mf_diff *d, const int *port)
{
    mf_func_ref ref;
    mf_named_attr attrs[] = { { "f", mf_attr_func(&ref) }, { "Tout", { 0 } } };
    mf_outputs in = { 0 }, args = { 0 }, out = { 0 };
    mf_function_cut cut = { .from = d->body };
    mf_node *call;

    MF_TRY(backward_args(g, d, port, &in, &args));
    for (int i = 0; i < d->n_args; i++) {
        if (d->dx[i].node)
            MF_TRY(mf_outputs_add(d->body->arena, &out, d->dx[i]));
    }
    cut.in = in.at;
    cut.n_in = in.n;
    cut.out = out.at;
    cut.n_out = out.n;
    MF_TRY(mf_diff_define(d, "backward", &cut, &ref));
    MF_TRY(mf_attr_types(g->graph, out.at, out.n, &attrs[1].value));
    MF_TRY(mf_call_add(g->graph,
                       mf_call_is_stateful(g->graph, &ref, 1) ? "StatefulPartitionedCall"
                                                              : "PartitionedCall",
                       &args, attrs, MF_COUNT(attrs), &call));
    for (int i = 0, at = 0; i < d->n_args; i++) {
        if (d->dx[i].node)
            g->dx[i] = (mf_output){ call, at++ };
    }
    return MF_OK;
}

static bool any(const mf_output *o, int n)
{
    for (int i = 0; i < n; i++) {
        if (o[i].node)
            return true;
    }
    return false;
}

static mf_status gradients_call_differentiate(mf_grad *g, const mf_func_ref *f, mf_diff *d)
{
    bool *arrives = MF_ARENA_ARRAY(g->graph->arena, bool, g->n_out);
    int *port;

    if (!arrives)
        return MF_NOMEM("gradients");
    for (int i = 0; i < g->n_out; i++)
        arrives[i] = g->dy[i].node && g->node->out_types[i] != MF_DTYPE_RESOURCE;
    MF_TRY(mf_diff_open(g->graph, g->node, f, g->n_in, g->n_out, d));
    MF_TRY(mf_diff_run(d, arrives, g->wants));
    if (!any(d->dx, d->n_args))
        return MF_OK;
    MF_TRY(mf_diff_cut(d));
    port = MF_ARENA_ARRAY(d->body->arena, int, d->n_taken);
    if (!port)
        return MF_NOMEM("gradients");
    MF_TRY(call_forward(g, d, port));
    return call_backward(g, d, port);
}

mf_status mf_grad_call(mf_grad *g)
{
    const mf_node *n = g->node;
    const mf_attr *attr = n->op ? mf_node_attr(n, "f") : NULL;
    const mf_func_ref direct = { .name = n->op_name, .attrs = n->attrs, .n_attrs = n->n_attrs };
    const mf_func_ref f = attr ? *attr->func : direct;
    const char *registered = mf_map_find(&g->graph->library->gradients, f.name);
    mf_diff d = { 0 };
    mf_status st;

    if (registered)
        return call_registered(g, &f, registered);
    st = mf_diff_explain(gradients_call_differentiate(g, &f, &d), &d, n);
    mf_diff_close(&d);
    return st;
}
