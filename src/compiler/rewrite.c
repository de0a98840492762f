/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite.c - shared by passes: order, replacing outputs, sweeping, evaluating. */
#include "compiler/compiler.h"
#include "compiler/flow_context.h"

#include <string.h>

mf_status mf_compile_order(const mf_compile *c, mf_node ***order, int64_t *n)
{
    mf_status st;

    *order = mf_calloc(c->graph->n_nodes, sizeof **order);
    if (!*order)
        return MF_NOMEM("compiling");
    st = mf_graph_order(c->graph, *order, n);
    if (st != MF_OK) {
        mf_free(*order);
        *order = NULL;
    }
    return st;
}

mf_status mf_subst_init(mf_subst *s, const mf_compile *c)
{
    s->n = c->graph->n_nodes;
    s->to = mf_calloc(s->n, sizeof *s->to);
    return s->to ? MF_OK : MF_NOMEM("compiling");
}

void mf_subst_deinit(mf_subst *s)
{
    mf_free(s->to);
    s->to = NULL;
}

mf_status mf_subst_add(mf_subst *s, mf_compile *c, mf_output from, mf_output to)
{
    if (from.node->id >= s->n)
        return MF_FAIL(MF_INTERNAL, "{{node %s}} was added after the pass began", from.node->name);
    if (!s->to[from.node->id]) {
        s->to[from.node->id] = MF_ARENA_ARRAY(c->graph->arena, mf_output, from.node->n_outputs);
        if (!s->to[from.node->id])
            return MF_NOMEM("compiling");
    }
    s->to[from.node->id][from.port] = to;
    return MF_OK;
}

mf_output mf_subst_resolve(const mf_subst *s, mf_output o)
{
    while (o.node && o.node->id < s->n && s->to[o.node->id] && s->to[o.node->id][o.port].node)
        o = s->to[o.node->id][o.port];
    return o;
}

/* The node that a control edge can wait for instead of this op, which has no effect: the producer
 * of its replacement. Both must have the same context: the op has no other inputs but constants,
 * and no Switch lies between. */
static mf_node *rewrite_wait_for(const mf_subst *s, mf_node *n)
{
    mf_node *to;

    if (n->n_outputs != 1 || n->n_controls > 0 || !mf_node_is_pure(n))
        return n;
    to = mf_subst_resolve(s, (mf_output){ n, 0 }).node;
    if (!to || !to->op || to->op->control != MF_CONTROL_NONE || mf_node_is_constant(to))
        return n;
    for (int i = 0; i < n->n_inputs; i++) {
        const mf_node *in = mf_subst_resolve(s, n->inputs[i]).node;

        if (in != to && !mf_node_is_constant(in))
            return n;
    }
    return to;
}

mf_status mf_subst_apply(mf_subst *s, mf_compile *c)
{
    for (int64_t i = 0; i < c->graph->n_nodes; i++) {
        mf_node *n = c->graph->nodes[i];

        for (int k = 0; k < n->n_inputs && !n->removed; k++)
            n->inputs[k] = mf_subst_resolve(s, n->inputs[k]);
        for (int k = 0; k < n->n_controls && !n->removed; k++)
            n->controls[k] = rewrite_wait_for(s, n->controls[k]);
    }
    return mf_compile_sweep(c);
}

/* ---- sweeping ---- */

typedef struct sweeper {
    bool *live;
    mf_node **stack;
    int64_t depth;
} sweeper;

static void reach(sweeper *s, mf_node *n)
{
    if (s->live[n->id])
        return;
    s->live[n->id] = true;
    s->stack[s->depth++] = n;
}

