/* SPDX-License-Identifier: Apache-2.0 */
/* gradients_body.c - differentiates and splits the body of one function; helpers for the gradients
 * of calls, branches and loops. */
#include "graph/gradients.h"

#include <stdio.h>
#include <string.h>

enum {
    DEPTH_MAX = 64, /* nested calls: each uses some of the thread's stack */
    NODES_MAX = 500000, /* of all bodies: the number that may be inlined when the graph runs */
    BODY_COST = 20, /* in nodes: the overhead of opening a small body */
};

static bool gradients_body_is_op(const mf_node *n, const char *name)
{
    return strcmp(n->op_name, name) == 0;
}

/* ---- opening ---- */

/* Checks for recursion, excessive nesting, and bodies that multiply. */
static mf_status check_nesting(const mf_graph *graph, const mf_function *f)
{
    const mf_graph *x = graph;
    int64_t depth = 0;

    do {
        if (x->body_of == f)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "function '%s' calls itself; recursion is not supported", f->name);
        x = x->outer;
        depth++;
    } while (x);
    if (depth > DEPTH_MAX)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "calls are nested more than %d deep", DEPTH_MAX);
    if (graph->library->differentiated > NODES_MAX)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "the bodies of all calls have more than %d nodes; the functions call each "
                       "other too often",
                       NODES_MAX);
    return MF_OK;
}

static int gradients_body_count_op(const mf_graph *g, const char *op)
{
    int n = 0;

    for (int64_t i = 0; i < g->n_nodes; i++)
        n += gradients_body_is_op(g->nodes[i], op);
    return n;
}

static mf_status gradients_body_find_ends(mf_diff *d)
{
    mf_arena *arena = d->body->arena;

    d->args = MF_ARENA_ARRAY(arena, mf_output, d->n_args);
    d->results = MF_ARENA_ARRAY(arena, mf_output, d->n_results);
    d->effects = MF_ARENA_ARRAY(arena, mf_node *, d->body->n_nodes);
    d->dy = MF_ARENA_ARRAY(arena, mf_output, d->n_results);
    d->dx = MF_ARENA_ARRAY(arena, mf_output, d->n_args);
    if (!d->args || !d->results || !d->effects || !d->dy || !d->dx)
        return MF_NOMEM("gradients");
    for (int64_t i = 0; i < d->body->n_nodes; i++) {
        mf_node *n = d->body->nodes[i];
        const int64_t index = mf_node_int(n, "index"); /* 0 if absent */

        if (gradients_body_is_op(n, "_Arg") && index >= 0 && index < d->n_args)
            d->args[index] = (mf_output){ n, 0 };
        else if (gradients_body_is_op(n, "_Retval") && index >= 0 && index < d->n_results)
            d->results[index] = n->inputs[0];
        else if (mf_node_attr(n, "_control_ret"))
            d->effects[d->n_effects++] = n;
    }
    for (int i = 0; i < d->n_args + d->n_results; i++) {
        if (!(i < d->n_args ? d->args[i] : d->results[i - d->n_args]).node)
            return MF_FAIL(MF_INVALID_ARGUMENT, "function %s numbers its arguments incorrectly",
                           d->name);
    }
    return MF_OK;
}

mf_status mf_diff_open(mf_graph *graph, const mf_node *call, const mf_func_ref *function,
                       int n_args, int n_results, mf_diff *d)
{
    const mf_function *f = mf_graph_function(graph, function->name);

    *d = (mf_diff){ .name = function->name, .n_args = n_args, .n_results = n_results };
    if (!f)
        return MF_FAIL(MF_NOT_FOUND, "Function '%.200s' is not defined ({{node %s}})",
                       function->name, call->name);
    MF_TRY(check_nesting(graph, f));
    MF_TRY(mf_function_body(graph, f, function->attrs, function->n_attrs, &d->body));
    d->n_before = d->body->n_nodes;
    graph->library->differentiated += d->n_before + BODY_COST;
    if (gradients_body_count_op(d->body, "_Arg") != n_args ||
        gradients_body_count_op(d->body, "_Retval") != n_results)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "{{node %s}}: function %s has %d arguments and %d results, not %d and %d",
                       call->name, f->name, gradients_body_count_op(d->body, "_Arg"),
                       gradients_body_count_op(d->body, "_Retval"), n_args, n_results);
    return gradients_body_find_ends(d);
}

