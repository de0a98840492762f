/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - graphs as containers: nodes, names, owned tensors, copies, order. */
#include "graph/graph.h"

#include "base/host_state.h"
#include "graph/op.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

mf_status mf_graph_new(mf_graph **out)
{
    MF_ENTRY_SMALL;
    MF_NEED(out);

    mf_graph *g = mf_calloc(1, sizeof *g);

    *out = NULL;
    if (!g)
        return MF_NOMEM("a graph");
    g->arena = mf_arena_new();
    g->scope = "";
    g->library = g;
    if (!g->arena) {
        mf_free(g);
        return MF_NOMEM("a graph");
    }
    *out = g;
    return MF_OK;
}

void mf_graph_free(mf_graph *graph)
{
    MF_ENTRY_OR();

    if (!graph)
        return;
    for (mf_graph_tensor *t = graph->tensors; t; t = t->next)
        mf_tensor_clear(&t->tensor);
    mf_map_deinit(&graph->names);
    mf_map_deinit(&graph->functions);
    mf_map_deinit(&graph->unique);
    mf_map_deinit(&graph->gradients);
    mf_free(graph->nodes);
    mf_arena_free(graph->arena);
    mf_free(graph->failed);
    mf_free(graph);
}

void mf_graph_fail(mf_graph *graph, mf_status status)
{
    if (!graph || graph->failed)
        return;
    graph->failed = mf_calloc(1, sizeof *graph->failed);
    if (graph->failed)
        mf_error_save(status, graph->failed);
}

bool mf_graph_refuses(mf_graph *graph, mf_status status)
{
    if (status != MF_OK)
        mf_graph_fail(graph, status);
    return status != MF_OK || graph->failed;
}

bool mf_graph_has(const mf_graph *graph, const mf_node *node)
{
    return node->id >= 0 && node->id < graph->n_nodes && graph->nodes[node->id] == node;
}

mf_status mf_graph_owns(const mf_graph *graph, mf_output output, const char *what, int i)
{
    const mf_node *n = output.node;

    if (!n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: input %d is an empty output", what, i);
    if (!mf_graph_has(graph, n))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%s: input %d, '%s:%d', belongs to another graph or model", what, i, n->name,
                       output.port);
    if (output.port < 0 || output.port >= n->n_outputs)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%s: input %d is output %d of the node '%s', which has %d", what, i,
                       output.port, n->name, n->n_outputs);
    return MF_OK;
}

mf_status mf_graph_owns_all(const mf_graph *graph, const mf_output *outputs, int n,
                            const char *what)
{
    for (int i = 0; i < n; i++)
        MF_TRY(mf_graph_owns(graph, outputs[i], what, i));
    return MF_OK;
}

mf_status mf_graph_status(const mf_graph *graph)
{
    MF_ENTRY_SMALL;
    MF_NEED(graph);

    return graph->failed ? mf_error_restore(graph->failed) : MF_OK;
}

mf_node *mf_graph_find(const mf_graph *graph, const char *name)
{
    MF_ENTRY_OR(NULL);
    if (!graph || !name)
        return NULL;

    return mf_map_find(&graph->names, name);
}

const char *mf_node_name(const mf_node *node)
{
    return node ? node->name : NULL;
}

mf_tensor *mf_graph_own_tensor(mf_graph *graph, const mf_tensor *tensor)
{
    mf_graph_tensor *kept = MF_ARENA_NEW(graph->arena, mf_graph_tensor);

    if (!kept)
        return NULL;
    mf_tensor_set(&kept->tensor, tensor);
    kept->next = graph->tensors;
    graph->tensors = kept;
    return &kept->tensor;
}

const char *mf_graph_unique_name(mf_graph *graph, const char *base)
{
    const char *name = mf_arena_printf(graph->arena, "%s%s", graph->scope, base);
    int64_t *counter;

    if (!name)
        return NULL;
    counter = mf_map_find(&graph->unique, name);
    if (!counter) {
        counter = MF_ARENA_NEW(graph->arena, int64_t);
        if (!counter || mf_map_set(&graph->unique, name, counter) != MF_OK)
            return NULL;
    }
    if (!mf_graph_find(graph, name))
        return name;
    for (;;) {
        const char *numbered = mf_arena_printf(graph->arena, "%s_%" PRId64, name, ++*counter);

        if (!numbered || !mf_graph_find(graph, numbered))
            return numbered;
    }
}

/* ---- order ---- */

/* The edge that closes a loop; all other edges must be acyclic. */
static bool graph_is_back_edge(const mf_node *from, const mf_node *to)
{
    return to->op && to->op->control == MF_CONTROL_MERGE && from->op &&
           from->op->control == MF_CONTROL_NEXT; /* in this order: `to` may not be initialised */
}

