/* SPDX-License-Identifier: Apache-2.0 */
/* inline.c - pass: function calls and functional control flow become nodes of the graph. Exact: the
 * same kernels run. It cannot be disabled: the executor does not support calls.
 * Recursive functions are refused, and graphs that grow beyond NODES_MAX (a few functions that call
 * each other twice can expand without limit). */
#include "compiler/inline.h"

#include "graph/function.h"

#include <stdio.h>
#include <string.h>

enum { NODES_MAX = 500000 };

/* The functions whose bodies a node was copied from, innermost first. */
typedef struct mf_inline_chain {
    const mf_function *function;
    const struct mf_inline_chain *outer;
    bool training; /* it, or an enclosing one, is the step of a shard */
    int64_t sample_offset; /* of that shard */
} chain;

/* The result of inlining a call. */
typedef struct replacement {
    mf_output *outs;
    mf_node *done; /* replaces the call in control edges; NULL: not a call, or not inlined yet */
} replacement;

struct mf_inliner {
    const chain **from; /* by node id; NULL: the original graph */
    int64_t cap;
    replacement *became; /* by node id */
    int64_t cap_became;
    const chain *current; /* of the node being inlined */
};

mf_status mf_inline_find(const mf_compile *c, const mf_node *n, const mf_func_ref *ref,
                         const mf_function **out)
{
    *out = mf_map_find(&c->graph->functions, ref->name);
    if (*out)
        return MF_OK;
    return MF_FAIL(MF_NOT_FOUND, "Function '%.200s' is not defined ({{node %s}})", ref->name,
                   n->name);
}

/* The node gets the origin of the node that is being inlined. */
static mf_status inline_adopt(mf_compile *c, const mf_node *node)
{
    MF_TRY(mf_grow(&c->inliner->from, &c->inliner->cap, c->graph->n_nodes, sizeof(chain *)));
    c->inliner->from[node->id] = c->inliner->current;
    return MF_OK;
}

mf_status mf_inline_node(mf_compile *c, const char *prefix, const char *op, const mf_output *in,
                         int n_in, const mf_named_attr *attrs, int n_attrs, mf_node **out)
{
    const char *name = mf_arena_printf(c->graph->arena, "%s/%s", prefix, op);
    mf_node_spec spec = {
        .op = op, .inputs = in, .n_inputs = n_in, .attrs = attrs, .n_attrs = n_attrs
    };

    if (c->graph->n_nodes >= NODES_MAX)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "inlining functions creates more than %d nodes; the functions call each "
                       "other too often",
                       NODES_MAX);
    spec.name = name ? mf_graph_unique_name(c->graph, name) : NULL;
    if (!spec.name)
        return MF_NOMEM("inlining");
    MF_TRY(mf_graph_add(c->graph, &spec, out));
    return inline_adopt(c, *out);
}

mf_status mf_inline_adopt(mf_compile *c, const mf_node *node)
{
    return node ? inline_adopt(c, node) : mf_graph_status(c->graph);
}

static void add_control(mf_compile *c, mf_node *to, mf_node *from)
{
    if (from && from != to)
        mf_control(c->graph, to, from);
}

/* ---- copying a body ---- */

typedef struct copier {
    mf_compile *c;
    const mf_inline_call *call;
    const mf_graph *body;
    mf_output **twin; /* by body node id: outputs in the graph, one per port */
} copier;

static bool inline_is_op(const mf_node *n, const char *name)
{
    return n->op && strcmp(n->op->name, name) == 0;
}

/* It depends on constants only: without a control input it would run even if the call does not. */
static bool needs_trigger(const mf_node *n)
{
    for (int i = 0; i < n->n_inputs; i++) {
        if (!inline_is_op(n->inputs[i].node, "Const") || n->inputs[i].node->n_controls > 0)
            return false;
    }
    return n->n_controls == 0 && !inline_is_op(n, "Const");
}

static bool takes_argument(const mf_node *n)
{
    for (int i = 0; i < n->n_inputs; i++) {
        if (inline_is_op(n->inputs[i].node, "_Arg"))
            return true;
    }
    return false;
}

static mf_status copy_arg(copier *k, const mf_node *n)
{
    const int64_t index = mf_node_int(n, "index");

    if (index < 0 || index >= k->call->n_args)
        return MF_FAIL(MF_INVALID_ARGUMENT, "function %s uses argument %lld, which is missing",
                       k->call->function->name, (long long)index);
    k->twin[n->id][0] = k->call->args[index];
    return MF_OK;
}

