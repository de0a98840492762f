/* SPDX-License-Identifier: Apache-2.0 */
/* variables.c - finds all variables of a graph, and adds nodes that read and restore them through a
 * session. */
#include "train/step/variables.h"

#include "formats/bundle.h"

#include <string.h>

static bool variables_is_handle(const mf_node *n)
{
    return strcmp(n->op_name, "VarHandleOp") == 0;
}

static bool variables_is_variable(const mf_node *n)
{
    return variables_is_handle(n) || strcmp(n->op_name, "VariableV2") == 0 ||
           strcmp(n->op_name, "Variable") == 0;
}

/* ---- the nodes ---- */

static const char *fetch_name(mf_graph *g, mf_output o)
{
    return o.node ? mf_arena_printf(g->arena, "%s:0", mf_node_name(o.node)) : NULL;
}

static mf_output placeholder_for(mf_graph *g, const mf_node *n)
{
    const mf_shape *shape = mf_node_shape(n, "shape");
    const char *type = mf_dtype_name(mf_node_type(n, "dtype"));
    char text[MF_SHAPE_TEXT];

    /* "Variable" has rank 0 where the rank is unknown. */
    if (shape->rank < 0 || (strcmp(n->op_name, "Variable") == 0 && shape->rank == 0))
        return mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=%s", type);
    return mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=%s shape=shape%s", type,
                     mf_shape_text(shape, text));
}

static mf_status variables_add_variable(mf_graph_variables *v, mf_graph *g, mf_node *n)
{
    const mf_output var = { n, 0 };
    const mf_output value = placeholder_for(g, n);
    const bool handle = variables_is_handle(n);
    mf_output read, ready, assign;

    if (handle) {
        read = mf_applyf(g, "ReadVariableOp", MF_IN(var), "dtype=%s",
                         mf_dtype_name(mf_node_type(n, "dtype")));
        ready = mf_apply(g, "VarIsInitializedOp", MF_IN(var));
        assign = mf_apply(g, "AssignVariableOp", MF_IN(var, value));
    } else {
        read = mf_apply(g, "Identity", MF_IN(var));
        ready = mf_apply(g, "IsVariableInitialized", MF_IN(var));
        assign = mf_apply(g, "Assign", MF_IN(var, value));
    }
    MF_TRY(mf_graph_status(g));
    v->names[v->n] = n->name;
    v->read[v->n] = fetch_name(g, read);
    v->ready[v->n] = fetch_name(g, ready);
    v->feed[v->n] = fetch_name(g, value);
    v->assign[v->n] = mf_node_name(assign.node);
    if (!v->read[v->n] || !v->ready[v->n] || !v->feed[v->n])
        return MF_NOMEM("variables");
    if (strcmp(n->name, "global_step") == 0)
        v->step = v->read[v->n];
    v->n++;
    return MF_OK;
}

mf_status mf_graph_variables_init(mf_graph_variables *v, mf_graph *g)
{
    const int64_t n = g->n_nodes; /* before the added nodes */
    int64_t count = 0;
    const char ***const lists[] = { &v->names, &v->read, &v->ready, &v->feed, &v->assign };

    *v = (mf_graph_variables){ 0 };
    for (int64_t i = 0; i < n; i++)
        count += variables_is_variable(g->nodes[i]);
    for (int i = 0; i < MF_COUNT(lists); i++) {
        *lists[i] = MF_ARENA_ARRAY(g->arena, const char *, count);
        if (!*lists[i])
            return MF_NOMEM("variables");
    }
    v->results = mf_calloc(count, sizeof(mf_tensor *));
    if (!v->results)
        return MF_NOMEM("variables");
    mf_graph_scope(g, "monitored");
    for (int64_t i = 0; i < n; i++) {
        if (variables_is_variable(g->nodes[i]))
            MF_TRY(variables_add_variable(v, g, g->nodes[i]));
    }
    mf_graph_scope(g, "");
    return mf_graph_status(g);
}

void mf_graph_variables_deinit(mf_graph_variables *v)
{
    for (int i = 0; v->results && i < v->n; i++)
        mf_tensor_free(v->results[i]);
    mf_free(v->results);
    v->results = NULL;
}

/* ---- running them ---- */

mf_status mf_graph_variables_missing(mf_graph_variables *v, mf_session *s, const char **missing)
{
    *missing = NULL;
    if (v->n == 0)
        return MF_OK;
    MF_TRY(mf_session_run(s, NULL, NULL, NULL, 0, (const char *const *)v->ready, v->n, NULL, 0,
                          v->results));
    for (int i = 0; i < v->n && !*missing; i++) {
        if (!*(const bool *)v->results[i]->data)
            *missing = v->names[i];
    }
    return MF_OK;
}

/* All values are read and checked before one is assigned. */
static mf_status variables_read_values(const mf_graph_variables *v, mf_bundle *b, mf_tensor *values,
                                       const mf_tensor **pointers)
{
    for (int i = 0; i < v->n; i++) {
        MF_TRY(mf_bundle_read(b, v->names[i], strlen(v->names[i]), NULL, &values[i]));
        pointers[i] = &values[i];
    }
    return MF_OK;
}

mf_status mf_graph_variables_restore(mf_graph_variables *v, mf_session *s, const char *prefix)
{
    mf_tensor *values = mf_calloc(v->n, sizeof *values);
    const mf_tensor **pointers = mf_calloc(v->n, sizeof *pointers);
    mf_bundle *b = NULL;
    mf_status st = values && pointers ? MF_OK : MF_NOMEM("a checkpoint");

    if (st == MF_OK)
        st = mf_bundle_open(prefix, NULL, &b);
    if (st == MF_OK)
        st = variables_read_values(v, b, values, pointers);
    if (st == MF_OK && v->n > 0)
        st = mf_session_run(s, NULL, (const char *const *)v->feed, pointers, v->n, NULL, 0,
                            (const char *const *)v->assign, v->n, NULL);
    for (int i = 0; values && i < v->n; i++)
        mf_tensor_clear(&values[i]);
    mf_free(values);
    mf_free(pointers);
    mf_bundle_close(b);
    return st;
}

mf_status mf_graph_variables_snapshot(mf_graph_variables *v, mf_session *s, int64_t step,
                                      mf_snapshot **out)
{
    *out = NULL;
    if (v->n > 0)
        MF_TRY(mf_session_run(s, NULL, NULL, NULL, 0, (const char *const *)v->read, v->n, NULL, 0,
                              v->results));
    return mf_snapshot_of(step, (const char *const *)v->names, v->results, v->n, out);
}

mf_status mf_graph_variables_step(mf_graph_variables *v, mf_session *s, int64_t *step)
{
    mf_tensor *value = NULL;
    mf_status st;

    if (!v->step)
        return MF_FAIL(MF_NOT_FOUND, "the graph has no variable 'global_step'");
    st = mf_session_run(s, NULL, NULL, NULL, 0, &v->step, 1, NULL, 0, &value);
    if (st == MF_OK && (value->count != 1 || mf_dtype_size(value->dtype) == 0))
        st = MF_FAIL(MF_INVALID_ARGUMENT, "'global_step' is not one number");
    if (st == MF_OK)
        *step = mf_tensor_int_at(value, 0);
    mf_tensor_free(value);
    return st;
}
