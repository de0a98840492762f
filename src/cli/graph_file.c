/* SPDX-License-Identifier: Apache-2.0 */
/* graph_file.c - reads GraphDef and .meta files, and finds nodes by name. */
#include "cli/graph_file.h"

#include "base/file.h"
#include "formats/pbtxt.h"
#include "graph/graphdef_codec.h"
#include "graph/op.h"
#include "proto/wire.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRAPH_FILE_MAX ((size_t)2 << 30)

static bool has_suffix(const char *path, const char *suffix)
{
    const size_t n = strlen(path), m = strlen(suffix);

    return n > m && strcmp(path + n - m, suffix) == 0;
}

/* A binary GraphDef begins with a byte below the letters. */
static bool looks_like_text(const char *data, size_t len)
{
    return len > 0 && (isalpha((unsigned char)data[0]) || data[0] == '#');
}

mf_status mf_cli_name_file(mf_status st, const char *path)
{
    char before[300];

    (void)snprintf(before, sizeof before, "'%.250s': ", path);
    /* Some messages already name the file. */
    return strstr(mf_error_message(), path) ? st : mf_error_wrap(st, before, "");
}

static mf_status graph_file_decode(mf_args *args, const char *path, const char *data, size_t len,
                                   mf_arena *arena, ProtobufCMessage **out)
{
    const ProtobufCMessageDescriptor *desc = &tensorflow__graph_def__descriptor;
    const bool text = has_suffix(path, ".pbtxt");
    mf_status st;

    if (len == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%.250s' is empty: a GraphDef was expected", path);
    st = text ? mf_pbtxt_decode(desc, data, len, arena, out)
              : mf_wire_decode(desc, data, len, NULL, arena, out);
    if (st == MF_OK)
        return MF_OK;
    if (text != looks_like_text(data, len))
        mf_args_hint(args,
                     "it looks like %s: only files whose name ends in .pbtxt are read as "
                     "text",
                     text ? "a binary GraphDef" : "text");
    else
        mf_args_hint(args, "a GraphDef was expected, as written by tf.io.write_graph()");
    return st;
}

mf_status mf_cli_read_graph(mf_args *args, const char *path, mf_arena *arena,
                            const Tensorflow__GraphDef **out)
{
    ProtobufCMessage *message = NULL;
    char *data;
    size_t len;
    mf_status st;

    *out = NULL;
    MF_TRY(mf_file_read(path, GRAPH_FILE_MAX, &data, &len));
    st = graph_file_decode(args, path, data, len, arena, &message);
    mf_free(data);
    if (st != MF_OK)
        return mf_cli_name_file(st, path);
    *out = (const Tensorflow__GraphDef *)message;
    return st;
}

mf_status mf_cli_load_graph(mf_args *args, const char *path, mf_graph **out)
{
    const Tensorflow__GraphDef *def;
    mf_graph *graph = NULL;
    mf_status st;

    *out = NULL;
    MF_TRY_TO(done, mf_graph_new(&graph));
    MF_TRY_TO(done, mf_cli_read_graph(args, path, graph->arena, &def));
    st = mf_graph_decode_message(graph, def);
    if (st == MF_OK) {
        *out = graph;
        return MF_OK;
    }
    (void)mf_cli_name_file(st, path);

done:
    if (st == MF_NOT_FOUND && strstr(mf_error_message(), "not registered"))
        mf_args_hint(args, "`meshflow graph check %.200s` lists all unknown ops", path);
    mf_graph_free(graph);
    return st;
}

/* ---- names ---- */

mf_status mf_cli_find_node(mf_args *args, const mf_graph *graph, const char *what, const char *name,
                           mf_node **out)
{
    mf_did_you_mean closest = mf_did_you_mean_to(name);

    *out = mf_graph_find(graph, name);
    if (*out)
        return MF_OK;
    for (int64_t i = 0; i < graph->n_nodes; i++)
        mf_did_you_mean_try(&closest, graph->nodes[i]->name);
    if (closest.best)
        mf_args_hint(args, "did you mean '%s'?", closest.best);
    else
        mf_cli_hint_fetches(args, graph);
    return MF_FAIL(MF_NOT_FOUND, "%s: the graph has no node '%.200s'", what, name);
}

mf_status mf_cli_find_output(mf_args *args, const mf_graph *graph, const char *what,
                             const char *text, mf_output *out)
{
    const char *colon = strrchr(text, ':');
    char *name = colon ? mf_strndup(text, (size_t)(colon - text)) : mf_strdup(text);
    char *end = NULL;
    const long port = colon ? strtol(colon + 1, &end, 10) : 0;
    mf_status st = MF_OK;

    if (!name)
        return MF_NOMEM("a name");
    if (colon && (end == colon + 1 || *end))
        st = mf_args_wrong(args, "%s: '%.200s' should be NODE or NODE:PORT", what, text);
    if (st == MF_OK)
        st = mf_cli_find_node(args, graph, what, name, &out->node);
    if (st == MF_OK && out->node->n_outputs == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "%s: node '%.200s' (%s) has no outputs; use --target",
                     what, name, out->node->op_name);
    else if (st == MF_OK && (port < 0 || port >= out->node->n_outputs))
        st = MF_FAIL(MF_INVALID_ARGUMENT,
                     "%s: '%.200s' does not exist: node '%.200s' has %d output%s", what, text, name,
                     out->node->n_outputs, out->node->n_outputs == 1 ? "" : "s");
    out->port = (int)port;
    mf_free(name);
    return st;
}

void mf_cli_hint_fetches(mf_args *args, const mf_graph *graph)
{
    bool *used = mf_calloc(graph->n_nodes, sizeof *used);
    mf_buf names = { 0 };
    int listed = 0;

    for (int64_t i = 0; used && i < graph->n_nodes; i++) {
        const mf_node *n = graph->nodes[i];

        for (int k = 0; k < n->n_inputs; k++)
            used[n->inputs[k].node->id] = true;
    }
    for (int64_t i = 0; used && i < graph->n_nodes && listed < 6; i++) {
        const mf_node *n = graph->nodes[i];

        if (used[i] || n->n_outputs == 0)
            continue;
        mf_buf_printf(&names, "%s%.60s:0", listed++ > 0 ? ", " : "", n->name);
    }
    if (names.len > 0 && !names.failed)
        mf_args_hint(args, "outputs that no node uses: %s", names.data);
    mf_buf_deinit(&names);
    mf_free(used);
}