static mf_status copy_controls(copier *k, const mf_node *from, mf_node *to)
{
    for (int i = 0; i < from->n_controls; i++) {
        const mf_node *ctl = from->controls[i];

        /* A control edge from an argument waits for the call's inputs. */
        if (inline_is_op(ctl, "_Arg"))
            add_control(k->c, to, k->twin[ctl->id][0].node);
        else if (k->twin[ctl->id][ctl->n_outputs].node)
            add_control(k->c, to, k->twin[ctl->id][ctl->n_outputs].node);
    }
    if (k->call->pivot && /* arguments may be constants too */
        (needs_trigger(to) || (k->call->waits && takes_argument(from))))
        add_control(k->c, to, k->call->pivot);
    return mf_graph_status(k->c->graph);
}

/* Random numbers, and rows of a full batch, depend on the sample's index in it. */
static mf_status shift_samples(mf_compile *c, mf_node *n)
{
    const int64_t offset = (int64_t)((uint64_t)mf_node_int(n, "offset") +
                                     (uint64_t)c->inliner->current->sample_offset);

    return mf_node_set_attr(c->graph, n, "offset",
                            &(mf_attr){ .kind = MF_ATTR_INT, .n = 1, .i = offset });
}

mf_status mf_inline_clone(mf_compile *c, const mf_node *n, const char *prefix, const char *device,
                          const mf_output *in, mf_node **out)
{
    const char *name = mf_arena_printf(c->graph->arena, "%s/%s", prefix, n->name);
    mf_node_spec spec = { .op = n->op_name,
                          .device = n->device[0] ? n->device : device,
                          .inputs = in,
                          .n_inputs = n->n_inputs,
                          .attrs = n->attrs,
                          .n_attrs = n->n_attrs };

    if (c->graph->n_nodes >= NODES_MAX)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "inlining functions creates more than %d nodes",
                       NODES_MAX);
    spec.name = name ? mf_graph_unique_name(c->graph, name) : NULL;
    if (!spec.name)
        return MF_NOMEM("inlining");
    MF_TRY(mf_graph_add(c->graph, &spec, out));
    MF_TRY(inline_adopt(c, *out));
    if ((inline_is_op(n, "_SampleUniform") || inline_is_op(n, "_SampleRows")) &&
        c->inliner->current)
        MF_TRY(shift_samples(c, *out));
    for (int i = 0; i < (*out)->n_attrs; i++) { /* storage of constants belongs to the body */
        mf_attr *a = &(*out)->attrs[i].value;

        if (a->kind == MF_ATTR_TENSOR && !a->is_list &&
            !(a->tensor = mf_graph_own_tensor(c->graph, a->tensor)))
            return MF_NOMEM("inlining");
    }
    return MF_OK;
}

static mf_status inline_copy_node(copier *k, const mf_node *n)
{
    mf_output *in = MF_ARENA_ARRAY(k->c->graph->arena, mf_output, n->n_inputs);
    mf_node *twin;

    if (!in)
        return MF_NOMEM("inlining");
    for (int i = 0; i < n->n_inputs; i++)
        in[i] = k->twin[n->inputs[i].node->id][n->inputs[i].port];
    MF_TRY(mf_inline_clone(k->c, n, k->call->name, k->call->device, in, &twin));
    for (int i = 0; i <= n->n_outputs; i++) /* one extra: the node itself, for control edges */
        k->twin[n->id][i] = (mf_output){ twin, i };
    return copy_controls(k, n, twin);
}

/* A result that is a constant, or an argument, is always alive: make it wait for the call's pivot.
 */
static mf_status inline_copy_result(copier *k, const mf_node *n, mf_inline_result *out)
{
    mf_output from = k->twin[n->inputs[0].node->id][n->inputs[0].port];
    const int64_t index = mf_node_int(n, "index");

    if (index < 0 || index >= out->n_outs)
        return MF_FAIL(MF_INVALID_ARGUMENT, "function %s has no result %lld",
                       k->call->function->name, (long long)index);
    if (k->call->pivot && (inline_is_op(from.node, "Const") ||
                           (k->call->waits && inline_is_op(n->inputs[0].node, "_Arg")))) {
        mf_node *id;

        MF_TRY(mf_inline_node(k->c, k->call->name, "Identity", &from, 1, NULL, 0, &id));
        add_control(k->c, id, k->call->pivot);
        from = (mf_output){ id, 0 };
    }
    out->outs[index] = from;
    return mf_graph_status(k->c->graph);
}

static int inline_count_op(const mf_graph *g, const char *op)
{
    int n = 0;

    for (int64_t i = 0; i < g->n_nodes; i++)
        n += inline_is_op(g->nodes[i], op);
    return n;
}

