/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - see session.h. A run is known by its names and the shapes of its feeds; each has a
 * graph and a session for every processor here. Processors keep their variables in stores of their
 * own. A run's pieces meet in a room (runtime/room.h). */
#include "mesh/session.h"

#include "base/mem.h"
#include "graph/mesh.h"
#include "mesh/compiled.h"
#include "mesh/lower.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct session session;

typedef struct processor {
    mf_mesh_link link; /* first */
    session *of;
    mf_resources *resources, *node_state;
    int64_t planned; /* bytes to be received in the runs so far */
} processor;

/* A run that was compiled. */
typedef struct run {
    struct run *next;
    char *key;
    bool talks; /* processors do something together */
    int64_t *receives; /* by processor here: bytes */
    mf_mesh_costs costs; /* of the first of them */
    int64_t nodes; /* of its graph */
    mf_graph **graphs; /* the same */
    mf_session **sessions;
    char (*feeds)[MF_MESH_END_NAME], (*fetches)[MF_MESH_END_NAME];
    const char **feed_names, **fetch_names;
    const char **targets;
} run;

struct session {
    mf_session base; /* first */
    mf_mesh_setup setup;
    mf_graph *graph;
    mf_mesh_variables variables;
    mf_pool *pool;
    bool owns_pool;
    processor *processors;
    mf_rooms *rooms;
    pthread_mutex_t lock; /* runs come one after the other */
    mf_map runs; /* by key */
    run *all;
    int64_t number; /* of the last run that talked to others: the same for all of them */
    pthread_mutex_t room_lock;
    mf_room *room; /* of the run in hand; NULL: there is none. Guarded by room_lock where others
                      than that run look */
};

/* One call of run(). */
typedef struct call {
    session *s;
    run *r;
    const mf_run_options *options;
    const mf_run_with *with;
    const mf_tensor *const *feeds;
    int n_feeds, n_fetches, n_targets;
    mf_tensor **results;
    pthread_mutex_t lock;
    mf_error why; /* guarded by lock: the first failure */
} call;

static session *session_of(mf_session *base)
{
    return (session *)base;
}

/* ---- links ---- */

enum { KEY_MAX = 64 };

static void write_key(char key[KEY_MAX], int from, int to, int64_t id)
{
    (void)snprintf(key, KEY_MAX, "%d>%d:%" PRId64, from, to, id);
}

mf_status mf_mesh_put(mf_rooms *rooms, int from, int to, int64_t run_number, int64_t id,
                      const mf_tensor *piece)
{
    char key[KEY_MAX];
    mf_room *room;
    mf_status st;

    write_key(key, from, to, id);
    MF_TRY(mf_rooms_enter(rooms, run_number, &room));
    st = mf_room_send(room, key, piece);
    mf_room_leave(room);
    return st;
}

static mf_status link_send(mf_mesh_link *l, int to, int64_t id, const mf_tensor *piece)
{
    const processor *p = (const processor *)l;
    const mf_mesh_setup *setup = &p->of->setup;

    if (to < setup->first || to >= setup->first + setup->n)
        return setup->wire->kind->send(setup->wire, l->self, to, p->of->number, id, piece);
    return mf_mesh_put(p->of->rooms, l->self, to, p->of->number, id, piece);
}

static void link_receive(mf_mesh_link *l, int from, int64_t id, mf_cancel *cancel,
                         mf_mesh_got_fn *got, void *ctx)
{
    const processor *p = (const processor *)l;
    char key[KEY_MAX];

    write_key(key, from, l->self, id);
    mf_room_fetch(p->of->room, key, cancel, got, ctx);
}

static const mf_mesh_link_kind LINK = { link_send, link_receive };

/* ---- which run it is ---- */

