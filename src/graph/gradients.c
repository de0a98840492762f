/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.c - reverse-mode differentiation. Every op on a path from xs to ys builds the gradients
 * of its inputs, in reverse order; several gradients of one output are summed in a fixed order.
 * Nodes built for an op are marked as gradients of the op's layer (mf_node_mark). */
#include "graph/gradients.h"

#include "base/host_state.h"

#include <string.h>

/* Gradients collected for one output. */
typedef struct arrivals {
    mf_output *from;
    int64_t n, cap;
} arrivals;

/* Gradients of the outputs of one node, as many as it had when the first gradient arrived: a call
 * gets more outputs later. */
typedef struct arrived {
    arrivals *port; /* NULL: no gradient yet */
    int n;
} arrived;

typedef struct backward {
    mf_graph *g;
    int64_t n_nodes; /* number of nodes before differentiation */
    bool *wanted; /* by node id: reachable from some x */
    arrived *at; /* by node id */
} backward;

static mf_status gradients_arrive(backward *b, mf_output to, mf_output dy)
{
    arrived *at;
    arrivals *a;

    if (to.node->id >= b->n_nodes)
        return MF_OK;
    at = &b->at[to.node->id];
    if (!at->port) {
        at->n = to.node->n_outputs;
        at->port = MF_ARENA_ARRAY(b->g->arena, arrivals, at->n);
        if (!at->port)
            return MF_NOMEM("gradients");
    }
    a = &at->port[to.port];
    MF_TRY(mf_grow(&a->from, &a->cap, a->n + 1, sizeof *a->from));
    a->from[a->n++] = dy;
    return MF_OK;
}

/* The sum of the collected gradients; empty if there are none. */
static mf_status total(backward *b, mf_output o, mf_output *out)
{
    const arrivals *a = b->at[o.node->id].port ? &b->at[o.node->id].port[o.port] : NULL;
    mf_output *terms;

    *out = (mf_output){ 0 };
    if (!a || a->n == 0)
        return MF_OK;
    if (a->n == 1) {
        *out = a->from[0];
        return MF_OK;
    }
    terms = mf_calloc(a->n + 1, sizeof *terms);
    if (!terms)
        return MF_NOMEM("gradients");
    memcpy(terms, a->from, (size_t)a->n * sizeof *terms);
    terms[a->n] = (mf_output)MF_END;
    *out = mf_apply(b->g, "AddN", terms);
    mf_free(terms);
    return mf_graph_status(b->g);
}

bool mf_grad_is_type(mf_dtype t)
{
    t = mf_type_base(t);
    return mf_dtype_is_float(t) || mf_dtype_is_complex(t) || t == MF_DTYPE_RESOURCE ||
           t == MF_DTYPE_VARIANT;
}

static void mark_wanted(backward *b, mf_node *const *order, int64_t n, const mf_output *xs,
                        int n_xs)
{
    for (int i = 0; i < n_xs; i++)
        b->wanted[xs[i].node->id] = true;
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < order[i]->n_inputs; k++) {
            if (b->wanted[order[i]->inputs[k].node->id] && mf_grad_is_type(order[i]->in_types[k]))
                b->wanted[order[i]->id] = true;
        }
    }
}

/* The attribute _gradient_op_type overrides the op's gradient. Clients write the names of Python
 * functions of their own process there, which cannot be called here. Every call of a tf.function
 * has one, "PartitionedCall-12", which has no effect. */
static mf_status grad_function(const mf_node *n, mf_grad_fn **out)
{
    const char *name = mf_node_string(n, "_gradient_op_type");
    const mf_op *other = mf_op_find(name);

    *out = n->op ? n->op->grad : mf_grad_call;
    if (other)
        *out = other->grad;
    else if (name[0] && *out != mf_grad_call)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "{{node %s}} (op %s) has a custom gradient, '%.200s', that only the "
                       "program that built the graph can compute",
                       n->name, n->op_name, name);
    return MF_OK;
}

static mf_status node_grad(backward *b, mf_node *n, const mf_output *dy)
{
    mf_grad_fn *fn;
    mf_output *y = MF_ARENA_ARRAY(b->g->arena, mf_output, n->n_outputs);
    mf_output *dx = MF_ARENA_ARRAY(b->g->arena, mf_output, n->n_inputs);
    bool *wants = MF_ARENA_ARRAY(b->g->arena, bool, n->n_inputs);
    mf_grad g = { .graph = b->g,
                  .node = n,
                  .x = n->inputs,
                  .y = y,
                  .dy = dy,
                  .dx = dx,
                  .wants = wants,
                  .n_in = n->n_inputs,
                  .n_out = n->n_outputs };

    if (!y || !dx || !wants)
        return MF_NOMEM("gradients");
    for (int i = 0; i < n->n_outputs; i++)
        y[i] = (mf_output){ n, i };
    for (int i = 0; i < n->n_inputs; i++)
        wants[i] = b->wanted[g.x[i].node->id] && mf_grad_is_type(n->in_types[i]);
    MF_TRY(grad_function(n, &fn));
    MF_TRY(fn(&g));
    MF_TRY(mf_graph_status(b->g));
    for (int i = 0; i < g.n_in; i++) { /* g.x: a loop may have more inputs now */
        if (dx[i].node && b->wanted[g.x[i].node->id])
            MF_TRY(gradients_arrive(b, g.x[i], dx[i]));
    }
    return MF_OK;
}