static mf_status copy_body(copier *k, mf_node *const *order, int64_t n, mf_inline_result *out)
{
    mf_arena *arena = k->c->graph->arena;

    out->n_outs = inline_count_op(k->body, "_Retval");
    out->outs = MF_ARENA_ARRAY(arena, mf_output, out->n_outs);
    out->effects = MF_ARENA_ARRAY(arena, mf_node *, k->body->n_nodes);
    if (!out->outs || !out->effects)
        return MF_NOMEM("inlining");
    for (int64_t i = 0; i < n; i++) {
        const mf_node *node = order[i];

        k->twin[node->id] = MF_ARENA_ARRAY(arena, mf_output, node->n_outputs + 1);
        if (!k->twin[node->id])
            return MF_NOMEM("inlining");
        if (inline_is_op(node, "_Arg"))
            MF_TRY(copy_arg(k, node));
        else if (inline_is_op(node, "_Retval"))
            MF_TRY(inline_copy_result(k, node, out));
        else
            MF_TRY(inline_copy_node(k, node));
        if (mf_node_attr(node, "_control_ret") && !inline_is_op(node, "_Arg"))
            out->effects[out->n_effects++] = k->twin[node->id][node->n_outputs].node;
    }
    return MF_OK;
}

static mf_status check_recursion(const mf_compile *c, const mf_function *f)
{
    for (const chain *x = c->inliner->current; x; x = x->outer) {
        if (x->function == f)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "function '%s' calls itself; recursion is not supported", f->name);
    }
    return MF_OK;
}

mf_status mf_inline_chain(mf_compile *c, const mf_function *function, bool training,
                          int64_t sample_offset, const mf_inline_place **out)
{
    const chain *outer = c->inliner->current;
    chain *here = MF_ARENA_NEW(c->graph->arena, chain);

    MF_TRY(check_recursion(c, function));
    if (!here)
        return MF_NOMEM("inlining");
    *here = (chain){ .function = function,
                     .outer = outer,
                     .training = training || (outer && outer->training),
                     .sample_offset = training ? sample_offset
                                      : outer  ? outer->sample_offset
                                               : 0 };
    *out = here;
    return MF_OK;
}

const mf_inline_place *mf_inline_enter(mf_compile *c, const mf_inline_place *place)
{
    const chain *before = c->inliner->current;

    c->inliner->current = place;
    return before;
}

mf_status mf_inline_body(mf_compile *c, const mf_inline_call *call, mf_inline_result *out)
{
    copier k = { .c = c, .call = call };
    const mf_inline_place *outer, *here;
    mf_graph *body = NULL;
    mf_node **order = NULL;
    int64_t n;
    mf_status st;

    *out = (mf_inline_result){ 0 };
    MF_TRY(mf_inline_chain(c, call->function, false, 0, &here));
    st = mf_function_body(c->graph, call->function, call->attrs, call->n_attrs, &body);
    if (st == MF_OK) {
        k.body = body;
        k.twin = mf_calloc(body->n_nodes, sizeof *k.twin);
        order = mf_calloc(body->n_nodes, sizeof *order);
        st = k.twin && order ? mf_graph_order(body, order, &n) : MF_NOMEM("inlining");
    }
    outer = mf_inline_enter(c, here);
    if (st == MF_OK)
        st = copy_body(&k, order, n, out);
    (void)mf_inline_enter(c, outer);
    mf_free(k.twin);
    mf_free(order);
    mf_graph_free(body);
    return st;
}

/* ---- calls ---- */

static mf_status inline_call(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done)
{
    const mf_attr *f = n->op ? mf_node_attr(n, "f") : NULL;
    mf_inline_call call = { .function = n->function,
                            .attrs = f ? f->func->attrs : n->attrs,
                            .n_attrs = f ? f->func->n_attrs : n->n_attrs,
                            .args = n->inputs,
                            .n_args = n->n_inputs,
                            .waits = n->n_controls > 0,
                            .name = n->name,
                            .device = n->device };
    mf_inline_result r;

    if (f)
        MF_TRY(mf_inline_find(c, n, f->func, &call.function));
    MF_TRY(mf_inline_node(c, n->name, "NoOp", NULL, 0, NULL, 0, &call.pivot));
    for (int i = 0; i < n->n_controls; i++)
        add_control(c, call.pivot, n->controls[i]);
    for (int i = 0; i < n->n_inputs; i++) {
        if (!inline_is_op(n->inputs[i].node, "Const"))
            add_control(c, call.pivot, n->inputs[i].node);
    }
    MF_TRY(mf_inline_body(c, &call, &r));
    if (r.n_outs != n->n_outputs)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: function %s has %d results, not %d",
                       n->name, call.function->name, r.n_outs, n->n_outputs);
    for (int i = 0; i < r.n_outs; i++)
        outs[i] = r.outs[i];
    MF_TRY(mf_inline_node(c, n->name, "NoOp", NULL, 0, NULL, 0, done));
    add_control(c, *done, call.pivot);
    for (int i = 0; i < r.n_effects; i++)
        add_control(c, *done, r.effects[i]);
    for (int i = 0; i < r.n_outs; i++)
        add_control(c, *done, r.outs[i].node);
    return mf_graph_status(c->graph);
}

