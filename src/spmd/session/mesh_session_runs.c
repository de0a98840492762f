/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_session_runs.c - compiled runs on a mesh, cached by names and feed shapes. */
#include "base/mem.h"
#include "spmd/session/mesh_session_private.h"

#include <stdio.h>
#include <string.h>

/* Shape of a feed with the whole batch. */
static mf_shape whole_shape(const mf_mesh_session *s, const mf_tensor *const *feeds, int i)
{
    mf_shape shape = feeds[i]->shape;

    if (i < s->n_rows && shape.rank > 0)
        shape.dims[0] = s->whole;
    return shape;
}

static mf_status mesh_session_runs_key_of(const mf_mesh_session *s, const mf_run_names *n,
                                          const mf_tensor *const *feeds, mf_buf *out)
{
    char text[MF_SHAPE_TEXT];

    mf_buf_printf(out, "%d\n", s->n_rows);
    for (int i = 0; i < n->n_feeds; i++) {
        const mf_shape shape = whole_shape(s, feeds, i);

        mf_buf_printf(out, "%s=%s%s\n", n->feeds[i], mf_dtype_name(feeds[i]->dtype),
                      mf_shape_text(&shape, text));
    }
    for (int i = 0; i < n->n_fetches; i++)
        mf_buf_printf(out, ">%s\n", n->fetches[i]);
    for (int i = 0; i < n->n_targets; i++)
        mf_buf_printf(out, "!%s\n", n->targets[i]);
    return mf_buf_finish(out);
}

void mf_mesh_run_free(mf_mesh_run *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n; i++) {
        if (r->targets)
            mf_free(r->targets[i]);
        if (r->sessions)
            mf_session_free(r->sessions[i]);
        if (r->graphs)
            mf_graph_free(r->graphs[i]);
    }
    mf_mesh_costs_deinit(&r->costs);
    mf_ranges_deinit(&r->rows);
    mf_free(r->sessions);
    mf_free(r->receives);
    mf_free(r->meters);
    mf_free(r->graphs);
    mf_free(r->feeds);
    mf_free(r->fetches);
    mf_free(r->feed_names);
    mf_free(r->fetch_names);
    mf_free(r->targets);
    mf_free(r->n_targets);
    mf_free(r->key);
    mf_arena_free(r->arena);
    mf_free(r);
}

void mf_mesh_free_runs(mf_mesh_session *s)
{
    for (mf_mesh_run *r = s->all, *next; r; r = next) {
        next = r->next;
        mf_mesh_run_free(r);
    }
    s->all = NULL;
    mf_map_deinit(&s->runs);
    s->runs = (mf_map){ 0 };
}

static mf_status mesh_session_runs_copy_list(mf_arena *arena, const char *const *from, int n,
                                             const char *const **out)
{
    const char **list = MF_ARENA_ARRAY(arena, const char *, n + 1);

    if (!list)
        return MF_NOMEM("a run");
    for (int i = 0; i < n; i++) {
        list[i] = mf_arena_strdup(arena, from[i]);
        if (!list[i])
            return MF_NOMEM("a run");
    }
    *out = list;
    return MF_OK;
}

/* An empty run, to be compiled. Owns: mf_mesh_run_free(). */
static mf_status mesh_session_runs_make_run(const mf_run_names *n, const mf_shape *shapes,
                                            const char *key, int devices, mf_mesh_run **out)
{
    mf_mesh_run *r = *out = mf_calloc(1, sizeof *r);

    if (!r || !(r->arena = mf_arena_new()) || !(r->key = mf_strdup(key)))
        return MF_NOMEM("a run");
    r->n = devices;
    r->names = *n;
    MF_TRY(mesh_session_runs_copy_list(r->arena, n->feeds, n->n_feeds, &r->names.feeds));
    MF_TRY(mesh_session_runs_copy_list(r->arena, n->fetches, n->n_fetches, &r->names.fetches));
    MF_TRY(mesh_session_runs_copy_list(r->arena, n->targets, n->n_targets, &r->names.targets));
    r->shapes = MF_ARENA_ARRAY(r->arena, mf_shape, n->n_feeds + 1);
    r->graphs = mf_calloc(r->n, sizeof *r->graphs);
    r->sessions = mf_calloc(r->n, sizeof *r->sessions);
    r->receives = mf_calloc(r->n, sizeof *r->receives);
    r->meters = mf_calloc(r->n, sizeof *r->meters);
    r->targets = mf_calloc(r->n, sizeof *r->targets);
    r->n_targets = mf_calloc(r->n, sizeof *r->n_targets);
    if (!r->graphs || !r->sessions || !r->receives || !r->meters || !r->targets || !r->n_targets ||
        !r->shapes)
        return MF_NOMEM("a run");
    for (int i = 0; i < n->n_feeds; i++)
        r->shapes[i] = shapes[i];
    return mf_mesh_costs_init(&r->costs);
}

static mf_status name_ends(mf_mesh_run *r, const mf_run_names *n)
{
    r->feeds = mf_calloc(n->n_feeds + 1, sizeof *r->feeds);
    r->fetches = mf_calloc(n->n_fetches + 1, sizeof *r->fetches);
    r->feed_names = mf_calloc(n->n_feeds + 1, sizeof *r->feed_names);
    r->fetch_names = mf_calloc(n->n_fetches + 1, sizeof *r->fetch_names);
    if (!r->feeds || !r->fetches || !r->feed_names || !r->fetch_names)
        return MF_NOMEM("a run");
    for (int i = 0; i < n->n_feeds; i++) {
        (void)snprintf(r->feeds[i], sizeof r->feeds[i], MF_MESH_FEED, i);
        r->feed_names[i] = r->feeds[i];
    }
    for (int i = 0; i < n->n_fetches; i++) {
        (void)snprintf(r->fetches[i], sizeof r->fetches[i], MF_MESH_FETCH, i);
        r->fetch_names[i] = r->fetches[i];
    }
    return MF_OK;
}

