/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_session.c - a session on a mesh: sessions, variables and threads of the local devices. Each
 * run has a graph and a session per local device. Each device has its own variables. Devices
 * exchange shards through a rendezvous table (runtime/rendezvous_table.h). */
#include "base/clock.h"
#include "base/host_state.h"
#include "base/mem.h"
#include "base/thread.h"
#include "observe/trace.h"
#include "spmd/session/mesh_session_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One call of run(). */
typedef struct mesh_session_call {
    mf_mesh_session *s;
    mf_mesh_run *r;
    const mf_run_options *options;
    const mf_run_with *with;
    const mf_tensor *const *feeds;
    int n_feeds, n_fetches;
    mf_tensor **results;
    pthread_mutex_t lock;
    mf_error why; /* guarded by lock: the first failure */
} mesh_session_call;

/* ---- links ---- */

enum { KEY_MAX = 64 };

static void mesh_session_write_key(char key[KEY_MAX], int from, int to, int64_t id)
{
    (void)snprintf(key, KEY_MAX, "%d>%d:%" PRId64, from, to, id);
}

mf_status mf_mesh_put(mf_rendezvous_tables *tables, int from, int to, int64_t run_number,
                      int64_t id, const mf_tensor *piece)
{
    char key[KEY_MAX];
    mf_rendezvous_table *table;
    mf_status st;

    mesh_session_write_key(key, from, to, id);
    MF_TRY(mf_rendezvous_tables_enter(tables, run_number, &table));
    st = mf_rendezvous_table_send(table, key, piece);
    mf_rendezvous_table_leave(table);
    return st;
}

/* A node of a loaded graph can name any peer. */
static mf_status check_peer(const mf_mesh_device *p, int peer)
{
    const int n = p->of->setup.meshes.devices;

    if (!p->of->table)
        return MF_FAIL(MF_FAILED_PRECONDITION, "devices do not communicate in this run");
    if (peer >= 0 && peer < n && peer != p->link.self)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "device %d cannot send to %d in a mesh of %d", p->link.self,
                   peer, n);
}

static mf_status link_send(mf_mesh_link *l, int to, int64_t id, const mf_tensor *piece)
{
    const mf_mesh_device *p = (const mf_mesh_device *)l;
    const mf_mesh_setup *setup = &p->of->setup;

    MF_TRY(check_peer(p, to));
    if (to < setup->first || to >= setup->first + setup->n)
        return setup->wire->kind->send(setup->wire, l->self, to, p->of->number, id, piece);
    return mf_mesh_put(p->of->tables, l->self, to, p->of->number, id, piece);
}

static void link_receive(mf_mesh_link *l, int from, int64_t id, mf_cancel *cancel,
                         mf_mesh_got_fn *got, void *ctx)
{
    const mf_mesh_device *p = (const mf_mesh_device *)l;
    char key[KEY_MAX];

    const mf_status st = check_peer(p, from);

    if (st != MF_OK) {
        got(ctx, st, NULL);
        return;
    }
    mesh_session_write_key(key, from, l->self, id);
    mf_rendezvous_table_fetch(p->of->table, key, cancel, got, ctx);
}

static void link_fail(mf_mesh_link *l, mf_status why)
{
    const mf_mesh_session *s = ((const mf_mesh_device *)l)->of;

    if (s->table)
        mf_rendezvous_table_fail(s->table, why);
}

static const mf_mesh_link_kind LINK = { link_send, link_receive, link_fail };

/* ---- running ---- */

void mf_mesh_give_up(mf_mesh_session *s, mf_status st, bool together)
{
    mf_mesh_wire *wire = s->setup.wire;
    mf_error why;

    mf_error_save(st, &why);
    if (s->table)
        mf_rendezvous_table_fail(s->table, st);
    if (wire && together && wire->kind->check(wire) == MF_OK) { /* otherwise another task reports
                                                                   the cause */
        (void)mf_error_restore(&why);
        wire->kind->give_up(wire, st);
    }
    (void)mf_error_restore(&why);
}

