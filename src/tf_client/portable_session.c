/* SPDX-License-Identifier: Apache-2.0 */
/* portable_session.c - rewrites graphs with Meshflow's own ops for servers that have only
 * TensorFlow's. */
#include "tf_client/portable_session.h"

#include "base/map.h"
#include "base/mem.h"
#include "compiler/rewritten_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run with TensorFlow's ops only. */
typedef struct lowered_run {
    struct lowered_run *next;
    char *key;
    mf_session *session;
    mf_rewritten names; /* owned by its graph */
} lowered_run;

typedef struct portable_session_lowered {
    mf_session base; /* first */
    const mf_graph *graph;
    mf_portable_session_options o;
    pthread_mutex_t lock; /* guards all members below */
    mf_map runs; /* by key */
    lowered_run *all;
} portable_session_lowered;

/* One call of run(). */
typedef struct portable_session_asked {
    const char *const *feed_names;
    const mf_tensor *const *feeds;
    const char *const *fetches, *const *targets;
    int n_feeds, n_fetches, n_targets;
} portable_session_asked;

static portable_session_lowered *lowered_of(mf_session *session)
{
    return (portable_session_lowered *)session;
}

/* ---- look up ---- */

static mf_status portable_session_key_of(const portable_session_asked *a, mf_buf *out)
{
    char shape[MF_SHAPE_TEXT];

    for (int i = 0; i < a->n_feeds; i++)
        mf_buf_printf(out, "%s=%s%s\n", a->feed_names[i], mf_dtype_name(a->feeds[i]->dtype),
                      mf_shape_text(&a->feeds[i]->shape, shape));
    for (int i = 0; i < a->n_fetches; i++)
        mf_buf_printf(out, ">%s\n", a->fetches[i]);
    for (int i = 0; i < a->n_targets; i++)
        mf_buf_printf(out, "!%s\n", a->targets[i]);
    return mf_buf_finish(out);
}

/* "node:1", "node" */
static mf_status portable_session_find(const mf_graph *g, const char *text, mf_arena *arena,
                                       mf_output *out)
{
    const char *colon = strrchr(text, ':');
    const char *name = mf_arena_strndup(arena, text, colon ? (size_t)(colon - text) : strlen(text));

    if (!name)
        return MF_NOMEM("names");
    *out = (mf_output){ mf_graph_find(g, name), colon ? atoi(colon + 1) : 0 };
    if (!out->node)
        return MF_FAIL(MF_NOT_FOUND, "there is no node '%s'", name);
    return MF_OK;
}

static mf_status signature_of(const portable_session_lowered *l, const portable_session_asked *a,
                              mf_arena *arena, mf_signature *out)
{
    mf_output *feeds = MF_ARENA_ARRAY(arena, mf_output, a->n_feeds + 1), target;
    mf_output *fetches = MF_ARENA_ARRAY(arena, mf_output, a->n_fetches + 1);
    mf_shape *shapes = MF_ARENA_ARRAY(arena, mf_shape, a->n_feeds + 1);
    mf_node **targets = MF_ARENA_ARRAY(arena, mf_node *, a->n_targets + 1);

    if (!feeds || !fetches || !shapes || !targets)
        return MF_NOMEM("a run");
    for (int i = 0; i < a->n_feeds; i++) {
        MF_TRY(portable_session_find(l->graph, a->feed_names[i], arena, &feeds[i]));
        shapes[i] = a->feeds[i]->shape;
    }
    for (int i = 0; i < a->n_fetches; i++)
        MF_TRY(portable_session_find(l->graph, a->fetches[i], arena, &fetches[i]));
    for (int i = 0; i < a->n_targets; i++) {
        MF_TRY(portable_session_find(l->graph, a->targets[i], arena, &target));
        targets[i] = target.node;
    }
    *out =
        (mf_signature){ feeds, fetches, shapes, targets, a->n_feeds, a->n_fetches, a->n_targets };
    return MF_OK;
}

/* ---- create ---- */

static void portable_session_run_free(lowered_run *r)
{
    if (!r)
        return;
    mf_session_free(r->session);
    mf_graph_free(r->names.graph);
    mf_free(r->key);
    mf_free(r);
}

static mf_status run_init(const portable_session_lowered *l, const portable_session_asked *a,
                          mf_arena *arena, lowered_run *r)
{
    mf_signature sig;

    MF_TRY(signature_of(l, a, arena, &sig));
    MF_TRY(mf_portable_graph(l->graph, &sig, &r->names));
    if (l->o.place)
        MF_TRY(l->o.place(l->o.ctx, r->names.graph));
    return mf_session_new(r->names.graph, l->o.session, &r->session);
}