static mf_status key_of(const mf_run_names *n, const mf_tensor *const *feeds, mf_buf *out)
{
    char shape[MF_SHAPE_TEXT];

    for (int i = 0; i < n->n_feeds; i++)
        mf_buf_printf(out, "%s=%s%s\n", n->feeds[i], mf_dtype_name(feeds[i]->dtype),
                      mf_shape_text(&feeds[i]->shape, shape));
    for (int i = 0; i < n->n_fetches; i++)
        mf_buf_printf(out, ">%s\n", n->fetches[i]);
    for (int i = 0; i < n->n_targets; i++)
        mf_buf_printf(out, "!%s\n", n->targets[i]);
    return mf_buf_finish(out);
}

static void run_free(run *r, int n)
{
    if (!r)
        return;
    for (int i = 0; i < n; i++) {
        if (r->sessions)
            mf_session_free(r->sessions[i]);
        if (r->graphs)
            mf_graph_free(r->graphs[i]);
    }
    mf_mesh_costs_deinit(&r->costs);
    mf_free(r->sessions);
    mf_free(r->receives);
    mf_free(r->graphs);
    mf_free(r->feeds);
    mf_free(r->fetches);
    mf_free(r->feed_names);
    mf_free(r->fetch_names);
    mf_free(r->targets);
    mf_free(r->key);
    mf_free(r);
}