static void mesh_session_note_failure(mesh_session_call *c, mf_status st)
{
    mf_error why;

    mf_error_save(st, &why);
    pthread_mutex_lock(&c->lock);
    if (c->why.status == MF_OK)
        c->why = why;
    pthread_mutex_unlock(&c->lock);
    (void)mf_error_restore(&why);
    mf_mesh_give_up(c->s, st, c->r->talks);
}

static void run_device(mesh_session_call *c, int i)
{
    const mf_mesh_run *r = c->r;
    mf_run_with with = *c->with;
    mf_tensor **own = mf_calloc(c->n_fetches + 1, sizeof *own);
    mf_status st = own ? MF_OK : MF_NOMEM("results");

    with.mesh = &c->s->devices[i].link;
    with.mesh->meter = (mf_mesh_meter){ .begin = mf_clock_ns() };
    if (st == MF_OK && c->n_fetches + r->n_targets[i] > 0) /* otherwise it belongs to another mesh
                                                            */
        st = mf_session_run_with(r->sessions[i], c->options, &with, r->feed_names, c->feeds,
                                 c->n_feeds, r->fetch_names, c->n_fetches, r->targets[i],
                                 r->n_targets[i], i == 0 ? c->results : own);
    if (st == MF_OK)
        c->s->devices[i].planned += r->receives[i];
    else
        mesh_session_note_failure(c, st);
    for (int k = 0; own && k < c->n_fetches; k++)
        mf_tensor_free(own[k]);
    mf_free(own);
}

typedef struct mesh_session_worker {
    mesh_session_call *c;
    int i;
    pthread_t thread;
    bool started;
} mesh_session_worker;

static void *mesh_session_worker_main(void *arg)
{
    const mesh_session_worker *w = arg;

    run_device(w->c, w->i);
    return NULL;
}

static void mesh_session_run_all(mesh_session_call *c)
{
    const int n = c->s->setup.n;
    mesh_session_worker *workers = mf_calloc(n, sizeof *workers);

    for (int i = 1; i < n; i++) {
        if (workers) {
            workers[i] = (mesh_session_worker){ .c = c, .i = i };
            workers[i].started =
                mf_thread_start(&workers[i].thread, mesh_session_worker_main, &workers[i]) == 0;
        }
        if (!workers || !workers[i].started)
            mesh_session_note_failure(c, MF_NOMEM("threads of a mesh"));
    }
    run_device(c, 0);
    for (int i = 1; workers && i < n; i++) {
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    }
    mf_free(workers);
}

void mf_mesh_set_run_table(mf_mesh_session *s, mf_rendezvous_table *table)
{
    pthread_mutex_lock(&s->table_lock);
    s->table = table;
    pthread_mutex_unlock(&s->table_lock);
}

/* A peer is lost or has failed: unblock all threads that wait here. */
static void abort_waits(void *ctx)
{
    mf_mesh_session *s = ctx;
    mf_rendezvous_table *table = NULL;

    pthread_mutex_lock(&s->table_lock);
    if (s->table && mf_rendezvous_tables_enter(s->tables, s->number, &table) != MF_OK)
        table = NULL; /* the run has ended */
    pthread_mutex_unlock(&s->table_lock);
    if (!table)
        return;
    mf_rendezvous_table_fail(table, MF_FAIL(MF_ABORTED, "another device of the mesh has failed"));
    mf_rendezvous_table_leave(table);
}

/* Measures the run and the share of each device. */
static void run_and_measure(mesh_session_call *c)
{
    mf_mesh_run *r = c->r;
    const int64_t begin = mf_clock_ns();

    mesh_session_run_all(c);
    if (c->why.status != MF_OK || r->calls++ == 0)
        return;
    r->ns += mf_clock_ns() - begin;
    for (int i = 0; i < c->s->setup.n; i++) {
        const int64_t before = r->meters[i].busy_ns;

        r->meters[i] = c->s->devices[i].link.meter;
        r->meters[i].busy_ns += before;
    }
}

