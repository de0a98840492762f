/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - a session in this process: a graph, the state of its ops, and a bounded cache of
 * compiled runs.
 *
 * The key of a run is the names of its feeds, fetches and targets and the types and shapes of its
 * feeds. If the shapes for the same names keep changing, the run is compiled once more with unknown
 * shapes, which are then used from there on. */
#include "runtime/session.h"

#include "base/clock.h"
#include "base/param.h"
#include "compiler/compiler.h"
#include "runtime/active_runs.h"
#include "runtime/executor.h"

#include <meshflow/session.h>
#include <meshflow/version.h>

#include <string.h>

MF_PARAM_INT(session_cache_runs, 128,
             "compiled runs kept by a session; the least recently used is dropped");
MF_PARAM_INT(session_cache_shapes, 8,
             "shapes of the same feeds compiled separately before one program serves all shapes");

/* One compiled run. */
typedef struct compiled {
    uint64_t hash; /* of names, types and shapes */
    uint64_t family; /* of names and types only */
    mf_run_names names; /* in arena */
    mf_dtype *types;
    mf_shape *shapes; /* NULL: any */
    mf_program *program;
    mf_arena *arena;
    int users; /* guarded by the session's lock */
    bool stale; /* the same: relies on shapes that are no longer valid, and is not found any more */
    int64_t used_at; /* for eviction */
} compiled;

/* A session of this process. */
typedef struct session_local {
    mf_session base; /* must be the first field */
    pthread_mutex_t lock;
    mf_graph *graph; /* guarded by lock */
    compiled **cache; /* guarded by lock */
    int64_t n_cache, cap_cache;
    int64_t clock;
    mf_pool *pool;
    bool owns_pool;
    mf_resources *resources; /* variables, queues */
    bool owns_resources;
    mf_resources *node_state; /* state of generators etc., by node */
    bool owns_node_state;
    struct mf_exchange *exchange; /* with other workers; NULL: none */
    mf_trace *trace; /* for all runs; NULL: none */
    mf_active_runs runs;
    uint64_t disabled;
    char **allow_dirs;
    int n_allow_dirs;
    atomic_llong next_step;
} session_local;

static session_local *local_of(mf_session *session)
{
    MF_ASSERT(session->kind == &mf_session_local);
    return (session_local *)session;
}

const char *mf_version(void)
{
    return MESHFLOW_VERSION;
}

/* ---- making and freeing ---- */

static mf_status session_copy_dirs(session_local *s, const mf_session_options *o)
{
    s->allow_dirs = mf_calloc(o->n_allow_dirs, sizeof *s->allow_dirs);
    if (!s->allow_dirs)
        return MF_NOMEM("a session");
    for (int i = 0; i < o->n_allow_dirs; i++) {
        s->allow_dirs[s->n_allow_dirs] = mf_strdup(o->allow_dirs[i]);
        if (!s->allow_dirs[s->n_allow_dirs++])
            return MF_NOMEM("a session");
    }
    return MF_OK;
}

static mf_status session_session_init(session_local *s, const mf_graph *graph,
                                      const mf_session_options *o)
{
    MF_TRY(mf_graph_status(graph));
    MF_TRY(mf_passes_parse(o->disable, &s->disabled));
    MF_TRY(session_copy_dirs(s, o));
    if (!s->node_state) {
        MF_TRY(mf_resources_new(&s->node_state));
        s->owns_node_state = true;
    }
    if (!s->resources) {
        MF_TRY(mf_resources_new(&s->resources));
        s->owns_resources = true;
    }
    if (!s->pool) {
        MF_TRY(mf_pool_new(o->threads, &s->pool));
        s->owns_pool = true;
    }
    MF_TRY(mf_graph_verify(graph));
    return mf_graph_copy(graph, NULL, &s->graph);
}

static void compiled_free(compiled *c)
{
    if (!c)
        return;
    mf_program_free(c->program);
    mf_arena_free(c->arena);
    mf_free(c);
}

static void local_free(mf_session *session)
{
    session_local *s = local_of(session);

    if (s->runs.flag)
        mf_active_runs_drain(&s->runs);
    for (int64_t i = 0; i < s->n_cache; i++)
        compiled_free(s->cache[i]);
    mf_free(s->cache);
    if (s->owns_pool)
        mf_pool_free(s->pool);
    if (s->owns_resources)
        mf_resources_free(s->resources);
    if (s->owns_node_state)
        mf_resources_free(s->node_state);
    mf_graph_free(s->graph);
    for (int i = 0; i < s->n_allow_dirs; i++)
        mf_free(s->allow_dirs[i]);
    mf_free(s->allow_dirs);
    mf_active_runs_deinit(&s->runs);
    pthread_mutex_destroy(&s->lock);
    mf_free(s);
    mf_buffer_settle();
}