typedef struct visit {
    mf_node *node;
    int next; /* next input to visit; controls come after the data inputs */
} visit;

static mf_node *visit_next(visit *v)
{
    mf_node *const n = v->node;

    while (v->next < n->n_inputs + n->n_controls) {
        const int i = v->next++;
        mf_node *from = i < n->n_inputs ? n->inputs[i].node : n->controls[i - n->n_inputs];

        if (from && !graph_is_back_edge(from, n))
            return from;
    }
    return NULL;
}

mf_status mf_graph_order(const mf_graph *graph, mf_node **order, int64_t *n)
{
    /* Depth-first without recursion: a chain of a million nodes is valid. */
    char *mark = mf_calloc(graph->n_nodes, 1); /* 0 new, 1 on the stack, 2 done */
    visit *stack = mf_calloc(graph->n_nodes, sizeof *stack);
    mf_status st = MF_OK;

    *n = 0;
    if (!mark || !stack)
        st = MF_NOMEM("ordering a graph");
    for (int64_t i = 0; st == MF_OK && i < graph->n_nodes; i++) {
        int64_t depth = 0;

        if (mark[i] != 0 || graph->nodes[i]->removed)
            continue;
        stack[depth++] = (visit){ .node = graph->nodes[i] };
        mark[i] = 1;
        while (depth > 0) {
            mf_node *from = visit_next(&stack[depth - 1]);

            if (!from) {
                mf_node *done = stack[--depth].node;

                mark[done->id] = 2;
                order[(*n)++] = done;
            } else if (mark[from->id] == 1) {
                st = MF_FAIL(MF_INVALID_ARGUMENT,
                             "the graph has a cycle through {{node %s}} and {{node %s}}",
                             from->name, stack[depth - 1].node->name);
                break;
            } else if (mark[from->id] == 0) {
                mark[from->id] = 1;
                stack[depth++] = (visit){ .node = from };
            }
        }
    }
    mf_free(mark);
    mf_free(stack);
    return st;
}

/* ---- copies ---- */

static mf_status graph_copy_attrs(const mf_node *src, mf_graph *dst, mf_node *n)
{
    n->attrs = MF_ARENA_ARRAY(dst->arena, mf_named_attr, src->n_attrs + 4);
    if (!n->attrs)
        return MF_NOMEM("a graph");
    for (int i = 0; i < src->n_attrs; i++) {
        mf_attr *a = &n->attrs[i].value;

        n->attrs[i].name = mf_arena_strdup(dst->arena, src->attrs[i].name);
        if (!n->attrs[i].name)
            return MF_NOMEM("a graph");
        MF_TRY(mf_attr_copy(&src->attrs[i].value, dst->arena, a));
        if (a->kind == MF_ATTR_TENSOR && !a->is_list) {
            a->tensor = mf_graph_own_tensor(dst, a->tensor);
            if (!a->tensor)
                return MF_NOMEM("a graph");
        }
        for (int64_t k = 0; a->kind == MF_ATTR_TENSOR && a->is_list && k < a->n; k++) {
            a->tensors[k] = mf_graph_own_tensor(dst, a->tensors[k]);
            if (!a->tensors[k])
                return MF_NOMEM("a graph");
        }
    }
    n->n_attrs = src->n_attrs;
    return MF_OK;
}

/* Everything except the edges. Signatures of functions belong to the source and are looked up
 * again. */
static mf_status graph_copy_node(const mf_node *src, mf_graph *dst, mf_node **out)
{
    mf_node *n = MF_ARENA_NEW(dst->arena, mf_node);

    if (!n)
        return MF_NOMEM("a graph");
    *n = *src;
    n->name = mf_arena_strdup(dst->arena, src->name);
    n->device = mf_arena_strdup(dst->arena, src->device);
    n->inputs = MF_ARENA_ARRAY(dst->arena, mf_output, src->n_inputs);
    n->controls = MF_ARENA_ARRAY(dst->arena, mf_node *, src->n_controls);
    n->in_types = MF_ARENA_ARRAY(dst->arena, mf_dtype, src->n_inputs);
    n->out_types = MF_ARENA_ARRAY(dst->arena, mf_dtype, src->n_outputs);
    n->unknown.data =
        mf_arena_strndup(dst->arena, src->unknown.len ? src->unknown.data : "", src->unknown.len);
    if (!n->name || !n->device || !n->inputs || !n->controls || !n->in_types || !n->out_types ||
        !n->unknown.data)
        return MF_NOMEM("a graph");
    memcpy(n->in_types, src->in_types, (size_t)src->n_inputs * sizeof(mf_dtype));
    memcpy(n->out_types, src->out_types, (size_t)src->n_outputs * sizeof(mf_dtype));
    if (src->op) {
        n->op_name = src->op->name;
    } else {
        n->function = mf_graph_function(dst, src->op_name);
        MF_ASSERT(n->function);
        n->op_name = n->function->name;
        n->def = n->function->def;
    }
    MF_TRY(graph_copy_attrs(src, dst, n));
    n->id = (int)dst->n_nodes;
    MF_TRY(mf_grow(&dst->nodes, &dst->cap_nodes, dst->n_nodes + 1, sizeof(mf_node *)));
    dst->nodes[dst->n_nodes++] = n;
    *out = n;
    return mf_map_set(&dst->names, n->name, n);
}