mf_status mf_compile_sweep(mf_compile *c)
{
    const int64_t n_nodes = c->graph->n_nodes;
    sweeper s = { .live = mf_calloc(n_nodes, sizeof(bool)),
                  .stack = mf_calloc(n_nodes, sizeof(mf_node *)) };
    mf_status st = s.live && s.stack ? MF_OK : MF_NOMEM("compiling");

    if (st == MF_OK) {
        for (int i = 0; i < c->n_fetches; i++)
            reach(&s, c->fetches[i]);
        for (int i = 0; i < c->n_targets; i++)
            reach(&s, c->targets[i]);
        for (int i = 0; i < c->n_feeds; i++)
            s.live[c->feeds[i]->id] = true; /* kept even if unused: positions are fixed */
        while (s.depth > 0) {
            mf_node *n = s.stack[--s.depth];

            for (int i = 0; i < n->n_inputs; i++)
                reach(&s, n->inputs[i].node);
            for (int i = 0; i < n->n_controls; i++)
                reach(&s, n->controls[i]);
        }
        for (int64_t i = 0; i < n_nodes; i++)
            c->graph->nodes[i]->removed = !s.live[i];
    }
    mf_free(s.live);
    mf_free(s.stack);
    return st;
}

/* ---- evaluating ---- */

bool mf_node_is_pure(const mf_node *node)
{
    if (!node->op || !mf_node_kernel(node)->run || node->def->is_stateful ||
        node->op->control != MF_CONTROL_NONE)
        return false;
    for (int i = 0; i < node->n_inputs; i++) {
        if (mf_type_is_ref(node->in_types[i]) || node->in_types[i] == MF_DTYPE_RESOURCE ||
            node->in_types[i] == MF_DTYPE_VARIANT)
            return false;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        if (mf_type_is_ref(node->out_types[i]) || node->out_types[i] == MF_DTYPE_RESOURCE ||
            node->out_types[i] == MF_DTYPE_VARIANT)
            return false;
    }
    return true;
}

bool mf_node_has_effect(const mf_node *n)
{
    return n->op && n->op->control == MF_CONTROL_NONE && n->def->is_stateful &&
           strcmp(n->op_name, "VarHandleOp") != 0 && strcmp(n->op_name, "ReadVariableOp") != 0 &&
           strcmp(n->op_name, "ResourceGather") != 0;
}

enum { EVAL_PORTS = 32 };

static mf_status evaluate(const mf_node *node, const mf_kernel_def *def, void *state,
                          const mf_tensor *const *in, mf_tensor *out, mf_pool *pool)
{
    mf_tensor *outs[EVAL_PORTS];
    mf_cancel cancel;
    mf_step step = { .pool = pool, .cancel = &cancel };
    mf_kernel k = { .node = node,
                    .def = def,
                    .state = state,
                    .step = &step,
                    .in = in,
                    .out = outs,
                    .n_in = node->n_inputs,
                    .n_out = node->n_outputs };
    mf_status st;

    for (int i = 0; i < node->n_outputs; i++)
        outs[i] = &out[i];
    mf_cancel_init(&cancel);
    st = def->run(&k);
    mf_cancel_deinit(&cancel);
    return st;
}

mf_status mf_node_evaluate(const mf_node *node, const mf_tensor *const *in, mf_tensor *out,
                           mf_pool *pool)
{
    mf_arena *arena = mf_arena_new();
    mf_shape shapes[EVAL_PORTS];
    const mf_kernel_def *def = mf_node_kernel(node);
    mf_prepare p = { .node = node, .arena = arena, .in = shapes };
    mf_status st = arena ? MF_OK : MF_NOMEM("evaluating a node");

    if (st == MF_OK && (node->n_inputs > EVAL_PORTS || node->n_outputs > EVAL_PORTS))
        st = MF_FAIL(MF_UNIMPLEMENTED, "{{node %s}} has too many ports to fold", node->name);
    for (int i = 0; st == MF_OK && i < node->n_inputs; i++)
        shapes[i] = in[i]->shape;
    if (st == MF_OK && def->prepare)
        st = def->prepare(&p);
    if (st == MF_OK) {
        st = evaluate(node, def, p.state, in, out, pool);
        if (def->release && p.state)
            def->release(p.state);
    }
    for (int i = 0; st != MF_OK && i < node->n_outputs; i++)
        mf_tensor_clear(&out[i]);
    mf_arena_free(arena);
    return st;
}