mf_status mf_session_new_shared(const mf_graph *graph, const mf_session_options *options,
                                const mf_session_shared *shared, mf_session **out)
{
    const mf_session_options none = { 0 };
    session_local *s;
    mf_status st;

    *out = NULL;
    MF_TRY(mf_isa_check());
    s = mf_calloc(1, sizeof *s);
    if (!s)
        return MF_NOMEM("a session");
    s->base.kind = &mf_session_local;
    pthread_mutex_init(&s->lock, NULL);
    if (shared) {
        s->pool = shared->pool;
        s->resources = shared->resources;
        s->node_state = shared->node_state;
    }
    st = mf_active_runs_init(&s->runs);
    if (st == MF_OK)
        st = session_session_init(s, graph, options ? options : &none);
    if (st != MF_OK) {
        local_free(&s->base);
        return st;
    }
    *out = &s->base;
    return MF_OK;
}

/* Variables may have other shapes from now on. */
static void forget_shapes(session_local *s, const mf_graph *added)
{
    bool reshapes = false;

    for (int64_t i = 0; i < added->n_nodes && !reshapes; i++)
        reshapes =
            mf_node_reshapes(added->nodes[i]) && !mf_graph_find(s->graph, added->nodes[i]->name);
    for (int64_t i = 0; reshapes && i < s->n_cache; i++)
        s->cache[i]->stale = true;
}

static mf_status local_extend(mf_session *session, const mf_graph *graph)
{
    session_local *s = local_of(session);
    mf_status st = mf_graph_status(graph);

    pthread_mutex_lock(&s->lock);
    if (st == MF_OK) {
        forget_shapes(s, graph);
        st = mf_graph_merge(s->graph, graph);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

static void local_set_trace(mf_session *session, mf_trace *trace)
{
    local_of(session)->trace = trace;
}

void mf_session_set_trace(mf_session *session, mf_trace *trace)
{
    if (session->kind->set_trace)
        session->kind->set_trace(session, trace);
}

mf_trace *mf_session_trace(mf_session *session)
{
    return session->kind == &mf_session_local ? local_of(session)->trace : NULL;
}

void mf_session_set_exchange(mf_session *session, struct mf_exchange *exchange)
{
    session_local *s = local_of(session);

    pthread_mutex_lock(&s->lock);
    s->exchange = exchange;
    for (int64_t i = s->n_cache - 1; i >= 0; i--) { /* shards are part of a program */
        compiled *c = s->cache[i];

        c->stale = true;
        if (c->users == 0) {
            compiled_free(c);
            s->cache[i] = s->cache[--s->n_cache];
        }
    }
    pthread_mutex_unlock(&s->lock);
}

static void session_local_cancel(mf_session *session)
{
    mf_active_runs_cancel(&local_of(session)->runs);
}

/* ---- names ---- */

static uint64_t hash_strings(const char *const *s, int n, uint64_t h)
{
    for (int i = 0; i < n; i++)
        h = mf_hash(s[i], strlen(s[i]) + 1, h);
    return mf_hash(&n, sizeof n, h);
}

static bool session_same_strings(const char *const *a, const char *const *b, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(a[i], b[i]) != 0)
            return false;
    }
    return true;
}

static bool same_names(const mf_run_names *a, const mf_run_names *b)
{
    return a->n_feeds == b->n_feeds && a->n_fetches == b->n_fetches &&
           a->n_targets == b->n_targets && session_same_strings(a->feeds, b->feeds, a->n_feeds) &&
           session_same_strings(a->fetches, b->fetches, a->n_fetches) &&
           session_same_strings(a->targets, b->targets, a->n_targets);
}

static bool same_feeds(const compiled *c, const mf_tensor *const *feeds)
{
    for (int i = 0; i < c->names.n_feeds; i++) {
        if (c->types[i] != feeds[i]->dtype ||
            (c->shapes && !mf_shape_equal(&c->shapes[i], &feeds[i]->shape)))
            return false;
    }
    return true;
}

static compiled *cache_find(session_local *s, uint64_t hash, uint64_t family, const mf_run_names *n,
                            const mf_tensor *const *feeds, int *relatives)
{
    *relatives = 0;
    for (int64_t i = 0; i < s->n_cache; i++) {
        compiled *c = s->cache[i];

        if (c->family != family || c->stale)
            continue;
        if ((!c->shapes || c->hash == hash) && same_names(&c->names, n) && same_feeds(c, feeds))
            return c;
        ++*relatives;
    }
    return NULL;
}

/* ---- compiling ---- */