static mf_status copy_functions(const mf_graph *src, mf_graph *dst)
{
    int64_t it = 0;

    for (const mf_map_entry *e; (e = mf_map_next(&src->functions, &it)) != NULL;) {
        const mf_function *f = e->value;

        if (!mf_map_find(&dst->functions, f->name))
            MF_TRY(mf_graph_add_function(dst, f->bytes.data, f->bytes.len));
    }
    it = 0;
    for (const mf_map_entry *e; (e = mf_map_next(&src->gradients, &it)) != NULL;) {
        char *of, *is;

        if (mf_map_find(&dst->gradients, e->key))
            continue;
        of = mf_arena_strdup(dst->arena, e->key);
        is = mf_arena_strdup(dst->arena, e->value);
        if (!of || !is)
            return MF_NOMEM("a function");
        MF_TRY(mf_map_set(&dst->gradients, of, is));
    }
    return MF_OK;
}

static void copy_edges(const mf_node *src, mf_node *dst, mf_node *const *twin)
{
    int kept = 0;

    for (int i = 0; i < src->n_inputs; i++)
        dst->inputs[i] = (mf_output){ src->inputs[i].node ? twin[src->inputs[i].node->id] : NULL,
                                      src->inputs[i].port };
    for (int i = 0; i < src->n_controls; i++) {
        mf_node *c = twin[src->controls[i]->id];

        if (c)
            dst->controls[kept++] = c;
    }
    dst->n_controls = kept;
}

mf_node *mf_node_reshapes(const mf_node *node)
{
    if (strcmp(node->op_name, "Assign") != 0 || mf_node_bool(node, "validate_shape"))
        return NULL;
    /* Forwarded references: RefSwitch, RefIdentity. Loops may form cycles. */
    for (int hops = 0; node && node->n_inputs > 0 && mf_type_is_ref(node->in_types[0]); hops++)
        node = hops < 64 ? node->inputs[0].node : NULL;
    return (mf_node *)node;
}

static mf_status copy_all(const mf_graph *src, const bool *keep, mf_graph *dst, mf_node **twin)
{
    MF_TRY(copy_functions(src->library, dst)); /* for a body: the functions it calls */
    for (int64_t i = 0; i < src->n_nodes; i++) {
        if (!src->nodes[i]->removed && (!keep || keep[i]))
            MF_TRY(graph_copy_node(src->nodes[i], dst, &twin[i]));
    }
    for (int64_t i = 0; i < src->n_nodes; i++) {
        if (twin[i])
            copy_edges(src->nodes[i], twin[i], twin);
    }
    for (int64_t i = 0; i < src->n_nodes; i++) {
        const mf_node *variable = src->nodes[i]->removed ? NULL : mf_node_reshapes(src->nodes[i]);

        if (variable && twin[variable->id])
            twin[variable->id]->any_shape = true;
    }
    dst->producer = src->producer;
    dst->min_consumer = src->min_consumer;
    return MF_OK;
}

mf_status mf_graph_copy(const mf_graph *src, const bool *keep, mf_graph **out)
{
    mf_node **twin = mf_calloc(src->n_nodes, sizeof *twin);
    mf_graph *dst = NULL;
    mf_status st;

    *out = NULL;
    st = twin ? mf_graph_new(&dst) : MF_NOMEM("a graph");
    if (st == MF_OK)
        st = copy_all(src, keep, dst, twin);
    if (st == MF_OK)
        *out = dst;
    else
        mf_graph_free(dst);
    mf_free(twin);
    return st;
}

