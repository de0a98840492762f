/* SPDX-License-Identifier: Apache-2.0 */
/* rewritten_graph.c - converts the compiled program back to a graph that any session can run. */
#include "compiler/rewritten_graph.h"

#include <string.h>

/* A name for output `o` of the source: the node's own if it is free. */
static const char *name_for(mf_graph *g, mf_output o)
{
    return mf_graph_unique_name(g, o.node->name);
}

static void rewritten_graph_redirect(mf_graph *g, const mf_node *from, mf_node *to)
{
    for (int64_t i = 0; i < g->n_nodes; i++) {
        mf_node *n = g->nodes[i];

        for (int k = 0; k < n->n_inputs; k++) {
            if (n->inputs[k].node == from)
                n->inputs[k].node = to;
        }
        for (int k = 0; k < n->n_controls; k++) {
            if (n->controls[k] == from)
                n->controls[k] = to;
        }
    }
}

static mf_status replace_feed(mf_graph *g, mf_node *arg, mf_output source, mf_node **out)
{
    mf_shape shape = *mf_node_shape(arg, "_shape");
    const mf_named_attr attrs[] = {
        { "dtype", { .kind = MF_ATTR_TYPE, .n = 1, .type = arg->out_types[0] } },
        { "shape", { .kind = MF_ATTR_SHAPE, .n = 1, .shape = &shape } },
    };
    const mf_node_spec spec = {
        .name = name_for(g, source), .op = "Placeholder", .attrs = attrs, .n_attrs = MF_COUNT(attrs)
    };

    MF_TRY(mf_graph_add(g, &spec, out));
    rewritten_graph_redirect(g, arg, *out);
    arg->removed = true;
    return MF_OK;
}

static mf_status replace_fetch(mf_graph *g, mf_node *retval, mf_output source, mf_output *out)
{
    const mf_output in = retval->inputs[0];
    mf_node_spec spec = { .op = "Identity", .inputs = &in, .n_inputs = 1 };

    retval->removed = true;
    *out = in;
    if (in.port == source.port && strcmp(in.node->name, source.node->name) == 0)
        return MF_OK; /* it still exists under its name */
    spec.name = name_for(g, source);
    out->port = 0;
    return mf_graph_add(g, &spec, &out->node);
}

/* ---- the new names, in the arena of out->graph ---- */

static mf_status make_names(const mf_signature *sig, mf_arena *arena, mf_rewritten *out)
{
    out->feeds = MF_ARENA_ARRAY(arena, const char *, sig->n_feeds + 1);
    out->fetches = MF_ARENA_ARRAY(arena, const char *, sig->n_fetches + 1);
    out->targets = MF_ARENA_ARRAY(arena, const char *, sig->n_targets + 1);
    return out->feeds && out->fetches && out->targets ? MF_OK : MF_NOMEM("names");
}

static mf_status keep_name(mf_arena *arena, mf_output o, const char **out)
{
    *out = o.port < 0 ? mf_arena_strdup(arena, o.node->name)
                      : mf_arena_printf(arena, "%s:%d", o.node->name, o.port);
    return *out ? MF_OK : MF_NOMEM("names");
}

static mf_status rewritten_graph_rewrite(const mf_compile *c, const mf_signature *sig,
                                         mf_graph *work, mf_arena *names, mf_rewritten *out)
{
    for (int i = 0; i < sig->n_feeds; i++) {
        mf_node *arg = mf_graph_find(work, c->feeds[i]->name), *placeholder;

        if (!arg)
            continue;
        MF_TRY(replace_feed(work, arg, sig->feeds[i], &placeholder));
        MF_TRY(keep_name(names, (mf_output){ placeholder, 0 }, &out->feeds[i]));
    }
    for (int i = 0; i < sig->n_fetches; i++) {
        mf_output now;

        MF_TRY(
            replace_fetch(work, mf_graph_find(work, c->fetches[i]->name), sig->fetches[i], &now));
        MF_TRY(keep_name(names, now, &out->fetches[i]));
    }
    for (int i = 0; i < sig->n_targets; i++)
        MF_TRY(keep_name(names, (mf_output){ c->targets[i], -1 }, &out->targets[i]));
    return mf_graph_verify(work);
}

/* The names are in the arena of `work` until the final graph exists. */
static mf_status move_names(const mf_signature *sig, const mf_rewritten *from, mf_rewritten *out)
{
    mf_arena *arena = out->graph->arena;

    MF_TRY(make_names(sig, arena, out));
    for (int i = 0; i < sig->n_feeds; i++)
        out->feeds[i] = from->feeds[i] ? mf_arena_strdup(arena, from->feeds[i]) : NULL;
    for (int i = 0; i < sig->n_fetches; i++)
        out->fetches[i] = mf_arena_strdup(arena, from->fetches[i]);
    for (int i = 0; i < sig->n_targets; i++)
        out->targets[i] = mf_arena_strdup(arena, from->targets[i]);
    return MF_OK;
}

mf_status mf_rewritten_graph(const mf_compile *c, const mf_signature *sig, mf_rewritten *out)
{
    mf_rewritten names = { 0 };
    mf_graph *work = NULL;
    mf_status st;

    *out = (mf_rewritten){ 0 };
    MF_TRY_TO(done, mf_graph_copy(c->graph, NULL, &work));
    MF_TRY_TO(done, make_names(sig, work->arena, &names));
    MF_TRY_TO(done, rewritten_graph_rewrite(c, sig, work, work->arena, &names));
    MF_TRY_TO(done, mf_graph_copy(work, NULL, &out->graph)); /* without removed nodes */
    st = move_names(sig, &names, out);

done:
    mf_graph_free(work);
    return st;
}