static mf_status copy_key(compiled *c, const mf_run_names *n, const mf_tensor *const *feeds,
                          bool shapes)
{
    c->names = *n;
    c->names.feeds = mf_arena_strings(c->arena, n->feeds, n->n_feeds);
    c->names.fetches = mf_arena_strings(c->arena, n->fetches, n->n_fetches);
    c->names.targets = mf_arena_strings(c->arena, n->targets, n->n_targets);
    c->types = MF_ARENA_ARRAY(c->arena, mf_dtype, n->n_feeds);
    if (shapes)
        c->shapes = MF_ARENA_ARRAY(c->arena, mf_shape, n->n_feeds);
    if (!c->names.feeds || !c->names.fetches || !c->names.targets || !c->types ||
        (shapes && !c->shapes))
        return MF_NOMEM("compiling");
    for (int i = 0; i < n->n_feeds; i++) {
        c->types[i] = feeds[i]->dtype;
        if (shapes)
            c->shapes[i] = feeds[i]->shape;
    }
    return MF_OK;
}

static mf_status session_resolve(session_local *s, compiled *c, const mf_tensor *const *feeds,
                                 mf_signature *sig)
{
    const mf_run_names *n = &c->names;

    MF_TRY(mf_signature_find(s->graph, n, c->arena, sig));
    sig->feed_shapes = c->shapes;
    for (int i = 0; i < n->n_feeds; i++) {
        const mf_output fed = sig->feeds[i];
        const mf_dtype type = mf_type_base(fed.node->out_types[fed.port]);

        if (type != feeds[i]->dtype)
            return MF_FAIL(MF_INVALID_ARGUMENT, "the feed for '%s' is %s, but it must be %s",
                           n->feeds[i], mf_dtype_name(feeds[i]->dtype), mf_dtype_name(type));
    }
    return MF_OK;
}

static mf_status session_compile(session_local *s, const mf_run_names *n,
                                 const mf_tensor *const *feeds, bool shapes, compiled **out)
{
    compiled *c = mf_calloc(1, sizeof *c);
    mf_signature sig;
    mf_status st = MF_OK;

    if (!c)
        return MF_NOMEM("compiling");
    c->arena = mf_arena_new();
    if (!c->arena)
        st = MF_NOMEM("compiling");
    if (st == MF_OK)
        st = copy_key(c, n, feeds, shapes);
    if (st == MF_OK)
        st = session_resolve(s, c, feeds, &sig);
    if (st == MF_OK)
        st = mf_compile_program(s->graph, &sig,
                                &(mf_compile){ .disabled = s->disabled,
                                               .session = s->node_state,
                                               .pool = s->pool,
                                               .exchange = s->exchange },
                                &c->program);
    if (st != MF_OK) {
        compiled_free(c);
        return st;
    }
    *out = c;
    return MF_OK;
}

/* If there are more than `max` entries: evict the least recently used entry that is not running.
 * While all are running, the limit may be exceeded. */
static void cache_evict(session_local *s, int64_t max)
{
    int64_t oldest = -1;

    if (s->n_cache <= max)
        return;
    for (int64_t i = 0; i < s->n_cache; i++) {
        if (s->cache[i]->users == 0 &&
            (oldest < 0 || s->cache[i]->used_at < s->cache[oldest]->used_at))
            oldest = i;
    }
    if (oldest < 0)
        return;
    compiled_free(s->cache[oldest]);
    s->cache[oldest] = s->cache[--s->n_cache];
}

static int64_t cache_max(void)
{
    return MF_PARAM(session_cache_runs) > 0 ? MF_PARAM(session_cache_runs) : 1;
}

static mf_status cache_add(session_local *s, compiled *c)
{
    cache_evict(s, cache_max() - 1);
    MF_TRY(mf_grow(&s->cache, &s->cap_cache, s->n_cache + 1, sizeof(compiled *)));
    s->cache[s->n_cache++] = c;
    return MF_OK;
}

static mf_status get_compiled(session_local *s, const mf_run_names *n,
                              const mf_tensor *const *feeds, compiled **out)
{
    uint64_t family = hash_strings(n->feeds, n->n_feeds, 1), hash;
    int relatives;
    compiled *c;
    mf_status st;

    family = hash_strings(n->fetches, n->n_fetches, family);
    family = hash_strings(n->targets, n->n_targets, family);
    hash = family;
    for (int i = 0; i < n->n_feeds; i++)
        hash = mf_hash(feeds[i]->shape.dims, (size_t)feeds[i]->shape.rank * sizeof(int64_t),
                       hash + (uint64_t)feeds[i]->shape.rank);
    c = cache_find(s, hash, family, n, feeds, &relatives);
    if (!c) {
        MF_TRY(session_compile(s, n, feeds, relatives < MF_PARAM(session_cache_shapes), &c));
        c->hash = hash;
        c->family = family;
        st = cache_add(s, c);
        if (st != MF_OK) {
            compiled_free(c);
            return st;
        }
    }
    c->users++;
    c->used_at = ++s->clock;
    *out = c;
    return MF_OK;
}

