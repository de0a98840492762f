/* SPDX-License-Identifier: Apache-2.0 */
/* prune_graph.c - extracts the part of a graph that a run requires, cut at the feeds. A feed
 * replaces an output, not a node: other outputs of the same node may still be computed. */
#include "compiler/compiler.h"

#include <stdio.h>
#include <string.h>

static int feed_of(const mf_signature *sig, mf_output o)
{
    for (int i = 0; i < sig->n_feeds; i++) {
        if (sig->feeds[i].node == o.node && sig->feeds[i].port == o.port)
            return i;
    }
    return -1;
}

typedef struct marker {
    const mf_signature *sig;
    bool *keep, *has_feed; /* by node id */
    mf_node **stack;
    int64_t depth;
} marker;

static void mark(marker *m, mf_node *n)
{
    if (m->keep[n->id])
        return;
    m->keep[n->id] = true;
    m->stack[m->depth++] = n;
}

static void mark_output(marker *m, mf_output o)
{
    if (m->has_feed[o.node->id] && feed_of(m->sig, o) >= 0)
        return;
    mark(m, o.node);
}

/* A fed placeholder counts as already run: running it would fail because it is not fed. */
static bool prune_graph_is_over(const marker *m, const mf_node *n)
{
    return m->has_feed[n->id] && n->op &&
           (strcmp(n->op->name, "Placeholder") == 0 || strcmp(n->op->name, "PlaceholderV2") == 0);
}

static void mark_needed(marker *m)
{
    const mf_signature *sig = m->sig;

    for (int i = 0; i < sig->n_feeds; i++)
        m->has_feed[sig->feeds[i].node->id] = true;
    for (int i = 0; i < sig->n_targets; i++)
        mark(m, sig->targets[i]);
    for (int i = 0; i < sig->n_fetches; i++)
        mark_output(m, sig->fetches[i]);
    while (m->depth > 0) {
        mf_node *n = m->stack[--m->depth];

        for (int i = 0; i < n->n_inputs; i++)
            mark_output(m, n->inputs[i]);
        for (int i = 0; i < n->n_controls; i++) {
            if (!prune_graph_is_over(m, n->controls[i]))
                mark(m, n->controls[i]);
        }
    }
}

static mf_status prune_graph_add_feed(mf_compile *c, const mf_signature *sig, int i)
{
    const mf_output fed = sig->feeds[i];
    mf_shape *shape = MF_ARENA_NEW(c->graph->arena, mf_shape);
    mf_named_attr attrs[] = {
        { "T",
          { .kind = MF_ATTR_TYPE, .n = 1, .type = mf_type_base(fed.node->out_types[fed.port]) } },
        { "index", { .kind = MF_ATTR_INT, .n = 1, .i = i } },
        { "_shape", { .kind = MF_ATTR_SHAPE, .n = 1, .shape = shape } },
    };
    char name[64];
    mf_node_spec spec = { .op = "_Arg", .attrs = attrs, .n_attrs = MF_COUNT(attrs) };

    if (!shape)
        return MF_NOMEM("compiling");
    *shape = sig->feed_shapes ? sig->feed_shapes[i] : MF_SHAPE_UNKNOWN;
    (void)snprintf(name, sizeof name, "_feed_%d", i);
    spec.name = mf_graph_unique_name(c->graph, name);
    return mf_graph_add(c->graph, &spec, &c->feeds[i]);
}

/* The same output in the working copy. */
static mf_output prune_graph_twin(const mf_compile *c, const mf_signature *sig, mf_output o)
{
    const int feed = feed_of(sig, o);

    if (feed >= 0)
        return (mf_output){ c->feeds[feed], 0 };
    return (mf_output){ mf_graph_find(c->graph, o.node->name), o.port };
}