/* Targets on another mesh do not exist in this graph. */
static mf_status mesh_session_runs_find_targets(mf_mesh_run *r, int i, const mf_signature *sig,
                                                int n)
{
    r->targets[i] = mf_calloc(n + 1, sizeof *r->targets[i]);
    if (!r->targets[i])
        return MF_NOMEM("a run");
    for (int k = 0; k < n; k++) {
        if (mf_graph_find(r->graphs[i], sig->targets[k]->name))
            r->targets[i][r->n_targets[i]++] = sig->targets[k]->name;
    }
    if (mf_graph_find(r->graphs[i], MF_MESH_SENT))
        r->targets[i][r->n_targets[i]++] = MF_MESH_SENT;
    return MF_OK;
}

static mf_status mesh_session_runs_compile(mf_mesh_session *s, const mf_mesh_setup *setup,
                                           const mf_mesh_variables *variables, mf_mesh_run *r)
{
    mf_signature sig;

    MF_TRY(name_ends(r, &r->names));
    MF_TRY(mf_signature_find(s->graph, &r->names, r->arena, &sig));
    sig.feed_shapes = r->shapes;
    MF_TRY(mf_mesh_compile(s->graph, &sig, setup, variables, r->graphs, r->receives, &r->costs));
    MF_TRY(mf_mesh_run_shrink_feeds(r));
    for (int i = 0; i < r->n; i++) {
        const mf_mesh_device *p = &s->devices[i];
        const mf_session_shared shared = { s->pool, p->resources, p->node_state };

        MF_TRY(mesh_session_runs_find_targets(r, i, &sig, r->names.n_targets));
        MF_TRY(mf_session_new_shared(r->graphs[i], &setup->session, &shared, &r->sessions[i]));
    }
    r->nodes = r->graphs[0]->n_nodes;
    mf_mesh_costs_sort(&r->costs);
    r->talks = r->costs.together > 0;
    return MF_OK;
}

mf_status mf_mesh_add_run(mf_mesh_session *s, mf_mesh_run *r)
{
    MF_TRY(mf_map_set(&s->runs, r->key, r));
    r->next = s->all;
    s->all = r;
    return MF_OK;
}

mf_status mf_mesh_compile_again(mf_mesh_session *s, const mf_mesh_run *like,
                                const mf_mesh_setup *setup, const mf_mesh_variables *variables,
                                mf_mesh_run **out)
{
    mf_status st =
        mesh_session_runs_make_run(&like->names, like->shapes, like->key, s->setup.n, out);

    if (st == MF_OK)
        (*out)->n_rows = like->n_rows;
    if (st == MF_OK)
        st = mesh_session_runs_compile(s, setup, variables, *out);
    if (st == MF_OK)
        return MF_OK;
    mf_mesh_run_free(*out);
    *out = NULL;
    return st;
}

static mf_status new_run(mf_mesh_session *s, const mf_run_names *n, const mf_tensor *const *feeds,
                         const char *key, mf_mesh_run **out)
{
    mf_shape *shapes = mf_calloc(n->n_feeds + 1, sizeof *shapes);
    mf_mesh_run *r = NULL;
    mf_status st = shapes ? MF_OK : MF_NOMEM("a run");

    for (int i = 0; st == MF_OK && i < n->n_feeds; i++)
        shapes[i] = whole_shape(s, feeds, i);
    if (st == MF_OK)
        st = mesh_session_runs_make_run(n, shapes, key, s->setup.n, &r);
    mf_free(shapes);
    if (st == MF_OK)
        r->n_rows = s->n_rows;
    if (st == MF_OK)
        st = mesh_session_runs_compile(s, &s->setup, &s->variables, r);
    if (st == MF_OK)
        st = mf_mesh_add_run(s, r);
    if (st != MF_OK) {
        mf_mesh_run_free(r);
        return st;
    }
    *out = r;
    return MF_OK;
}

mf_status mf_mesh_find_run(mf_mesh_session *s, const mf_run_names *n, const mf_tensor *const *feeds,
                           mf_mesh_run **out)
{
    mf_buf key = { 0 };
    mf_status st = mesh_session_runs_key_of(s, n, feeds, &key);

    if (st == MF_OK) {
        *out = mf_map_find(&s->runs, key.data);
        if (!*out)
            st = new_run(s, n, feeds, key.data, out);
    }
    mf_buf_deinit(&key);
    return st;
}

static int64_t mesh_session_runs_rows_of(const mf_mesh_run *r)
{
    return r->names.n_feeds > 0 && r->shapes[0].rank > 0 ? r->shapes[0].dims[0] : 0;
}

/* Prefers the step on a full batch: the step on the last, smaller batch may have a few more nodes.
 */
static bool mesh_session_runs_is_larger(const mf_mesh_run *r, const mf_mesh_run *than)
{
    if (r->nodes > 2 * than->nodes || than->nodes > 2 * r->nodes ||
        mesh_session_runs_rows_of(r) == mesh_session_runs_rows_of(than))
        return r->nodes > than->nodes;
    return mesh_session_runs_rows_of(r) > mesh_session_runs_rows_of(than);
}

mf_mesh_run *mf_mesh_largest_run(const mf_mesh_session *s)
{
    mf_mesh_run *most = NULL;

    for (mf_mesh_run *r = s->all; r; r = r->next) {
        if (!most || mesh_session_runs_is_larger(r, most))
            most = r;
    }
    return most;
}