static mf_status name_ends(run *r, const mf_run_names *n)
{
    r->feeds = mf_calloc(n->n_feeds + 1, sizeof *r->feeds);
    r->fetches = mf_calloc(n->n_fetches + 1, sizeof *r->fetches);
    r->feed_names = mf_calloc(n->n_feeds + 1, sizeof *r->feed_names);
    r->fetch_names = mf_calloc(n->n_fetches + 1, sizeof *r->fetch_names);
    r->targets = mf_calloc(n->n_targets + 1, sizeof *r->targets);
    if (!r->feeds || !r->fetches || !r->feed_names || !r->fetch_names || !r->targets)
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

static mf_status compile(session *s, const mf_run_names *n, const mf_tensor *const *feeds,
                         mf_arena *arena, run *r)
{
    mf_shape *shapes = MF_ARENA_ARRAY(arena, mf_shape, n->n_feeds + 1);
    mf_signature sig;

    r->graphs = mf_calloc(s->setup.n, sizeof *r->graphs);
    r->sessions = mf_calloc(s->setup.n, sizeof *r->sessions);
    r->receives = mf_calloc(s->setup.n, sizeof *r->receives);
    if (!r->graphs || !r->sessions || !r->receives || !shapes)
        return MF_NOMEM("a run");
    MF_TRY(mf_mesh_costs_init(&r->costs));
    MF_TRY(name_ends(r, n));
    MF_TRY(mf_signature_find(s->graph, n, arena, &sig));
    for (int i = 0; i < n->n_feeds; i++)
        shapes[i] = feeds[i]->shape;
    for (int i = 0; i < n->n_targets; i++)
        r->targets[i] = sig.targets[i]->name;
    sig.feed_shapes = shapes;
    MF_TRY(mf_mesh_compile(s->graph, &sig, &s->setup, &s->variables, r->graphs, r->receives,
                           &r->costs));
    for (int i = 0; i < s->setup.n; i++) {
        const processor *p = &s->processors[i];
        const mf_session_shared shared = { s->pool, p->resources, p->node_state };

        MF_TRY(mf_session_new_shared(r->graphs[i], &s->setup.session, &shared, &r->sessions[i]));
    }
    r->nodes = r->graphs[0]->n_nodes;
    mf_mesh_costs_sort(&r->costs);
    for (int64_t i = 0; i < r->nodes && !r->talks; i++)
        r->talks = strncmp(r->graphs[0]->nodes[i]->op_name, "_Mesh", strlen("_Mesh")) == 0;
    return MF_OK;
}

static mf_status add_run(session *s, const mf_run_names *n, const mf_tensor *const *feeds,
                         const char *key, run **out)
{
    run *r = mf_calloc(1, sizeof *r);
    mf_arena *arena = mf_arena_new();
    mf_status st = r && arena ? MF_OK : MF_NOMEM("a run");

    if (st == MF_OK)
        st = compile(s, n, feeds, arena, r);
    mf_arena_free(arena);
    if (st == MF_OK && !(r->key = mf_strdup(key)))
        st = MF_NOMEM("a run");
    if (st == MF_OK)
        st = mf_map_set(&s->runs, r->key, r);
    if (st != MF_OK) {
        run_free(r, s->setup.n);
        return st;
    }
    r->next = s->all;
    s->all = r;
    *out = r;
    return MF_OK;
}

static mf_status find_run(session *s, const mf_run_names *n, const mf_tensor *const *feeds,
                          run **out)
{
    mf_buf key = { 0 };
    mf_status st = key_of(n, feeds, &key);

    if (st == MF_OK) {
        *out = mf_map_find(&s->runs, key.data);
        if (!*out)
            st = add_run(s, n, feeds, key.data, out);
    }
    mf_buf_deinit(&key);
    return st;
}

/* ---- running ---- */

/* The first failure frees those who wait. */
static void note_failure(call *c, mf_status st)
{
    mf_mesh_wire *wire = c->s->setup.wire;
    mf_error why;

    mf_error_save(st, &why);
    pthread_mutex_lock(&c->lock);
    if (c->why.status == MF_OK)
        c->why = why;
    pthread_mutex_unlock(&c->lock);
    (void)mf_error_restore(&why);
    if (c->s->room)
        mf_room_fail(c->s->room, st);
    if (wire && c->r->talks && wire->kind->check(wire) == MF_OK) { /* else the others know better */
        (void)mf_error_restore(&why);
        wire->kind->give_up(wire, st);
    }
}

static void run_processor(call *c, int i)
{
    const run *r = c->r;
    mf_run_with with = *c->with;
    mf_tensor **own = mf_calloc(c->n_fetches + 1, sizeof *own);
    mf_status st = own ? MF_OK : MF_NOMEM("results");

    with.mesh = &c->s->processors[i].link;
    if (st == MF_OK)
        st = mf_session_run_with(r->sessions[i], c->options, &with, r->feed_names, c->feeds,
                                 c->n_feeds, r->fetch_names, c->n_fetches, r->targets, c->n_targets,
                                 i == 0 ? c->results : own);
    if (st == MF_OK)
        c->s->processors[i].planned += r->receives[i];
    else
        note_failure(c, st);
    for (int k = 0; own && k < c->n_fetches; k++)
        mf_tensor_free(own[k]);
    mf_free(own);
}

typedef struct worker {
    call *c;
    int i;
    pthread_t thread;
    bool started;
} worker;

static void *worker_main(void *arg)
{
    const worker *w = arg;

    run_processor(w->c, w->i);
    return NULL;
}

static void run_all(call *c)
{
    const int n = c->s->setup.n;
    worker *workers = mf_calloc(n, sizeof *workers);

    for (int i = 1; i < n; i++) {
        if (workers) {
            workers[i] = (worker){ .c = c, .i = i };
            workers[i].started =
                pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) == 0;
        }
        if (!workers || !workers[i].started)
            note_failure(c, MF_NOMEM("threads of a mesh"));
    }
    run_processor(c, 0);
    for (int i = 1; workers && i < n; i++) {
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    }
    mf_free(workers);
}

static void set_room(session *s, mf_room *room)
{
    pthread_mutex_lock(&s->room_lock);
    s->room = room;
    pthread_mutex_unlock(&s->room_lock);
}

/* Somebody else is gone, or gives up: whoever waits here need not. */
static void trouble(void *ctx)
{
    session *s = ctx;
    mf_room *room = NULL;

    pthread_mutex_lock(&s->room_lock);
    if (s->room && mf_rooms_enter(s->rooms, s->number, &room) != MF_OK)
        room = NULL; /* it is over */
    pthread_mutex_unlock(&s->room_lock);
    if (!room)
        return;
    mf_room_fail(room, MF_FAIL(MF_ABORTED, "another processor of the mesh does not go on"));
    mf_room_leave(room);
}

