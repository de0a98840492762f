/* SPDX-License-Identifier: Apache-2.0 */
/* update_fusion.c - pass: merges Apply ops of one kind with equal attributes and identical scalars,
 * on different variables, into one _ApplyMany. A model of many small weights then has one update
 * instead of hundreds.
 * The merged ops must be independent. A node's depth is the largest number of Apply ops on a path
 * to it: ops of one depth have no path between them, and nodes that depend on one have a greater
 * depth, so merging all ops of a depth creates no cycle. Exact: _ApplyMany runs the loops of the
 * original ops. */
#include "compiler/flow_context.h"

#include <string.h>

static const char prefix[] = "ResourceApply";

typedef struct update_fusion_group {
    mf_node *first; /* the others are equal to it */
    mf_node **nodes;
    int n, cap;
    int depth, context;
    mf_map variables; /* by name: the written variables */
    mf_node *joined;
    struct update_fusion_group *next;
} update_fusion_group;

typedef struct joiner {
    mf_compile *c;
    mf_contexts *contexts;
    int *depths; /* by node id */
    update_fusion_group **of; /* by node id: usually NULL */
    update_fusion_group *groups;
} joiner;

/* ---- selection ---- */

/* The number of handles, which come first. */
static int handles(const mf_node *n)
{
    int i = 0;

    while (i < n->n_inputs && n->in_types[i] == MF_DTYPE_RESOURCE)
        i++;
    return i;
}

static int gradient(const mf_node *n)
{
    for (int i = handles(n); i < n->n_inputs; i++) {
        if (strcmp(n->def->in[i].name, "grad") == 0 || strcmp(n->def->in[i].name, "delta") == 0)
            return i;
    }
    return -1;
}

static bool is_update(const mf_node *n)
{
    return n->op && n->n_outputs == 0 && n->def->n_in == n->n_inputs &&
           strncmp(n->op->name, prefix, sizeof prefix - 1) == 0 && gradient(n) >= 0;
}

/* The name of a handle's variable; NULL: it comes from elsewhere, and could be any. */
static const char *variable_name(const mf_compile *c, mf_output handle)
{
    const mf_node *n = handle.node;
    const char *shared;

    if (!n->op || strcmp(n->op->name, "VarHandleOp") != 0)
        return NULL;
    shared = mf_node_string(n, "shared_name");
    return mf_arena_printf(c->graph->arena, "%s;%s", mf_node_string(n, "container"),
                           *shared ? shared : n->name);
}

static bool update_fusion_same_attrs(const mf_node *a, const mf_node *b)
{
    if (a->n_attrs != b->n_attrs)
        return false;
    for (int i = 0; i < a->n_attrs; i++) {
        if (strcmp(a->attrs[i].name, b->attrs[i].name) != 0 ||
            !mf_attr_equal(&a->attrs[i].value, &b->attrs[i].value))
            return false;
    }
    return true;
}

static bool same_rule(const mf_node *a, const mf_node *b)
{
    const int grad = gradient(a);

    if (a->op != b->op || strcmp(a->device, b->device) != 0 || !update_fusion_same_attrs(a, b))
        return false;
    for (int i = handles(a); i < a->n_inputs; i++) {
        if (i != grad &&
            (a->inputs[i].node != b->inputs[i].node || a->inputs[i].port != b->inputs[i].port))
            return false;
    }
    return true;
}

/* Two updates of one variable remain two ops. *fits: false, and nothing was added. */
static mf_status claim_variables(joiner *j, update_fusion_group *g, const mf_node *n, bool *fits)
{
    const char *names[8];
    const int count = handles(n);

    *fits = count <= MF_COUNT(names);
    for (int i = 0; i < count && *fits; i++) {
        names[i] = variable_name(j->c, n->inputs[i]);
        *fits = names[i] && !mf_map_find(&g->variables, names[i]);
    }
    for (int i = 0; i < count && *fits; i++)
        MF_TRY(mf_map_set(&g->variables, names[i], g));
    return MF_OK;
}

/* ---- grouping ---- */

static update_fusion_group *find_group(const joiner *j, const mf_node *n, int context)
{
    for (update_fusion_group *g = j->groups; g; g = g->next) {
        if (g->depth == j->depths[n->id] && g->context == context && same_rule(g->first, n))
            return g;
    }
    return NULL;
}