void mf_diff_close(mf_diff *d)
{
    mf_graph_free(d->body);
    d->body = NULL;
}

mf_status mf_diff_explain(mf_status st, const mf_diff *d, const mf_node *call)
{
    char after[400];

    if (st == MF_OK)
        return MF_OK;
    (void)snprintf(after, sizeof after, "; in the gradient of function %.150s ({{node %.150s}})",
                   d->name ? d->name : "?", call->name);
    return mf_error_wrap(st, "", after);
}

/* ---- differentiating ---- */

static mf_status gradients(mf_diff *d, const bool *arrives, const bool *wants, mf_output *ys,
                           mf_output *dys, mf_output *xs, mf_output *dxs)
{
    int n_ys = 0, n_xs = 0, at = 0;

    for (int i = 0; i < d->n_results; i++) {
        const mf_output y = d->results[i];

        if (!arrives[i])
            continue;
        d->dy[i] = mf_applyf(d->body, "Placeholder", MF_NO_IN, "dtype=%s",
                             mf_dtype_name(mf_type_base(y.node->out_types[y.port])));
        ys[n_ys] = y;
        dys[n_ys++] = d->dy[i];
    }
    for (int i = 0; i < d->n_args; i++) {
        if (wants[i])
            xs[n_xs++] = d->args[i];
    }
    MF_TRY(mf_gradients(d->body, ys, n_ys, xs, n_xs, dys, dxs));
    for (int i = 0; i < d->n_args; i++) {
        if (wants[i])
            d->dx[i] = dxs[at++];
    }
    return MF_OK;
}

mf_status mf_diff_run(mf_diff *d, const bool *arrives, const bool *wants)
{
    mf_arena *arena = d->body->arena;
    mf_output *ys = MF_ARENA_ARRAY(arena, mf_output, d->n_results);
    mf_output *dys = MF_ARENA_ARRAY(arena, mf_output, d->n_results);
    mf_output *xs = MF_ARENA_ARRAY(arena, mf_output, d->n_args);
    mf_output *dxs = MF_ARENA_ARRAY(arena, mf_output, d->n_args);

    if (!ys || !dys || !xs || !dxs)
        return MF_NOMEM("gradients");
    return gradients(d, arrives, wants, ys, dys, xs, dxs);
}

/* ---- cutting ---- */

/* The forward part: the original nodes and their new dependencies (differentiating a nested loop
 * adds inputs to it). */
static void mark_forward(mf_diff *d, mf_node *const *order, int64_t n)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        const mf_node *x = order[i];

        d->forward[x->id] |= x->id < d->n_before;
        for (int k = 0; k < x->n_inputs && d->forward[x->id]; k++)
            d->forward[x->inputs[k].node->id] = true;
        for (int k = 0; k < x->n_controls && d->forward[x->id]; k++)
            d->forward[x->controls[k]->id] = true;
    }
}

static int gradients_body_find_output(const mf_output *in, int n, mf_output o)
{
    for (int i = 0; i < n; i++) {
        if (in[i].node == o.node && in[i].port == o.port)
            return i;
    }
    return -1;
}

typedef struct backward_cut {
    mf_diff *d;
    bool *needed; /* by node id: in the backward part */
    int **taken; /* by node id and port: index in d->taken, from 1 */
    int64_t cap;
} backward_cut;