static mf_status run_in_room(call *c)
{
    session *s = c->s;
    const mf_mesh_wire *wire = s->setup.wire;
    mf_room *room;

    if (wire)
        MF_TRY(wire->kind->check(s->setup.wire));
    if (c->r->talks) {
        MF_TRY(mf_rooms_enter(s->rooms, ++s->number, &room));
        set_room(s, room);
    }
    run_all(c);
    if (c->r->talks) {
        set_room(s, NULL);
        mf_room_leave(room);
        mf_rooms_end(s->rooms, s->number);
    }
    if (c->why.status != MF_OK && wire)
        MF_TRY(wire->kind->check(s->setup.wire)); /* that may be why */
    return c->why.status == MF_OK ? MF_OK : mf_error_restore(&c->why);
}

static mf_status mesh_run(mf_session *base, const mf_run_options *options, const mf_run_with *with,
                          const char *const *feed_names, const mf_tensor *const *feeds, int n_feeds,
                          const char *const *fetches, int n_fetches, const char *const *targets,
                          int n_targets, mf_tensor **results)
{
    const mf_run_names n = { feed_names, fetches, targets, n_feeds, n_fetches, n_targets };
    session *s = session_of(base);
    call c = { .s = s,
               .options = options,
               .with = with,
               .feeds = feeds,
               .n_feeds = n_feeds,
               .n_fetches = n_fetches,
               .n_targets = n_targets,
               .results = results };
    mf_status st;

    pthread_mutex_init(&c.lock, NULL);
    pthread_mutex_lock(&s->lock);
    st = find_run(s, &n, feeds, &c.r);
    if (st == MF_OK)
        st = run_in_room(&c);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_destroy(&c.lock);
    return st;
}

/* ---- the session ---- */

static mf_status mesh_extend(mf_session *base, const mf_graph *graph)
{
    session *s = session_of(base);
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

    for (int i = 0; i < session_of(base)->setup.mesh.n; i++) {
        (void)snprintf(name, sizeof name, "/job:mesh/replica:0/task:%d/device:CPU:0", i);
        each(ctx, name, "CPU");
    }
    return MF_OK;
}

static void mesh_cancel(mf_session *base)
{
    session *s = session_of(base);

    for (run *r = s->all; r; r = r->next) {
        for (int i = 0; i < s->setup.n; i++)
            mf_session_cancel(r->sessions[i]);
    }
}

static void mesh_free(mf_session *base)
{
    session *s = session_of(base);

    if (s->setup.wire && s->rooms)
        s->setup.wire->kind->close(s->setup.wire);
    for (run *r = s->all, *next; r; r = next) {
        next = r->next;
        run_free(r, s->setup.n);
    }
    for (int i = 0; s->processors && i < s->setup.n; i++) {
        if (s->processors[i].resources)
            mf_resources_free(s->processors[i].resources);
        if (s->processors[i].node_state)
            mf_resources_free(s->processors[i].node_state);
    }
    mf_map_deinit(&s->runs);
    mf_free(s->processors);
    mf_rooms_free(s->rooms);
    if (s->owns_pool)
        mf_pool_free(s->pool);
    mf_mesh_variables_deinit(&s->variables);
    mf_graph_free(s->graph);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->room_lock);
    mf_free(s);
}

static const mf_session_kind MESH = {
    .run = mesh_run,
    .extend = mesh_extend,
    .devices = mesh_devices,
    .cancel = mesh_cancel,
    .free = mesh_free,
};

