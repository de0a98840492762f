/* SPDX-License-Identifier: Apache-2.0 */
/* gradients_loop.c - the gradient of While is another While, over the iterations in reverse. The
 * forward loop gets more variables: an iteration counter, and a list for each value that the
 * backward body uses; every iteration pushes its value. The backward loop counts down and pops.
 *
 * A variable that the body returns unchanged is equal in all iterations. Its value needs no list,
 * and its gradient is the sum of the contributions of the iterations. */
#include "graph/gradients.h"

#include <string.h>

/* The variables of a loop. */
typedef struct variables {
    mf_outputs init; /* before the loop */
    mf_outputs in, out; /* in the body: before and after an iteration */
} variables;

typedef struct gradients_loop {
    mf_grad *g;
    mf_arena *arena;
    mf_diff d; /* of the body */
    int n; /* number of variables */
    bool *fixed; /* by variable: returned unchanged */
    bool *carried; /* by variable: its gradient is carried through the iterations */
    variables forward, backward;
    int *list; /* by used value: its variable in the forward loop; -1: it is a fixed variable */
    int counter; /* variable of the forward loop */
    int *gradient; /* by variable: the variable of the backward loop with its gradient; -1: none */
} gradients_loop;

/* ---- which gradients are carried ---- */

static mf_output skip_identities(mf_output o)
{
    while (strcmp(o.node->op_name, "Identity") == 0)
        o = o.node->inputs[0];
    return o;
}

static bool gradients_loop_same(mf_output a, mf_output b)
{
    return a.node == b.node && a.port == b.port;
}

/* Mark nodes that depend on marked ones (down), or on which marked ones depend. */
static void propagate_marks(mf_node *const *order, int64_t n, bool down, bool *mark)
{
    for (int64_t i = 0; i < n; i++) {
        const mf_node *x = order[down ? i : n - 1 - i];

        for (int k = 0; k < x->n_inputs; k++) {
            const int from = x->inputs[k].node->id;

            if (!mf_grad_is_type(x->in_types[k]))
                continue;
            if (down)
                mark[x->id] |= mark[from];
            else
                mark[from] |= mark[x->id];
        }
    }
}

/* Extend the set of variables by variables that depend on it through any number of iterations
 * (down), or on which it depends. */
static mf_status gradients_loop_spread(const gradients_loop *l, mf_node *const *order, int64_t n,
                                       bool down, bool *set)
{
    const mf_output *from = down ? l->d.args : l->d.results;
    const mf_output *to = down ? l->d.results : l->d.args;
    bool *mark = MF_ARENA_ARRAY(l->arena, bool, l->d.body->n_nodes);
    bool more = true;

    if (!mark)
        return MF_NOMEM("gradients");
    while (more) {
        more = false;
        for (int i = 0; i < l->n; i++)
            mark[from[i].node->id] |= set[i];
        propagate_marks(order, n, down, mark);
        for (int i = 0; i < l->n; i++) {
            more = more || (!set[i] && mark[to[i].node->id]);
            set[i] = set[i] || mark[to[i].node->id];
        }
    }
    return MF_OK;
}

/* Variables on a path from an input whose gradient is wanted to an output with a gradient. */
static mf_status find_carried(gradients_loop *l)
{
    mf_node **order = MF_ARENA_ARRAY(l->arena, mf_node *, l->d.body->n_nodes);
    bool *wanted = MF_ARENA_ARRAY(l->arena, bool, l->n);
    int64_t n;

    if (!order || !wanted)
        return MF_NOMEM("gradients");
    MF_TRY(mf_graph_order(l->d.body, order, &n));
    for (int i = 0; i < l->n; i++) {
        wanted[i] = l->g->wants[i];
        l->carried[i] = l->g->dy[i].node != NULL;
        l->fixed[i] = gradients_loop_same(skip_identities(l->d.results[i]), l->d.args[i]);
    }
    MF_TRY(gradients_loop_spread(l, order, n, true, wanted));
    MF_TRY(gradients_loop_spread(l, order, n, false, l->carried));
    for (int i = 0; i < l->n; i++) {
        const mf_dtype type = mf_type_base(l->g->node->in_types[i]);

        l->carried[i] = l->carried[i] && wanted[i] && mf_grad_is_type(type) &&
                        (l->fixed[i] || type != MF_DTYPE_RESOURCE);
    }
    return MF_OK;
}

