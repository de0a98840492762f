/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rewritten.h"

#include <string.h>

/* A name for what was output `o` of the source: the node's own if it is free. */
static const char *name_for(mf_graph *g, mf_output o)
{
    return mf_graph_unique_name(g, o.node->name);
}

static void say(mf_buf *notes, const char *what, mf_output from, const mf_node *to)
{
    if (from.port > 0 || strcmp(from.node->name, to->name) != 0)
        mf_buf_printf(notes, "%s %s:%d is %s:0 now\n", what, from.node->name, from.port, to->name);
}

static void redirect(mf_graph *g, const mf_node *from, mf_node *to)
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

static mf_status replace_feed(mf_graph *g, mf_node *arg, mf_output source, mf_buf *notes)
{
    mf_shape shape = *mf_node_shape(arg, "_shape");
    const mf_named_attr attrs[] = {
        { "dtype", { .kind = MF_ATTR_TYPE, .n = 1, .type = arg->out_types[0] } },
        { "shape", { .kind = MF_ATTR_SHAPE, .n = 1, .shape = &shape } },
    };
    const mf_node_spec spec = {
        .name = name_for(g, source), .op = "Placeholder", .attrs = attrs, .n_attrs = MF_COUNT(attrs)
    };
    mf_node *placeholder;

    MF_TRY(mf_graph_add(g, &spec, &placeholder));
    redirect(g, arg, placeholder);
    arg->removed = true;
    say(notes, "feed", source, placeholder);
    return MF_OK;
}

static mf_status replace_fetch(mf_graph *g, mf_node *retval, mf_output source, mf_buf *notes)
{
    const mf_output in = retval->inputs[0];
    const mf_node_spec spec = { .op = "Identity", .inputs = &in, .n_inputs = 1 };
    mf_node_spec named = spec;
    mf_node *identity;

    retval->removed = true;
    if (in.port == source.port && strcmp(in.node->name, source.node->name) == 0)
        return MF_OK; /* it is still there under its name */
    named.name = name_for(g, source);
    MF_TRY(mf_graph_add(g, &named, &identity));
    say(notes, "fetch", source, identity);
    return MF_OK;
}

mf_status mf_rewritten_graph(const mf_compile *c, const mf_signature *sig, mf_graph **out,
                             mf_buf *notes)
{
    mf_graph *work = NULL;
    mf_status st;

    *out = NULL;
    MF_TRY_TO(done, mf_graph_copy(c->graph, NULL, &work));
    for (int i = 0; i < sig->n_feeds; i++) {
        mf_node *arg = mf_graph_find(work, c->feeds[i]->name);

        if (arg) /* a feed that nothing needs may be gone */
            MF_TRY_TO(done, replace_feed(work, arg, sig->feeds[i], notes));
    }
    for (int i = 0; i < sig->n_fetches; i++)
        MF_TRY_TO(done, replace_fetch(work, mf_graph_find(work, c->fetches[i]->name),
                                      sig->fetches[i], notes));
    MF_TRY_TO(done, mf_graph_verify(work));
    st = mf_graph_copy(work, NULL, out); /* without what was removed */

done:
    mf_graph_free(work);
    return st;
}