static mf_status run_with_table(mesh_session_call *c)
{
    mf_mesh_session *s = c->s;
    const mf_mesh_wire *wire = s->setup.wire;
    mf_status st = MF_OK;
    mf_rendezvous_table *table = NULL;

    if (c->r->talks) {
        MF_TRY(mf_rendezvous_tables_enter(s->tables, ++s->number, &table));
        mf_mesh_set_run_table(s, table);
    }
    if (wire) /* from here on, trouble() reports to this table */
        st = wire->kind->check(s->setup.wire);
    if (st == MF_OK)
        run_and_measure(c);
    if (table) {
        mf_mesh_set_run_table(s, NULL);
        mf_rendezvous_table_leave(table);
        mf_rendezvous_tables_end(s->tables, s->number);
    }
    if (st != MF_OK)
        return st;
    if (c->why.status != MF_OK && wire)
        MF_TRY(wire->kind->check(s->setup.wire)); /* a peer's failure may be the cause */
    return c->why.status == MF_OK ? MF_OK : mf_error_restore(&c->why);
}

static mf_status mesh_session_mesh_run(mf_session *base, const mf_run_options *options,
                                       const mf_run_with *with, const char *const *feed_names,
                                       const mf_tensor *const *feeds, int n_feeds,
                                       const char *const *fetches, int n_fetches,
                                       const char *const *targets, int n_targets,
                                       mf_tensor **results)
{
    const mf_run_names n = { feed_names, fetches, targets, n_feeds, n_fetches, n_targets };
    mf_mesh_session *s = mf_mesh_session_of(base);
    mf_run_options plain = options ? *options : (mf_run_options){ 0 };
    mf_run_with until = *with;
    const char *path = plain.trace_path;
    mf_trace *trace = NULL; /* one trace for all local devices */
    mesh_session_call c = { .s = s,
                            .options = &plain,
                            .with = &until,
                            .feeds = feeds,
                            .n_feeds = n_feeds,
                            .n_fetches = n_fetches,
                            .results = results };
    mf_run in_progress;
    mf_status st;

    mf_active_runs_begin(&s->in_progress, with->until, &in_progress); /* cancellable from here on */
    until.until = in_progress.cancel;
    pthread_mutex_init(&c.lock, NULL);
    pthread_mutex_lock(&s->lock);
    st = mf_mesh_find_run(s, &n, feeds, &c.r);
    if (st == MF_OK)
        st = mf_mesh_run_check_feeds(c.r, feeds);
    if (st == MF_OK && path)
        st = mf_trace_new(&trace);
    plain.trace_path = NULL;
    until.trace = trace ? trace : with->trace ? with->trace : s->trace;
    if (st == MF_OK)
        st = run_with_table(&c);
    if (st == MF_OK && trace)
        st = mf_trace_write(trace, path);
    mf_trace_free(trace);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_destroy(&c.lock);
    mf_active_runs_end(&s->in_progress, &in_progress);
    return st;
}

/* ---- the session ---- */

static mf_status mesh_extend(mf_session *base, const mf_graph *graph)
{
    mf_mesh_session *s = mf_mesh_session_of(base);
    mf_status st = mf_graph_status(graph);

    pthread_mutex_lock(&s->lock);
    if (st == MF_OK)
        st = mf_graph_merge(s->graph, graph);
    if (st == MF_OK)
        st = mf_mesh_variables_add(&s->variables, &s->setup, s->graph);
    pthread_mutex_unlock(&s->lock);
    return st;
}

static mf_status mesh_devices(mf_session *base, mf_device_fn *each, void *ctx)
{
    char name[64];

    for (int i = 0; i < mf_mesh_session_of(base)->setup.meshes.devices; i++) {
        (void)snprintf(name, sizeof name, "/job:mesh/replica:0/task:%d/device:CPU:0", i);
        each(ctx, name, "CPU");
    }
    return MF_OK;
}