/* Gradients of one iteration. For a fixed variable: the contribution of this iteration. */
static mf_status differentiate_body(gradients_loop *l)
{
    bool *arrives = MF_ARENA_ARRAY(l->arena, bool, l->n);

    if (!arrives)
        return MF_NOMEM("gradients");
    for (int i = 0; i < l->n; i++)
        arrives[i] = l->carried[i] && !l->fixed[i];
    MF_TRY(mf_diff_run(&l->d, arrives, l->carried));
    for (int i = 0; i < l->n; i++) {
        if (arrives[i] && !l->d.dx[i].node)
            l->d.dx[i] = mf_grad_zeros(l->d.body, l->d.args[i], l->g->node->in_types[i]);
    }
    return mf_diff_cut(&l->d);
}

/* ---- variables ---- */

static mf_status gradients_loop_add_variable(gradients_loop *l, variables *v, mf_output init,
                                             mf_output in, mf_output out)
{
    MF_TRY(mf_graph_status(l->g->graph));
    MF_TRY(mf_graph_status(l->d.body));
    MF_TRY(mf_outputs_add(l->arena, &v->init, init));
    MF_TRY(mf_outputs_add(l->arena, &v->in, in));
    return mf_outputs_add(l->arena, &v->out, out);
}

static mf_output gradients_loop_placeholder(mf_graph *g, mf_dtype type)
{
    return mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=%s", mf_dtype_name(type));
}

static mf_dtype gradients_loop_type_of(mf_output o)
{
    return mf_type_base(o.node->out_types[o.port]);
}

/* A counter that changes by `step` in each iteration. */
static mf_status add_counter(gradients_loop *l, variables *v, mf_output init, double step)
{
    mf_graph *b = l->d.body;
    const mf_output i = gradients_loop_placeholder(b, MF_DTYPE_I32);

    return gradients_loop_add_variable(
        l, v, init, i, mf_apply(b, "AddV2", MF_IN(i, mf_scalar(b, MF_DTYPE_I32, step))));
}

static mf_status add_list(gradients_loop *l, mf_output value)
{
    mf_graph *g = l->g->graph, *b = l->d.body;
    const mf_output any = mf_scalar(g, MF_DTYPE_I32, -1); /* any shape, any number */
    const mf_output init = mf_applyf(g, "EmptyTensorList", MF_IN(any, any), "element_dtype=%s",
                                     mf_dtype_name(gradients_loop_type_of(value)));
    const mf_output list = gradients_loop_placeholder(b, MF_DTYPE_VARIANT);

    return gradients_loop_add_variable(l, &l->forward, init, list,
                                       mf_apply(b, "TensorListPushBack", MF_IN(list, value)));
}

/* ---- functions ---- */

static mf_status define_body(gradients_loop *l, const char *what, const variables *v, bool forward,
                             mf_func_ref *ref)
{
    const mf_function_cut cut = { .from = l->d.body,
                                  .in = v->in.at,
                                  .n_in = v->in.n,
                                  .out = v->out.at,
                                  .n_out = v->out.n,
                                  .effects = l->d.effects,
                                  .n_effects = forward ? l->d.n_effects : 0 };

    return mf_diff_define(&l->d, what, &cut, ref);
}

/* The condition of a loop whose variables were extended. */
static mf_status define_condition(gradients_loop *l, mf_diff *c, mf_func_ref *ref)
{
    mf_outputs in = { 0 };
    mf_function_cut cut = { 0 };

    MF_TRY(
        mf_diff_open(l->g->graph, l->g->node, mf_node_attr(l->g->node, "cond")->func, l->n, 1, c));
    MF_TRY(mf_outputs_add_all(l->arena, &in, c->args, c->n_args));
    for (int i = l->n; i < l->forward.in.n; i++)
        MF_TRY(mf_outputs_add(
            l->arena, &in,
            gradients_loop_placeholder(c->body, gradients_loop_type_of(l->forward.in.at[i]))));
    cut = (mf_function_cut){ .from = c->body,
                             .in = in.at,
                             .n_in = in.n,
                             .out = c->results,
                             .n_out = 1,
                             .effects = c->effects,
                             .n_effects = c->n_effects };
    return mf_diff_define(c, "forward", &cut, ref);
}