static mf_status update_fusion_add_member(joiner *j, mf_node *n)
{
    const int context = mf_context_of_node(j->contexts, n);
    mf_arena *arena = j->c->graph->arena;
    update_fusion_group *g = find_group(j, n, context);
    bool fits;

    if (!g) {
        g = MF_ARENA_NEW(arena, update_fusion_group);
        if (!g)
            return MF_NOMEM("compiling");
        *g = (update_fusion_group){ .first = n, .depth = j->depths[n->id], .context = context };
        g->next = j->groups;
        j->groups = g;
    }
    MF_TRY(claim_variables(j, g, n, &fits));
    if (!fits)
        return MF_OK;
    if (g->n == g->cap) {
        mf_node **more = MF_ARENA_ARRAY(arena, mf_node *, g->cap * 2 + 8);

        if (!more)
            return MF_NOMEM("compiling");
        if (g->n > 0)
            memcpy(more, g->nodes, (size_t)g->n * sizeof *more);
        g->nodes = more;
        g->cap = g->cap * 2 + 8;
    }
    g->nodes[g->n++] = n;
    j->of[n->id] = g;
    return MF_OK;
}

static void find_depth(joiner *j, const mf_node *n)
{
    int depth = 0;

    for (int i = 0; i < n->n_inputs + n->n_controls; i++) {
        const mf_node *from = i < n->n_inputs ? n->inputs[i].node : n->controls[i - n->n_inputs];
        const int behind = j->depths[from->id] + is_update(from);

        depth = behind > depth ? behind : depth;
    }
    j->depths[n->id] = depth;
}

static mf_status find_groups(joiner *j, mf_node *const *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        find_depth(j, order[i]);
        if (is_update(order[i]))
            MF_TRY(update_fusion_add_member(j, order[i]));
    }
    return MF_OK;
}

/* ---- merging ---- */

static mf_status all_controls(const joiner *j, const update_fusion_group *g, mf_node ***out,
                              int *n_out)
{
    int most = 0, n = 0;
    mf_node **all;

    for (int i = 0; i < g->n; i++)
        most += g->nodes[i]->n_controls;
    all = MF_ARENA_ARRAY(j->c->graph->arena, mf_node *, most + 1);
    if (!all)
        return MF_NOMEM("compiling");
    for (int i = 0; i < g->n; i++) {
        for (int k = 0; k < g->nodes[i]->n_controls; k++) {
            int at = 0;

            while (at < n && all[at] != g->nodes[i]->controls[k])
                at++;
            all[at] = g->nodes[i]->controls[k];
            n += at == n;
        }
    }
    *out = all;
    *n_out = n;
    return MF_OK;
}

/* The handles of all ops, their gradients, then the scalars. */
static mf_status all_inputs(const joiner *j, const update_fusion_group *g, mf_output **out,
                            int *n_out)
{
    const int slots = handles(g->first), grad = gradient(g->first);
    const int scalars = g->first->n_inputs - slots - 1;
    mf_output *in = MF_ARENA_ARRAY(j->c->graph->arena, mf_output, g->n * (slots + 1) + scalars);
    int n = 0;

    if (!in)
        return MF_NOMEM("compiling");
    for (int i = 0; i < g->n; i++) {
        for (int k = 0; k < slots; k++)
            in[n++] = g->nodes[i]->inputs[k];
    }
    for (int i = 0; i < g->n; i++)
        in[n++] = g->nodes[i]->inputs[grad];
    for (int i = slots; i < g->first->n_inputs; i++) {
        if (i != grad)
            in[n++] = g->first->inputs[i];
    }
    *out = in;
    *n_out = n;
    return MF_OK;
}

static mf_attr update_fusion_int_attr(int64_t i)
{
    return (mf_attr){ .kind = MF_ATTR_INT, .n = 1, .i = i };
}