static mf_status portable_session_add_run(portable_session_lowered *l,
                                          const portable_session_asked *a, char *key,
                                          lowered_run **out)
{
    lowered_run *r = mf_calloc(1, sizeof *r);
    mf_arena *arena = mf_arena_new();
    mf_status st = r && arena ? MF_OK : MF_NOMEM("a run");

    if (st == MF_OK)
        st = run_init(l, a, arena, r);
    mf_arena_free(arena);
    if (st == MF_OK) {
        r->key = mf_strdup(key);
        st = r->key ? mf_map_set(&l->runs, r->key, r) : MF_NOMEM("a run");
    }
    if (st != MF_OK) {
        portable_session_run_free(r);
        return st;
    }
    r->next = l->all;
    l->all = r;
    *out = r;
    return MF_OK;
}

static mf_status portable_session_get_run(portable_session_lowered *l,
                                          const portable_session_asked *a, lowered_run **out)
{
    mf_buf key = { 0 };
    mf_status st = portable_session_key_of(a, &key);

    if (st == MF_OK) {
        pthread_mutex_lock(&l->lock);
        *out = mf_map_find(&l->runs, key.data);
        if (!*out)
            st = portable_session_add_run(l, a, key.data, out);
        pthread_mutex_unlock(&l->lock);
    }
    mf_buf_deinit(&key);
    return st;
}

/* ---- the session ---- */

static mf_status lowered_run_step(mf_session *session, const mf_run_options *options,
                                  const mf_run_with *with, const char *const *feed_names,
                                  const mf_tensor *const *feeds, int n_feeds,
                                  const char *const *fetches, int n_fetches,
                                  const char *const *targets, int n_targets, mf_tensor **results)
{
    const portable_session_asked a = { feed_names, feeds,     fetches,  targets,
                                       n_feeds,    n_fetches, n_targets };
    const char **names = mf_calloc(n_feeds + 1, sizeof *names);
    const mf_tensor **values = mf_calloc(n_feeds + 1, sizeof *values);
    lowered_run *r = NULL;
    mf_status st =
        names && values ? portable_session_get_run(lowered_of(session), &a, &r) : MF_NOMEM("a run");
    int n = 0;

    for (int i = 0; st == MF_OK && i < n_feeds; i++) {
        names[n] = r->names.feeds[i];
        values[n] = feeds[i];
        n += names[n] != NULL; /* otherwise the feed is unused */
    }
    if (st == MF_OK)
        st = mf_session_run_with(r->session, options, with, names, values, n, r->names.fetches,
                                 n_fetches, r->names.targets, n_targets, results);
    mf_free(names);
    mf_free(values);
    return st;
}

static mf_status lowered_extend(mf_session *session, const mf_graph *graph)
{
    (void)session;
    return mf_graph_status(graph); /* runs read the graph when they are created */
}

static mf_status lowered_devices(mf_session *session, mf_device_fn *each, void *ctx)
{
    portable_session_lowered *l = lowered_of(session);
    mf_graph *g = NULL;
    mf_session *s = NULL;
    mf_status st = mf_graph_new(&g);

    if (st == MF_OK)
        st = mf_session_new(g, l->o.session, &s);
    if (st == MF_OK)
        st = mf_session_devices(s, each, ctx);
    mf_session_free(s);
    mf_graph_free(g);
    return st;
}

static void lowered_cancel(mf_session *session)
{
    portable_session_lowered *l = lowered_of(session);

    pthread_mutex_lock(&l->lock);
    for (lowered_run *r = l->all; r; r = r->next)
        mf_session_cancel(r->session);
    pthread_mutex_unlock(&l->lock);
}

static void lowered_free(mf_session *session)
{
    portable_session_lowered *l = lowered_of(session);

    for (lowered_run *r = l->all, *next; r; r = next) {
        next = r->next;
        portable_session_run_free(r);
    }
    mf_map_deinit(&l->runs);
    pthread_mutex_destroy(&l->lock);
    mf_free(l);
}

static const mf_session_kind LOWERED = {
    .run = lowered_run_step,
    .extend = lowered_extend,
    .devices = lowered_devices,
    .cancel = lowered_cancel,
    .free = lowered_free,
};

mf_status mf_portable_session_new(const mf_graph *graph, const mf_portable_session_options *options,
                                  mf_session **out)
{
    portable_session_lowered *l = mf_calloc(1, sizeof *l);

    *out = NULL;
    if (!l)
        return MF_NOMEM("a session");
    l->base.kind = &LOWERED;
    l->graph = graph;
    l->o = *options;
    pthread_mutex_init(&l->lock, NULL);
    *out = &l->base;
    return MF_OK;
}