static void mesh_cancel(mf_session *base)
{
    mf_active_runs_cancel(&mf_mesh_session_of(base)->in_progress);
}

static void mesh_free(mf_session *base)
{
    mf_mesh_session *s = mf_mesh_session_of(base);

    if (s->in_progress.flag)
        mf_active_runs_drain(&s->in_progress);
    if (s->setup.wire && s->tables)
        s->setup.wire->kind->close(s->setup.wire);
    mf_mesh_free_runs(s);
    for (int i = 0; s->devices && i < s->setup.n; i++) {
        if (s->devices[i].resources)
            mf_resources_free(s->devices[i].resources);
        if (s->devices[i].node_state)
            mf_resources_free(s->devices[i].node_state);
    }
    mf_free(s->devices);
    mf_rendezvous_tables_free(s->tables);
    if (s->owns_pool)
        mf_pool_free(s->pool);
    mf_mesh_variables_deinit(&s->variables);
    mf_graph_free(s->graph);
    mf_active_runs_deinit(&s->in_progress);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->table_lock);
    mf_free(s);
}

static void mesh_set_trace(mf_session *base, mf_trace *trace)
{
    mf_mesh_session_of(base)->trace = trace;
}

const mf_session_kind mf_mesh_session_kind = {
    .run = mesh_session_mesh_run,
    .extend = mesh_extend,
    .devices = mesh_devices,
    .cancel = mesh_cancel,
    .free = mesh_free,
    .set_trace = mesh_set_trace,
};

static mf_status mesh_session_init(mf_mesh_session *s, const mf_graph *graph)
{
    MF_TRY(mf_active_runs_init(&s->in_progress));
    MF_TRY(mf_graph_status(graph));
    MF_TRY(mf_mesh_variables_init(&s->variables));
    MF_TRY(mf_graph_copy(graph, NULL, &s->graph));
    MF_TRY(mf_mesh_variables_add(&s->variables, &s->setup, s->graph));
    s->pool = s->setup.pool;
    if (!s->pool) {
        MF_TRY(mf_pool_new(s->setup.session.threads, &s->pool));
        s->owns_pool = true;
    }
    s->devices = mf_calloc(s->setup.n, sizeof *s->devices);
    if (!s->devices)
        return MF_NOMEM("devices");
    for (int i = 0; i < s->setup.n; i++) {
        mf_mesh_device *p = &s->devices[i];

        p->link.kind = &LINK;
        p->link.self = s->setup.first + i;
        p->of = s;
        MF_TRY(mf_resources_new(&p->resources));
        MF_TRY(mf_resources_new(&p->node_state));
    }
    MF_TRY(mf_rendezvous_tables_new(&s->tables));
    if (s->setup.wire)
        s->setup.wire->kind->open(s->setup.wire, s->tables, abort_waits, s);
    return MF_OK;
}

mf_status mf_mesh_session_make(const mf_graph *graph, const mf_mesh_setup *setup, mf_session **out)
{
    mf_mesh_session *s = mf_calloc(1, sizeof *s);
    mf_status st;

    *out = NULL;
    if (!s)
        return MF_NOMEM("a session");
    s->base.kind = &mf_mesh_session_kind;
    s->setup = *setup;
    if (s->setup.seed == 0)
        s->setup.seed = mf_random_seed() | 1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->table_lock, NULL);
    st = mesh_session_init(s, graph);
    if (st != MF_OK) {
        mesh_free(&s->base);
        return st;
    }
    *out = &s->base;
    return MF_OK;
}

mf_status mf_mesh_session_new(const mf_graph *graph, const mf_mesh_options *options,
                              mf_session **out)
{
    MF_ENTRY;
    MF_NEED(graph, options, out);

    mf_mesh_setup setup = { .exact = options->exact, .session = options->session };

    *out = NULL;
    MF_TRY(mf_meshes_parse(options->mesh ? options->mesh : "", options->layout, &setup.meshes,
                           &setup.rules));
    setup.n = setup.meshes.devices;
    return mf_mesh_session_make(graph, &setup, out);
}
