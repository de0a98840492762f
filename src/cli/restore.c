/* SPDX-License-Identifier: Apache-2.0 */
/* restore.c - adds restore nodes to a graph, and loads its variables from a checkpoint. */
#include "cli/restore.h"

#include "formats/bundle.h"

#include <stdio.h>
#include <string.h>

static bool restore_is_variable(const mf_node *n)
{
    return strcmp(n->op_name, "VarHandleOp") == 0 || strcmp(n->op_name, "VariableV2") == 0 ||
           strcmp(n->op_name, "Variable") == 0;
}

/* The name of a variable in the checkpoint: the name of the node, its shared name, or either in the
 * object format of TensorFlow 2. NULL: none of these exists. */
static const char *restore_key_of(const mf_bundle *b, const mf_node *n, char *key, size_t size)
{
    const char *names[] = { n->name, mf_node_string(n, "shared_name") };

    for (int i = 0; i < MF_COUNT(names); i++) {
        if (!names[i][0])
            continue;
        (void)snprintf(key, size, "%s", names[i]);
        if (mf_bundle_find(b, key, strlen(key)))
            return key;
        (void)snprintf(key, size, "%s/.ATTRIBUTES/VARIABLE_VALUE", names[i]);
        if (mf_bundle_find(b, key, strlen(key)))
            return key;
    }
    return NULL;
}

/* Adds an entry with an empty tensor. */
static mf_status add_entry(mf_feeds *list, const char *name)
{
    MF_TRY(mf_grow(&list->names, &list->cap_names, list->n + 1, sizeof *list->names));
    MF_TRY(mf_grow(&list->values, &list->cap_values, list->n + 1, sizeof(mf_tensor *)));
    list->names[list->n] = mf_strdup(name);
    list->values[list->n] = mf_calloc(1, sizeof(mf_tensor));
    list->n++;
    if (!list->names[list->n - 1] || !list->values[list->n - 1])
        return MF_NOMEM("a checkpoint's tensors");
    return MF_OK;
}

static mf_status restore_add_variable(mf_graph *g, mf_node *n, mf_bundle *b, const char *key,
                                      mf_restore *out)
{
    const bool is_resource = strcmp(n->op_name, "VarHandleOp") == 0;
    const mf_dtype dtype = mf_node_type(n, "dtype");
    const mf_output variable = { n, 0 };
    mf_output value, assign;
    mf_tensor *t;

    value = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=%s name='restore/%s/value'",
                      mf_dtype_name(dtype), n->name);
    assign = mf_applyf(g, is_resource ? "AssignVariableOp" : "Assign", MF_IN(variable, value),
                       "name='restore/%s/assign'", n->name);
    MF_TRY(mf_graph_status(g));
    MF_TRY(add_entry(&out->assign, mf_node_name(assign.node)));
    MF_TRY(add_entry(&out->feeds, mf_node_name(value.node)));
    t = out->feeds.values[out->feeds.n - 1];
    MF_TRY(mf_bundle_read(b, key, strlen(key), NULL, t));
    if (t->dtype != dtype)
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%.200s' is %s, but the variable is %s", key,
                       mf_dtype_name(t->dtype), mf_dtype_name(dtype));
    return MF_OK;
}

static mf_status nothing_found(mf_args *args, const mf_bundle *b, int64_t variables)
{
    mf_buf names = { 0 };

    for (int64_t i = 0; i < mf_bundle_count(b) && i < 6; i++) {
        const mf_bundle_entry *e = mf_bundle_entry_at(b, i);

        mf_buf_printf(&names, "%s%.*s", i > 0 ? ", " : "", (int)(e->key_len < 60 ? e->key_len : 60),
                      e->key);
    }
    if (names.len > 0)
        mf_args_hint(args, "it contains %s", names.data);
    mf_buf_deinit(&names);
    return MF_FAIL(MF_NOT_FOUND, "it has none of the graph's %lld variables", (long long)variables);
}

static mf_status restore_add_all(mf_args *args, mf_graph *g, mf_bundle *b, mf_restore *out)
{
    const int64_t n_nodes = g->n_nodes; /* nodes are added below */
    int64_t variables = 0;

    for (int64_t i = 0; i < n_nodes; i++) {
        mf_node *n = g->nodes[i];
        char key[1024];

        if (!restore_is_variable(n))
            continue;
        variables++;
        if (restore_key_of(b, n, key, sizeof key))
            MF_TRY(restore_add_variable(g, n, b, key, out));
    }
    return out->feeds.n > 0 ? MF_OK : nothing_found(args, b, variables);
}

mf_status mf_restore_add(mf_args *args, mf_graph *graph, const char *prefix, mf_restore *out)
{
    mf_bundle *b;
    mf_status st = mf_bundle_open(prefix, NULL, &b);

    if (st == MF_NOT_FOUND)
        mf_args_hint(args, "give the common prefix of CHECKPOINT.index and CHECKPOINT.data-...");
    if (st != MF_OK)
        return mf_cli_name_file(st, prefix);
    st = restore_add_all(args, graph, b, out);
    mf_bundle_close(b);
    return st == MF_OK ? MF_OK : mf_cli_name_file(st, prefix);
}

mf_status mf_restore_run(const mf_restore *restore, mf_session *session)
{
    return mf_session_run(session, NULL, (const char *const *)restore->feeds.names,
                          (const mf_tensor *const *)restore->feeds.values, (int)restore->feeds.n,
                          NULL, 0, (const char *const *)restore->assign.names,
                          (int)restore->assign.n, NULL);
}

void mf_restore_deinit(mf_restore *restore)
{
    mf_feeds_deinit(&restore->feeds);
    mf_feeds_deinit(&restore->assign);
}