/* A call that has more outputs in src. */
static mf_status grow_node(mf_graph *dst, const mf_node *src, mf_node *old, mf_node *const *twin)
{
    mf_node like = *src;
    mf_node_spec spec = { .op = src->op_name,
                          .device = src->device,
                          .n_inputs = src->n_inputs,
                          .attrs = src->attrs,
                          .n_attrs = src->n_attrs,
                          .unknown = old->unknown };

    like.inputs = MF_ARENA_ARRAY(dst->arena, mf_output, src->n_inputs);
    like.controls = MF_ARENA_ARRAY(dst->arena, mf_node *, src->n_controls);
    if (!like.inputs || !like.controls)
        return MF_NOMEM("a graph");
    copy_edges(src, &like, twin);
    spec.inputs = like.inputs;
    spec.controls = like.controls;
    spec.n_controls = like.n_controls;
    return mf_node_become(dst, old, &spec);
}

mf_status mf_graph_merge(mf_graph *dst, const mf_graph *src)
{
    mf_node **twin = mf_calloc(src->n_nodes, sizeof *twin);
    bool *fresh = mf_calloc(src->n_nodes, sizeof *fresh);
    mf_status st = twin && fresh ? copy_functions(src, dst) : MF_NOMEM("a graph");

    for (int64_t i = 0; st == MF_OK && i < src->n_nodes; i++) {
        if (src->nodes[i]->removed)
            continue;
        twin[i] = mf_graph_find(dst, src->nodes[i]->name);
        fresh[i] = !twin[i];
        if (fresh[i])
            st = graph_copy_node(src->nodes[i], dst, &twin[i]);
    }
    for (int64_t i = 0; st == MF_OK && i < src->n_nodes; i++) {
        if (fresh[i])
            copy_edges(src->nodes[i], twin[i], twin);
        else if (twin[i] && twin[i]->n_outputs < src->nodes[i]->n_outputs)
            st = grow_node(dst, src->nodes[i], twin[i], twin);
    }
    if (st == MF_OK)
        st = mf_graph_verify(dst);
    mf_free(twin);
    mf_free(fresh);
    return st;
}

/* ---- verification ---- */

static mf_status verify_node(const mf_graph *graph, const mf_node *n)
{
    if (!n->op && !n->function)
        return MF_FAIL(MF_INTERNAL, "{{node %s}} has no op", n->name);
    for (int i = 0; i < n->n_inputs; i++) {
        const mf_output in = n->inputs[i];

        if (!in.node || in.node->removed || in.port < 0 || in.port >= in.node->n_outputs)
            return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: input %d is not connected", n->name,
                           i);
        if (graph->nodes[in.node->id] != in.node)
            return MF_FAIL(MF_INTERNAL, "{{node %s}}: input %d belongs to another graph", n->name,
                           i);
        if (mf_type_base(in.node->out_types[in.port]) != mf_type_base(n->in_types[i]))
            return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: input %d is %s, expected %s", n->name,
                           i, mf_dtype_name(mf_type_base(in.node->out_types[in.port])),
                           mf_dtype_name(mf_type_base(n->in_types[i])));
    }
    for (int i = 0; i < n->n_controls; i++) {
        if (!n->controls[i] || n->controls[i]->removed)
            return MF_FAIL(MF_INTERNAL, "{{node %s}}: control input %d was removed", n->name, i);
    }
    return MF_OK;
}

mf_status mf_graph_verify(const mf_graph *graph)
{
    mf_node **order = mf_calloc(graph->n_nodes, sizeof *order);
    mf_status st = order ? MF_OK : MF_NOMEM("checking a graph");
    int64_t n;

    for (int64_t i = 0; st == MF_OK && i < graph->n_nodes; i++) {
        if (!graph->nodes[i]->removed)
            st = verify_node(graph, graph->nodes[i]);
    }
    if (st == MF_OK)
        st = mf_graph_order(graph, order, &n);
    mf_free(order);
    return st;
}

mf_status mf_graph_ends(const mf_graph *graph, mf_arena *arena, const char ***names, int *n)
{
    bool *needed = mf_calloc(graph->n_nodes, sizeof *needed);
    mf_status st = MF_OK;

    *n = 0;
    *names = MF_ARENA_ARRAY(arena, const char *, graph->n_nodes + 1);
    if (!needed || !*names)
        st = MF_NOMEM("a graph");
    for (int64_t i = 0; st == MF_OK && i < graph->n_nodes; i++) {
        const mf_node *node = graph->nodes[i];

        for (int k = 0; k < node->n_inputs; k++)
            needed[node->inputs[k].node->id] = true;
        for (int k = 0; k < node->n_controls; k++)
            needed[node->controls[k]->id] = true;
    }
    for (int64_t i = 0; st == MF_OK && i < graph->n_nodes; i++) {
        if (needed[i] || graph->nodes[i]->removed)
            continue;
        (*names)[*n] = mf_arena_strdup(arena, graph->nodes[i]->name);
        if (!(*names)[(*n)++])
            st = MF_NOMEM("a graph");
    }
    mf_free(needed);
    return st;
}