static mf_status all_attrs(const joiner *j, const update_fusion_group *g, mf_named_attr **out,
                           int *n_out)
{
    const mf_node *f = g->first;
    const int slots = handles(f), grad = gradient(f);
    mf_arena *arena = j->c->graph->arena;
    mf_named_attr *attrs = MF_ARENA_ARRAY(arena, mf_named_attr, f->n_attrs + 4);
    mf_attr types = { .kind = MF_ATTR_TYPE, .is_list = true };
    const mf_attr rule = { .kind = MF_ATTR_STRING,
                           .n = 1,
                           .s = { f->op->name, strlen(f->op->name) } };
    int n = f->n_attrs;

    types.ints = MF_ARENA_ARRAY(arena, int64_t, f->n_inputs);
    if (!attrs || !types.ints)
        return MF_NOMEM("compiling");
    memcpy(attrs, f->attrs, (size_t)f->n_attrs * sizeof *attrs);
    for (int i = slots; i < f->n_inputs; i++) {
        if (i != grad)
            types.ints[types.n++] = (int64_t)f->in_types[i];
    }
    attrs[n++] = (mf_named_attr){ "M", update_fusion_int_attr((int64_t)g->n * slots) };
    attrs[n++] = (mf_named_attr){ "N", update_fusion_int_attr(g->n) };
    attrs[n++] = (mf_named_attr){ "Thyper", types };
    attrs[n++] = (mf_named_attr){ "rule", rule };
    *out = attrs;
    *n_out = n;
    return MF_OK;
}

static mf_status update_fusion_join(joiner *j, update_fusion_group *g)
{
    mf_node_spec spec = { .op = "_ApplyMany",
                          .name = mf_graph_unique_name(j->c->graph, g->first->name),
                          .device = g->first->device };
    mf_named_attr *attrs;
    mf_node **controls;
    mf_output *inputs;

    MF_TRY(all_inputs(j, g, &inputs, &spec.n_inputs));
    MF_TRY(all_controls(j, g, &controls, &spec.n_controls));
    MF_TRY(all_attrs(j, g, &attrs, &spec.n_attrs));
    spec.inputs = inputs;
    spec.controls = controls;
    spec.attrs = attrs;
    return mf_graph_add(j->c->graph, &spec, &g->joined);
}

/* The current replacement of n. */
static mf_node *update_fusion_now(const joiner *j, mf_node *n, int64_t n_old)
{
    const update_fusion_group *g = n->id < n_old ? j->of[n->id] : NULL;

    return g && g->joined ? g->joined : n;
}

/* Consumers that waited for one of the ops wait for the merged one. */
static void update_fusion_redirect(joiner *j, int64_t n_old)
{
    for (int64_t i = 0; i < j->c->graph->n_nodes; i++) {
        mf_node *n = j->c->graph->nodes[i];
        int count = 0;

        for (int k = 0; k < n->n_controls; k++) {
            mf_node *to = update_fusion_now(j, n->controls[k], n_old);
            int at = 0;

            while (to != n->controls[k] && at < count && n->controls[at] != to)
                at++;
            if (to == n->controls[k] || at == count)
                n->controls[count++] = to;
        }
        n->n_controls = count;
    }
    for (int i = 0; i < j->c->n_targets; i++)
        j->c->targets[i] = update_fusion_now(j, j->c->targets[i], n_old);
}

static mf_status update_fusion_join_all(joiner *j, mf_node *const *order, int64_t n)
{
    const int64_t n_old = j->c->graph->n_nodes;
    bool any = false;
    mf_status st = find_groups(j, order, n);

    for (update_fusion_group *g = j->groups; g && st == MF_OK; g = g->next) {
        if (g->n < 2)
            continue;
        any = true;
        st = update_fusion_join(j, g);
    }
    for (update_fusion_group *g = j->groups; g; g = g->next)
        mf_map_deinit(&g->variables);
    if (st != MF_OK || !any)
        return st;
    update_fusion_redirect(j, n_old);
    return mf_compile_sweep(j->c);
}

mf_status mf_pass_updates(mf_compile *c)
{
    joiner j = { .c = c };
    mf_node **order = NULL;
    int64_t n;
    mf_status st = mf_compile_order(c, &order, &n);

    j.depths = mf_calloc(c->graph->n_nodes, sizeof *j.depths);
    j.of = mf_calloc(c->graph->n_nodes, sizeof(update_fusion_group *));
    if (st == MF_OK && (!j.depths || !j.of))
        st = MF_NOMEM("compiling");
    if (st == MF_OK)
        st = mf_contexts_new(c, order, n, &j.contexts);
    if (st == MF_OK)
        st = update_fusion_join_all(&j, order, n);
    mf_contexts_free(j.contexts);
    mf_free(j.of);
    mf_free(j.depths);
    mf_free(order);
    return st;
}