static mf_status forward_condition(gradients_loop *l, mf_func_ref *ref)
{
    mf_diff c = { 0 };
    const mf_status st = define_condition(l, &c, ref);

    mf_diff_close(&c);
    return st;
}

/* True while iterations remain. */
static mf_status backward_condition(gradients_loop *l, mf_func_ref *ref)
{
    mf_graph *b = l->d.body;
    const mf_output left = l->backward.in.at[0];
    const mf_output go = mf_apply(b, "Greater", MF_IN(left, mf_scalar(b, MF_DTYPE_I32, 0)));
    const mf_function_cut cut = {
        .from = b, .in = l->backward.in.at, .n_in = l->backward.in.n, .out = &go, .n_out = 1
    };

    return mf_diff_define(&l->d, "backward_cond", &cut, ref);
}

/* ---- forward ---- */

/* Index of the fixed variable that is this value, or -1. */
static int fixed_variable(const gradients_loop *l, const mf_taken *t)
{
    const mf_output o = skip_identities(t->at);

    for (int i = 0; i < l->n; i++) {
        if (l->fixed[i] && gradients_loop_same(o, l->d.args[i]))
            return i;
    }
    return -1;
}

static mf_status gradients_loop_go_forward(gradients_loop *l)
{
    mf_func_ref cond, body;
    mf_named_attr attrs[] = { { "T", { 0 } },
                              { "cond", mf_attr_func(&cond) },
                              { "body", mf_attr_func(&body) } };
    variables *v = &l->forward;

    for (int i = 0; i < l->n; i++)
        MF_TRY(gradients_loop_add_variable(l, v, l->g->x[i], l->d.args[i], l->d.results[i]));
    l->counter = v->in.n;
    MF_TRY(add_counter(l, v, mf_scalar(l->g->graph, MF_DTYPE_I32, 0), 1));
    for (int i = 0; i < l->d.n_taken; i++) {
        l->list[i] = -1;
        if (fixed_variable(l, &l->d.taken[i]) >= 0)
            continue;
        l->list[i] = v->in.n;
        MF_TRY(add_list(l, l->d.taken[i].at));
    }
    MF_TRY(define_body(l, "forward", v, true, &body));
    MF_TRY(forward_condition(l, &cond));
    MF_TRY(mf_attr_types(l->g->graph, v->in.at, v->in.n, &attrs[0].value));
    return mf_call_become(l->g->graph, l->g->node, l->g->node->op_name, v->init.at, v->init.n,
                          v->in.n, attrs, MF_COUNT(attrs));
}

/* ---- backward ---- */

/* The initial value is the gradient after the loop; the final value is the gradient before it. */
static mf_status gradients_loop_add_gradient(gradients_loop *l, int i)
{
    mf_graph *g = l->g->graph, *b = l->d.body;
    const mf_output dx = l->d.dx[i];
    const mf_dtype type = gradients_loop_type_of(dx);
    const mf_output init = l->g->dy[i].node ? l->g->dy[i]
                           : l->fixed[i]    ? mf_grad_zeros(g, l->g->x[i], type)
                                            : mf_grad_zeros(g, l->g->y[i], type);
    mf_output sum;

    l->gradient[i] = l->backward.in.n;
    if (!l->fixed[i])
        return gradients_loop_add_variable(l, &l->backward, init, l->d.dy[i], dx);
    sum = gradients_loop_placeholder(b, type);
    return gradients_loop_add_variable(l, &l->backward, init, sum,
                                       mf_apply(b, "AddN", MF_IN(sum, dx)));
}