static mf_status session_init(session *s, const mf_graph *graph)
{
    MF_TRY(mf_graph_status(graph));
    MF_TRY(mf_mesh_variables_init(&s->variables));
    MF_TRY(mf_graph_copy(graph, NULL, &s->graph));
    MF_TRY(mf_mesh_variables_add(&s->variables, &s->setup, s->graph));
    s->pool = s->setup.pool;
    if (!s->pool) {
        MF_TRY(mf_pool_new(s->setup.session.threads, &s->pool));
        s->owns_pool = true;
    }
    s->processors = mf_calloc(s->setup.n, sizeof *s->processors);
    if (!s->processors)
        return MF_NOMEM("processors");
    for (int i = 0; i < s->setup.n; i++) {
        processor *p = &s->processors[i];

        p->link.kind = &LINK;
        p->link.self = s->setup.first + i;
        p->of = s;
        MF_TRY(mf_resources_new(&p->resources));
        MF_TRY(mf_resources_new(&p->node_state));
    }
    MF_TRY(mf_rooms_new(&s->rooms));
    if (s->setup.wire)
        s->setup.wire->kind->open(s->setup.wire, s->rooms, trouble, s);
    return MF_OK;
}

mf_status mf_mesh_session_make(const mf_graph *graph, const mf_mesh_setup *setup, mf_session **out)
{
    session *s = mf_calloc(1, sizeof *s);
    mf_status st;

    *out = NULL;
    if (!s)
        return MF_NOMEM("a session");
    s->base.kind = &MESH;
    s->setup = *setup;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->room_lock, NULL);
    st = session_init(s, graph);
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
    mf_mesh_setup setup = { .exact = options->exact, .session = options->session };

    *out = NULL;
    MF_TRY(mf_mesh_parse(options->mesh ? options->mesh : "", &setup.mesh));
    MF_TRY(mf_layout_rules_parse(&setup.mesh, options->layout, &setup.rules));
    setup.n = setup.mesh.n;
    return mf_mesh_session_make(graph, &setup, out);
}

/* ---- counters ---- */

static int64_t variable_bytes(const session *s, const processor *p)
{
    int64_t bytes = 0, it = 0;
    mf_map_entry *e;

    while ((e = mf_map_next(&s->variables.layouts, &it)) != NULL) {
        mf_object *o = mf_resources_find(p->resources, "localhost", e->key);
        mf_tensor value = { 0 };

        if (o && o->type == &mf_variable_type && mf_variable_is_initialized((mf_variable *)o) &&
            mf_variable_read((mf_variable *)o, &value) == MF_OK)
            bytes += value.count * (int64_t)mf_dtype_cell(value.dtype);
        mf_tensor_clear(&value);
        mf_object_unref(o);
    }
    return bytes;
}

mf_status mf_mesh_session_counts(mf_session *base, int i, mf_mesh_counts *out)
{
    session *s = session_of(base);
    processor *p;

    if (base->kind != &MESH || i < s->setup.first || i >= s->setup.first + s->setup.n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there is no processor %d here", i);
    p = &s->processors[i - s->setup.first];
    *out = (mf_mesh_counts){ .variable_bytes = variable_bytes(s, p),
                             .sent_bytes = atomic_load(&p->link.sent),
                             .received_bytes = atomic_load(&p->link.received),
                             .planned_bytes = p->planned,
                             .collectives = atomic_load(&p->link.collectives) };
    return MF_OK;
}

mf_status mf_mesh_session_costs(mf_session *base, mf_mesh_cost_fn *each, void *ctx)
{
    session *s = session_of(base);
    const run *most = NULL;

    if (base->kind != &MESH)
        return MF_FAIL(MF_INVALID_ARGUMENT, "this session is not on a mesh");
    pthread_mutex_lock(&s->lock);
    for (const run *r = s->all; r; r = r->next) {
        if (!most || r->nodes > most->nodes)
            most = r;
    }
    for (int64_t i = 0; most && i < most->costs.n; i++)
        each(ctx, most->costs.list[i]);
    pthread_mutex_unlock(&s->lock);
    return MF_OK;
}
