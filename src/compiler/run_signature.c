/* SPDX-License-Identifier: Apache-2.0 */
/* run_signature.c - resolves the names of feeds, fetches and targets. */
#include "compiler/compiler.h"

#include <stdlib.h>
#include <string.h>

/* "node", "node:1" */
static mf_status run_signature_find_output(const mf_graph *g, const char *text, const char *what,
                                           mf_output *out)
{
    const char *colon = strrchr(text, ':');
    const size_t len = colon ? (size_t)(colon - text) : strlen(text);
    char name[1024];
    char *end = NULL;

    out->port = colon ? (int)strtol(colon + 1, &end, 10) : 0;
    if (len >= sizeof name || (colon && (end == colon + 1 || *end)))
        return MF_FAIL(MF_INVALID_ARGUMENT, "malformed %s name '%.200s'", what, text);
    memcpy(name, text, len);
    name[len] = '\0';
    out->node = mf_graph_find(g, name);
    if (!out->node)
        return MF_FAIL(MF_NOT_FOUND, "%s node %.200s: not found", what, text);
    if (out->port < 0 || out->port >= out->node->n_outputs)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%s %.200s: the node has %d outputs, so output %d does not exist", what,
                       text, out->node->n_outputs, out->port);
    return MF_OK;
}

static mf_status find_feed(const mf_graph *g, const mf_run_names *n, int i, mf_output *all)
{
    MF_TRY(run_signature_find_output(g, n->feeds[i], "FeedInputs", &all[i]));
    for (int k = 0; k < i; k++) {
        if (all[k].node == all[i].node && all[k].port == all[i].port)
            return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is fed twice", n->feeds[i]);
    }
    return MF_OK;
}

mf_status mf_signature_find(const mf_graph *graph, const mf_run_names *n, mf_arena *arena,
                            mf_signature *out)
{
    mf_output *feeds = MF_ARENA_ARRAY(arena, mf_output, n->n_feeds);
    mf_output *fetches = MF_ARENA_ARRAY(arena, mf_output, n->n_fetches);
    mf_node **targets = MF_ARENA_ARRAY(arena, mf_node *, n->n_targets);

    if (!feeds || !fetches || !targets)
        return MF_NOMEM("compiling");
    for (int i = 0; i < n->n_feeds; i++)
        MF_TRY(find_feed(graph, n, i, feeds));
    for (int i = 0; i < n->n_fetches; i++)
        MF_TRY(run_signature_find_output(graph, n->fetches[i], "FetchOutputs", &fetches[i]));
    for (int i = 0; i < n->n_targets; i++) {
        targets[i] = mf_graph_find(graph, n->targets[i]);
        if (!targets[i])
            return MF_FAIL(MF_NOT_FOUND, "PruneForTargets: Some target nodes not found: %.200s",
                           n->targets[i]);
    }
    *out = (mf_signature){ .feeds = feeds,
                           .fetches = fetches,
                           .targets = targets,
                           .n_feeds = n->n_feeds,
                           .n_fetches = n->n_fetches,
                           .n_targets = n->n_targets };
    return MF_OK;
}