/* A value of the forward body: popped from its list, or a fixed variable. */
static mf_status add_taken(gradients_loop *l, int i)
{
    mf_graph *b = l->d.body;
    const mf_taken *t = &l->d.taken[i];
    mf_output list, popped;

    if (l->list[i] < 0)
        return gradients_loop_add_variable(l, &l->backward, l->g->x[fixed_variable(l, t)], t->at,
                                           t->at);
    list = gradients_loop_placeholder(b, MF_DTYPE_VARIANT);
    popped = mf_applyf(b, "TensorListPopBack", MF_IN(list, mf_scalar(b, MF_DTYPE_I32, -1)),
                       "element_dtype=%s", mf_dtype_name(gradients_loop_type_of(t->at)));
    MF_TRY(mf_graph_status(b));
    mf_diff_replace(&l->d, t->at, (mf_output){ popped.node, 1 });
    return gradients_loop_add_variable(l, &l->backward, (mf_output){ l->g->node, l->list[i] }, list,
                                       popped);
}

static mf_status add_backward_variables(gradients_loop *l)
{
    MF_TRY(add_counter(l, &l->backward, (mf_output){ l->g->node, l->counter }, -1));
    for (int i = 0; i < l->d.n_taken; i++)
        MF_TRY(add_taken(l, i));
    for (int i = 0; i < l->n; i++) {
        l->gradient[i] = -1;
        if (l->d.dx[i].node)
            MF_TRY(gradients_loop_add_gradient(l, i));
    }
    return MF_OK;
}

static mf_status gradients_loop_go_backward(gradients_loop *l)
{
    mf_func_ref both[2]; /* body, cond */
    const mf_attr *parallel = mf_node_attr(l->g->node, "parallel_iterations");
    const mf_named_attr attrs[] = { { "cond", mf_attr_func(&both[1]) },
                                    { "body", mf_attr_func(&both[0]) },
                                    { "parallel_iterations", *parallel } };
    mf_node *node;

    MF_TRY(add_backward_variables(l));
    MF_TRY(define_body(l, "backward", &l->backward, false, &both[0]));
    MF_TRY(backward_condition(l, &both[1]));
    MF_TRY(mf_call_add(l->g->graph,
                       mf_call_is_stateful(l->g->graph, both, 2) ? "While" : "StatelessWhile",
                       &l->backward.init, attrs, MF_COUNT(attrs), &node));
    for (int i = 0; i < l->n; i++)
        l->g->dx[i] = l->gradient[i] >= 0 ? (mf_output){ node, l->gradient[i] }
                      : l->fixed[i]       ? l->g->dy[i] /* no iteration changes it */
                                          : (mf_output){ 0 };
    return MF_OK;
}

static bool gradients_loop_has_any(const bool *set, int n)
{
    for (int i = 0; i < n; i++) {
        if (set[i])
            return true;
    }
    return false;
}

static mf_status gradients_loop_differentiate(gradients_loop *l)
{
    MF_TRY(mf_diff_open(l->g->graph, l->g->node, mf_node_attr(l->g->node, "body")->func, l->n, l->n,
                        &l->d));
    MF_TRY(find_carried(l));
    if (!gradients_loop_has_any(l->carried, l->n))
        return MF_OK;
    MF_TRY(differentiate_body(l));
    l->list = MF_ARENA_ARRAY(l->arena, int, l->d.n_taken);
    if (!l->list)
        return MF_NOMEM("gradients");
    MF_TRY(gradients_loop_go_forward(l));
    return gradients_loop_go_backward(l);
}

mf_status mf_grad_loop(mf_grad *g)
{
    gradients_loop l = { .g = g, .arena = g->graph->arena, .n = g->n_in };
    mf_status st;

    l.fixed = MF_ARENA_ARRAY(l.arena, bool, l.n);
    l.carried = MF_ARENA_ARRAY(l.arena, bool, l.n);
    l.gradient = MF_ARENA_ARRAY(l.arena, int, l.n);
    if (!l.fixed || !l.carried || !l.gradient)
        return MF_NOMEM("gradients");
    st = mf_diff_explain(gradients_loop_differentiate(&l), &l.d, g->node);
    mf_diff_close(&l.d);
    return st;
}