/* Inputs that the copy left empty, because their node is fed, are connected to the feeds. */
static void connect_feeds(const mf_compile *c, const mf_graph *src, const mf_signature *sig,
                          const bool *has_feed)
{
    for (int64_t i = 0; i < src->n_nodes; i++) {
        const mf_node *from = src->nodes[i];
        mf_node *n = mf_graph_find(c->graph, from->name);

        if (!n || (n->op && n->op->control == MF_CONTROL_ARG && n->n_inputs == 0))
            continue;
        for (int k = 0; k < from->n_inputs; k++) {
            if (has_feed[from->inputs[k].node->id])
                n->inputs[k] = prune_graph_twin(c, sig, from->inputs[k]);
        }
    }
}

static mf_status prune_graph_add_fetch(mf_compile *c, const mf_signature *sig, int i)
{
    const mf_output from = prune_graph_twin(c, sig, sig->fetches[i]);
    const mf_named_attr attrs[] = {
        { "T",
          { .kind = MF_ATTR_TYPE, .n = 1, .type = mf_type_base(from.node->out_types[from.port]) } },
        { "index", { .kind = MF_ATTR_INT, .n = 1, .i = i } },
    };
    char name[64];
    mf_node_spec spec = {
        .op = "_Retval", .attrs = attrs, .n_attrs = MF_COUNT(attrs), .inputs = &from, .n_inputs = 1
    };

    (void)snprintf(name, sizeof name, "_fetch_%d", i);
    spec.name = mf_graph_unique_name(c->graph, name);
    return mf_graph_add(c->graph, &spec, &c->fetches[i]);
}

static mf_status place_ends(mf_compile *c, const mf_graph *src, const mf_signature *sig,
                            const bool *has_feed)
{
    mf_arena *a = c->graph->arena;

    c->feeds = MF_ARENA_ARRAY(a, mf_node *, sig->n_feeds);
    c->fetches = MF_ARENA_ARRAY(a, mf_node *, sig->n_fetches);
    c->targets = MF_ARENA_ARRAY(a, mf_node *, sig->n_targets);
    if (!c->feeds || !c->fetches || !c->targets)
        return MF_NOMEM("compiling");
    for (c->n_feeds = 0; c->n_feeds < sig->n_feeds; c->n_feeds++)
        MF_TRY(prune_graph_add_feed(c, sig, c->n_feeds));
    connect_feeds(c, src, sig, has_feed);
    for (c->n_fetches = 0; c->n_fetches < sig->n_fetches; c->n_fetches++)
        MF_TRY(prune_graph_add_fetch(c, sig, c->n_fetches));
    for (c->n_targets = 0; c->n_targets < sig->n_targets; c->n_targets++)
        c->targets[c->n_targets] = mf_graph_find(c->graph, sig->targets[c->n_targets]->name);
    return mf_graph_verify(c->graph);
}

/* _Arg and _Retval of a function body access parameters by index: outside bodies only those of the
 * signature are valid. */
static mf_status refuse_ends(const mf_graph *g)
{
    for (int64_t i = 0; i < g->n_nodes; i++) {
        const mf_node *n = g->nodes[i];

        if (n->op && n->op->control == MF_CONTROL_ARG)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "{{node %s}} (op %s) is valid only in a function's body: feed or "
                           "fetch another node",
                           n->name, n->op_name);
    }
    return MF_OK;
}

mf_status mf_compile_begin(mf_compile *c, const mf_graph *graph, const mf_signature *sig)
{
    marker m = { .sig = sig };
    mf_status st = MF_OK;

    m.keep = mf_calloc(graph->n_nodes, sizeof *m.keep);
    m.has_feed = mf_calloc(graph->n_nodes, sizeof *m.has_feed);
    m.stack = mf_calloc(graph->n_nodes, sizeof *m.stack);
    if (!m.keep || !m.has_feed || !m.stack)
        st = MF_NOMEM("compiling");
    if (st == MF_OK) {
        mark_needed(&m);
        st = mf_graph_copy(graph, m.keep, &c->graph);
    }
    if (st == MF_OK)
        st = refuse_ends(c->graph);
    if (st == MF_OK)
        st = place_ends(c, graph, sig, m.has_feed);
    mf_free(m.keep);
    mf_free(m.has_feed);
    mf_free(m.stack);
    return st;
}