/* The backward part uses o. A constant is copied, so that its value stays known. */
static mf_status gradients_body_take(backward_cut *c, mf_output o)
{
    mf_diff *d = c->d;
    mf_taken *more;
    int *number;

    if (!d->forward[o.node->id] ||
        (gradients_body_is_op(o.node, "Const") && o.node->n_controls == 0)) {
        c->needed[o.node->id] = true;
        return MF_OK;
    }
    number = mf_output_number(d->body->arena, c->taken, o);
    if (!number)
        return MF_NOMEM("gradients");
    if (*number)
        return MF_OK;
    if (d->n_taken == c->cap) {
        c->cap = 2 * c->cap + 16;
        more = MF_ARENA_ARRAY(d->body->arena, mf_taken, c->cap);
        if (!more)
            return MF_NOMEM("gradients");
        for (int i = 0; i < d->n_taken; i++)
            more[i] = d->taken[i];
        d->taken = more;
    }
    d->taken[d->n_taken++] =
        (mf_taken){ .at = o,
                    .arg = gradients_body_find_output(d->args, d->n_args, o),
                    .result = gradients_body_find_output(d->results, d->n_results, o) };
    *number = d->n_taken;
    return MF_OK;
}

/* Control edges between the two parts are dropped: they would connect them. */
static void drop_controls(const mf_diff *d, mf_node *n)
{
    int kept = 0;

    for (int i = 0; i < n->n_controls; i++) {
        if (!d->forward[n->controls[i]->id])
            n->controls[kept++] = n->controls[i];
    }
    n->n_controls = kept;
}

static mf_status gradients_body_take_all(backward_cut *c, mf_node *const *order, int64_t n)
{
    for (int i = 0; i < c->d->n_args; i++) {
        if (c->d->dx[i].node)
            MF_TRY(gradients_body_take(c, c->d->dx[i]));
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        mf_node *x = order[i];

        if (!c->needed[x->id] || c->d->forward[x->id])
            continue;
        drop_controls(c->d, x);
        for (int k = 0; k < x->n_controls; k++)
            c->needed[x->controls[k]->id] = true;
        for (int k = 0; k < x->n_inputs; k++)
            MF_TRY(gradients_body_take(c, x->inputs[k]));
    }
    return MF_OK;
}

mf_status mf_diff_cut(mf_diff *d)
{
    const int64_t n = d->body->n_nodes;
    mf_arena *arena = d->body->arena;
    mf_node **order = MF_ARENA_ARRAY(arena, mf_node *, n);
    backward_cut c = { .d = d,
                       .needed = MF_ARENA_ARRAY(arena, bool, n),
                       .taken = MF_ARENA_ARRAY(arena, int *, n) };
    int64_t n_order;

    MF_TRY(mf_graph_status(d->body));
    d->n_cut = n;
    d->forward = MF_ARENA_ARRAY(arena, bool, n);
    if (!order || !c.needed || !c.taken || !d->forward)
        return MF_NOMEM("gradients");
    MF_TRY(mf_graph_order(d->body, order, &n_order));
    mark_forward(d, order, n_order);
    return gradients_body_take_all(&c, order, n_order);
}

void mf_diff_replace(mf_diff *d, mf_output from, mf_output to)
{
    for (int64_t i = d->n_before; i < d->n_cut; i++) {
        mf_node *n = d->body->nodes[i];

        for (int k = 0; k < n->n_inputs && !d->forward[i]; k++) {
            if (n->inputs[k].node == from.node && n->inputs[k].port == from.port)
                n->inputs[k] = to;
        }
    }
    for (int i = 0; i < d->n_args; i++) {
        if (d->dx[i].node == from.node && d->dx[i].port == from.port)
            d->dx[i] = to;
    }
}

mf_status mf_diff_define(mf_diff *d, const char *what, const mf_function_cut *cut, mf_func_ref *ref)
{
    *ref = (mf_func_ref){ .name = mf_function_name(d->body, d->name, what) };
    if (!ref->name)
        return MF_NOMEM("gradients");
    MF_TRY(mf_graph_status(d->body));
    return mf_function_define(ref->name, cut);
}

/* ---- shared ---- */

mf_output mf_grad_zeros(mf_graph *graph, mf_output x, mf_dtype type)
{
    if (x.node && mf_type_base(x.node->out_types[x.port]) == MF_DTYPE_RESOURCE)
        return mf_apply(
            graph, "Fill",
            MF_IN(mf_apply(graph, "VariableShape", MF_IN(x)), mf_scalar(graph, type, 0)));
    return mf_apply(graph, "ZerosLike", MF_IN(x));
}