static mf_status choose_by_mode(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done)
{
    outs[0] = n->inputs[c->inliner->current && c->inliner->current->training ? 0 : 1];
    *done = outs[0].node;
    return MF_OK;
}

static mf_status replace_call(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done)
{
    if (!n->op || inline_is_op(n, "PartitionedCall") || inline_is_op(n, "StatefulPartitionedCall"))
        return inline_call(c, n, outs, done);
    if (inline_is_op(n, "If") || inline_is_op(n, "StatelessIf"))
        return mf_lower_if(c, n, outs, done);
    if (inline_is_op(n, "Case") || inline_is_op(n, "StatelessCase"))
        return mf_lower_case(c, n, outs, done);
    if (inline_is_op(n, "While") || inline_is_op(n, "StatelessWhile"))
        return mf_lower_while(c, n, outs, done);
    if (inline_is_op(n, "SymbolicGradient"))
        return mf_lower_gradient(c, n, outs, done);
    if (inline_is_op(n, "_ShardMap"))
        return mf_lower_shard_map(c, n, outs, done);
    if (inline_is_op(n, "_ByMode"))
        return choose_by_mode(c, n, outs, done);
    return mf_lower_rewritten(c, n, outs, done);
}

static const replacement *replacement_of(const mf_compile *c, const mf_node *n)
{
    const replacement *r = n->id < c->inliner->cap_became ? &c->inliner->became[n->id] : NULL;

    return r && r->done ? r : NULL;
}

/* Redirects consumers of a call to its replacement, which may be the result of another call. */
static void inline_redirect(const mf_compile *c, mf_node *u)
{
    const replacement *r;

    for (int k = 0; k < u->n_inputs; k++) {
        while ((r = replacement_of(c, u->inputs[k].node)) != NULL)
            u->inputs[k] = r->outs[u->inputs[k].port];
    }
    for (int k = 0; k < u->n_controls; k++) {
        while ((r = replacement_of(c, u->controls[k])) != NULL)
            u->controls[k] = r->done;
    }
}

static void redirect_all(mf_compile *c)
{
    for (int64_t i = 0; i < c->graph->n_nodes; i++) {
        if (!c->graph->nodes[i]->removed)
            inline_redirect(c, c->graph->nodes[i]);
    }
    for (int i = 0; i < c->n_targets; i++) {
        const replacement *r;

        while ((r = replacement_of(c, c->targets[i])) != NULL)
            c->targets[i] = r->done;
    }
}

static bool is_call(const mf_node *n)
{
    return !n->removed && (!n->op || n->op->control == MF_CONTROL_CALL);
}

static mf_status inline_all(mf_compile *c)
{
    /* New nodes are appended, so calls inside bodies are handled later in the same loop. */
    for (int64_t i = 0; i < c->graph->n_nodes; i++) {
        mf_node *n = c->graph->nodes[i], *done = NULL;
        mf_output *outs;

        if (!is_call(n))
            continue;
        outs = MF_ARENA_ARRAY(c->graph->arena, mf_output, n->n_outputs);
        if (!outs)
            return MF_NOMEM("inlining");
        c->inliner->current = i < c->inliner->cap ? c->inliner->from[i] : NULL;
        inline_redirect(c, n);
        MF_TRY(replace_call(c, n, outs, &done));
        n->removed = true;
        MF_TRY(mf_grow(&c->inliner->became, &c->inliner->cap_became, i + 1, sizeof(replacement)));
        c->inliner->became[i] = (replacement){ outs, done };
    }
    redirect_all(c);
    return mf_compile_sweep(c);
}

mf_status mf_pass_inline(mf_compile *c)
{
    struct mf_inliner inliner = { 0 };
    bool any = false;
    mf_status st = MF_OK;

    for (int64_t i = 0; i < c->graph->n_nodes && !any; i++)
        any = is_call(c->graph->nodes[i]);
    if (!any)
        return MF_OK;
    c->inliner = &inliner;
    if (mf_grow(&inliner.from, &inliner.cap, c->graph->n_nodes, sizeof(chain *)) != MF_OK)
        st = MF_NOMEM("inlining");
    if (st == MF_OK)
        st = inline_all(c);
    mf_free(inliner.from);
    mf_free(inliner.became);
    c->inliner = NULL;
    return st;
}