/* ---- running ---- */

enum { STACK_RESULTS = 16 };

static mf_status run_compiled(session_local *s, compiled *c, mf_cancel *cancel,
                              const mf_run_options *options, const mf_run_with *with,
                              const mf_tensor *const *feeds, mf_tensor *results)
{
    mf_run_args args = { .pool = s->pool,
                         .resources = s->resources,
                         .exchange = s->exchange,
                         .rendezvous = with->rendezvous,
                         .mesh = with->mesh,
                         .allow_dirs = (const char *const *)s->allow_dirs,
                         .n_allow_dirs = s->n_allow_dirs,
                         .step_id = atomic_fetch_add(&s->next_step, 1),
                         .task = with->task,
                         .shared_step = with->step,
                         .cancel = cancel,
                         .feeds = feeds,
                         .results = results };
    const char *trace_path = options ? options->trace_path : NULL;
    mf_trace *own = NULL;
    mf_status st;

    if (options && options->timeout_ms > 0 && options->timeout_ms < INT64_MAX / 2000000)
        args.deadline_ns = mf_clock_ns() + options->timeout_ms * 1000000;
    if (trace_path)
        MF_TRY(mf_trace_new(&own));
    args.trace = own ? own : with->trace ? with->trace : s->trace;
    st = mf_program_run(c->program, &args);
    if (own && st == MF_OK)
        st = mf_trace_write(own, trace_path);
    mf_trace_free(own);
    return st;
}

static mf_status session_hand_over(mf_tensor *values, mf_tensor **results, int n)
{
    for (int i = 0; i < n; i++) {
        if (!results[i])
            results[i] = mf_calloc(1, sizeof *results[i]);
        if (!results[i])
            return MF_NOMEM("results");
        mf_tensor_move(results[i], &values[i]);
    }
    return MF_OK;
}

static mf_status local_run(mf_session *session, const mf_run_options *options,
                           const mf_run_with *with, const char *const *feed_names,
                           const mf_tensor *const *feeds, int n_feeds, const char *const *fetches,
                           int n_fetches, const char *const *targets, int n_targets,
                           mf_tensor **results)
{
    const mf_run_names n = { feed_names, fetches, targets, n_feeds, n_fetches, n_targets };
    mf_tensor few[STACK_RESULTS] = { { 0 } }, *values = few;
    session_local *s = local_of(session);
    compiled *c = NULL;
    mf_run run;
    mf_status st = MF_OK;

    if (n_fetches == 0 && n_targets == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Must specify at least one target to fetch or execute.");
    if (n_fetches > STACK_RESULTS) {
        values = mf_calloc(n_fetches, sizeof *values);
        if (!values)
            return MF_NOMEM("results");
    }
    mf_active_runs_begin(&s->runs, with->until, &run); /* compilation counts as part of the run */
    pthread_mutex_lock(&s->lock);
    st =
        mf_cancel_is_raised(run.cancel)
            ? MF_FAIL(MF_CANCELLED, "Step was cancelled by an explicit call to `Session::Close()`.")
            : get_compiled(s, &n, feeds, &c);
    pthread_mutex_unlock(&s->lock);
    if (st == MF_OK) {
        st = run_compiled(s, c, run.cancel, options, with, feeds, values);
        pthread_mutex_lock(&s->lock);
        c->users--;
        cache_evict(s, cache_max());
        pthread_mutex_unlock(&s->lock);
    }
    mf_active_runs_end(&s->runs, &run); /* the session may be freed from here on */
    if (st == MF_OK)
        st = session_hand_over(values, results, n_fetches);
    for (int i = 0; i < n_fetches; i++)
        mf_tensor_clear(&values[i]);
    if (values != few)
        mf_free(values);
    return st;
}

/* ---- devices ---- */

static mf_status local_devices(mf_session *session, mf_device_fn *each, void *ctx)
{
    (void)session;
    each(ctx, "/job:localhost/replica:0/task:0/device:CPU:0", "CPU"); /* TensorFlow's name */
    return MF_OK;
}

const mf_session_kind mf_session_local = {
    .run = local_run,
    .extend = local_extend,
    .devices = local_devices,
    .cancel = session_local_cancel,
    .free = local_free,
    .set_trace = local_set_trace,
};