/* Gradients of all outputs of `n`, summed; *any: there is at least one. */
static mf_status gradients_collect(backward *b, mf_node *n, mf_output *dy, bool *any)
{
    *any = false;
    for (int i = 0; i < n->n_outputs; i++) {
        MF_TRY(total(b, (mf_output){ n, i }, &dy[i]));
        *any = *any || dy[i].node;
    }
    return MF_OK;
}

static mf_status gradients_walk(backward *b, mf_node *const *order, int64_t n)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        mf_node *node = order[i];
        mf_output *dy;
        bool any;

        if (!b->wanted[node->id] || !b->at[node->id].port)
            continue;
        b->g->mark.layer = mf_node_layer(node);
        dy = MF_ARENA_ARRAY(b->g->arena, mf_output, node->n_outputs);
        if (!dy)
            return MF_NOMEM("gradients");
        MF_TRY(gradients_collect(b, node, dy, &any));
        if (!any)
            continue;
        for (int p = 0; p < node->n_outputs; p++) { /* the sum replaces its terms */
            b->at[node->id].port[p].n = 0;
            if (dy[p].node)
                MF_TRY(gradients_arrive(b, (mf_output){ node, p }, dy[p]));
        }
        /* Continue behind an x only if another x is behind it. */
        bool behind = false;

        for (int k = 0; k < node->n_inputs && !behind; k++)
            behind = b->wanted[node->inputs[k].node->id];
        if (behind && node->n_inputs > 0)
            MF_TRY(node_grad(b, node, dy));
    }
    return MF_OK;
}

static mf_status seed(backward *b, const mf_output *ys, int n_ys, const mf_output *dys)
{
    for (int i = 0; i < n_ys; i++) {
        mf_output dy;

        b->g->mark.layer = mf_node_layer(ys[i].node);
        dy = dys && dys[i].node ? dys[i] : mf_apply(b->g, "OnesLike", MF_IN(ys[i]));
        MF_TRY(mf_graph_status(b->g));
        MF_TRY(gradients_arrive(b, ys[i], dy));
    }
    return MF_OK;
}

static void backward_deinit(backward *b)
{
    for (int64_t i = 0; b->at && i < b->n_nodes; i++) {
        for (int p = 0; p < b->at[i].n; p++)
            mf_free(b->at[i].port[p].from);
    }
    mf_free(b->at);
    mf_free(b->wanted);
}

mf_status mf_gradients(mf_graph *graph, const mf_output *ys, int n_ys, const mf_output *xs,
                       int n_xs, const mf_output *dys, mf_output *dxs)
{
    MF_ENTRY;
    MF_NEED(graph);
    MF_NEED_ARRAY(ys, n_ys);
    MF_NEED_ARRAY(xs, n_xs);
    MF_NEED_ARRAY(dxs, n_xs);
    MF_TRY(mf_graph_status(graph));
    MF_TRY(mf_graph_owns_all(graph, ys, n_ys, "gradients of"));
    MF_TRY(mf_graph_owns_all(graph, xs, n_xs, "gradients with respect to"));
    for (int i = 0; dys && i < n_ys; i++) {
        if (dys[i].node)
            MF_TRY(mf_graph_owns(graph, dys[i], "gradients from", i));
    }

    backward b = { .g = graph, .n_nodes = graph->n_nodes };
    mf_node **order = mf_calloc(graph->n_nodes, sizeof *order);
    const char *scope = graph->scope;
    const mf_node_mark mark = graph->mark;
    int64_t n = 0;
    mf_status st = MF_OK;

    if (graph->library == graph)
        graph->differentiated = 0;

    b.wanted = mf_calloc(b.n_nodes, sizeof *b.wanted);
    b.at = mf_calloc(b.n_nodes, sizeof *b.at);
    if (!order || !b.wanted || !b.at)
        st = MF_NOMEM("gradients");
    if (st == MF_OK)
        st = mf_graph_order(graph, order, &n);
    if (st == MF_OK) {
        graph->scope = "gradients/";
        graph->mark.gradient = true;
        mark_wanted(&b, order, n, xs, n_xs);
        st = seed(&b, ys, n_ys, dys);
    }
    if (st == MF_OK)
        st = gradients_walk(&b, order, n);
    for (int i = 0; st == MF_OK && i < n_xs; i++) {
        graph->mark.layer = mf_node_layer(xs[i].node);
        st = total(&b, xs[i], &dxs[i]);
    }
    graph->scope = scope;
    graph->mark = mark;
    backward_deinit(&b);
    mf_free(order);
    return st;
}