mf_status mf_outputs_add(mf_arena *arena, mf_outputs *list, mf_output o)
{
    return mf_outputs_add_all(arena, list, &o, 1);
}

mf_status mf_outputs_add_all(mf_arena *arena, mf_outputs *list, const mf_output *o, int n)
{
    if (list->n + n > list->cap) {
        const int cap = 2 * list->cap + n + 8;
        mf_output *more = MF_ARENA_ARRAY(arena, mf_output, cap);

        if (!more)
            return MF_NOMEM("gradients");
        for (int i = 0; i < list->n; i++)
            more[i] = list->at[i];
        list->at = more;
        list->cap = cap;
    }
    for (int i = 0; i < n; i++)
        list->at[list->n++] = o[i];
    return MF_OK;
}

/* ---- calls ---- */

mf_status mf_attr_types(mf_graph *graph, const mf_output *outs, int n, mf_attr *out)
{
    *out = (mf_attr){ .kind = MF_ATTR_TYPE, .is_list = true, .n = n };
    out->ints = MF_ARENA_ARRAY(graph->arena, int64_t, n);
    if (!out->ints)
        return MF_NOMEM("gradients");
    for (int i = 0; i < n; i++)
        out->ints[i] = (int64_t)mf_type_base(outs[i].node->out_types[outs[i].port]);
    return MF_OK;
}

static bool gradients_body_is_among(const mf_named_attr *attrs, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(attrs[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Known shapes of the original outputs stay valid; those of new outputs are unknown. */
static mf_status longer_shapes(mf_graph *graph, int n_out, mf_attr *shapes)
{
    mf_shape *all = MF_ARENA_ARRAY(graph->arena, mf_shape, n_out);

    if (!all)
        return MF_NOMEM("gradients");
    for (int i = 0; i < n_out; i++)
        all[i] = i < shapes->n ? shapes->shapes[i] : MF_SHAPE_UNKNOWN;
    shapes->shapes = all;
    shapes->n = n_out;
    return MF_OK;
}

mf_status mf_call_become(mf_graph *graph, mf_node *node, const char *op, const mf_output *in,
                         int n_in, int n_out, const mf_named_attr *attrs, int n_attrs)
{
    mf_named_attr *all = MF_ARENA_ARRAY(graph->arena, mf_named_attr, node->n_attrs + n_attrs);
    mf_node_spec spec = { .op = op,
                          .device = node->device,
                          .inputs = in,
                          .n_inputs = n_in,
                          .controls = node->controls,
                          .n_controls = node->n_controls,
                          .attrs = all };

    if (!all)
        return MF_NOMEM("gradients");
    for (int i = 0; i < node->n_attrs; i++) {
        mf_named_attr a = node->attrs[i];

        if (gradients_body_is_among(attrs, n_attrs, a.name) || (!node->op && a.name[0] != '_'))
            continue; /* attributes of a function called by name are already bound */
        if (strcmp(a.name, "output_shapes") == 0 && a.value.n > 0)
            MF_TRY(longer_shapes(graph, n_out, &a.value));
        all[spec.n_attrs++] = a;
    }
    for (int i = 0; i < n_attrs; i++)
        all[spec.n_attrs++] = attrs[i];
    return mf_node_become(graph, node, &spec);
}

mf_status mf_call_add(mf_graph *graph, const char *op, const mf_outputs *in,
                      const mf_named_attr *attrs, int n_attrs, mf_node **out)
{
    const mf_node_spec spec = {
        .op = op, .inputs = in->at, .n_inputs = in->n, .attrs = attrs, .n_attrs = n_attrs
    };

    MF_TRY(mf_graph_status(graph)); /* an input may be the result of a failure */
    return mf_graph_add(graph, &spec, out);
}

bool mf_call_is_stateful(const mf_graph *graph, const mf_func_ref *functions, int n)
{
    bool is = false;

    for (int i = 0; i < n; i++) {
        const mf_function *f = mf_graph_function(graph, functions[i].name);

        is = is || (f && f->def->is_stateful);
    }
    return is;
}
