/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_run.c - runs the graphs of dispatched calls: one session per graph digest. */
#include "dispatch/dispatch_run.h"

#include "base/clock.h"
#include "base/cond.h"
#include "runtime/session.h"

#include <pthread.h>
#include <string.h>

typedef struct known_graph {
    mf_digest digest;
    void *bytes; /* a serialized GraphDef */
    size_t len;
    pthread_mutex_t making; /* held while the session is created */
    mf_session *session; /* NULL: not created yet; set with both locks held */
    struct known_graph *next;
} known_graph;

struct mf_dispatch_call_runner {
    mf_dispatch_options o;
    mf_pool *pool;
    mf_resources *resources;
    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t ended; /* a call has ended */
    known_graph *graphs;
    int running; /* running calls */
    bool stopped; /* no further call is started */
};

enum { AGAIN_NS = 50000000 }; /* interval at which calls that have not ended are cancelled again */

/* ---- graphs ---- */

static known_graph *dispatch_run_find(mf_dispatch_call_runner *r, const mf_digest *digest)
{
    known_graph *g;

    pthread_mutex_lock(&r->lock);
    for (g = r->graphs; g; g = g->next) {
        if (memcmp(&g->digest, digest, sizeof *digest) == 0)
            break;
    }
    pthread_mutex_unlock(&r->lock);
    return g;
}

static void dispatch_run_graph_free(known_graph *g)
{
    if (!g)
        return;
    mf_session_free(g->session);
    mf_free(g->bytes);
    pthread_mutex_destroy(&g->making);
    mf_free(g);
}

mf_status mf_dispatch_call_runner_add(mf_dispatch_call_runner *r, const void *graph, size_t len)
{
    const mf_digest digest = mf_digest_of(graph, len);
    known_graph *g;

    if (dispatch_run_find(r, &digest))
        return MF_OK;
    g = mf_calloc(1, sizeof *g);
    if (!g)
        return MF_NOMEM("a graph");
    pthread_mutex_init(&g->making, NULL);
    g->digest = digest;
    g->len = len;
    g->bytes = mf_calloc((int64_t)len, 1);
    if (!g->bytes) {
        dispatch_run_graph_free(g);
        return MF_NOMEM("a graph");
    }
    memcpy(g->bytes, graph, len);
    pthread_mutex_lock(&r->lock);
    g->next = r->graphs;
    r->graphs = g;
    pthread_mutex_unlock(&r->lock);
    return MF_OK;
}

static mf_status dispatch_run_make_session(mf_dispatch_call_runner *r, known_graph *g)
{
    const mf_session_options options = { .threads = r->o.threads,
                                         .allow_dirs = r->o.allow_dirs,
                                         .n_allow_dirs = r->o.n_allow_dirs };
    mf_graph *graph = NULL;
    mf_session *session = NULL;
    mf_status st = mf_graph_new(&graph);

    if (st == MF_OK)
        st = mf_graph_decode(graph, g->bytes, g->len);
    if (st == MF_OK)
        st = mf_session_new_shared(graph, &options,
                                   &(mf_session_shared){ r->pool, r->resources, NULL }, &session);
    mf_graph_free(graph);
    pthread_mutex_lock(&r->lock);
    g->session = session;
    pthread_mutex_unlock(&r->lock);
    return st;
}

static mf_status session_for(mf_dispatch_call_runner *r, const mf_digest *digest, mf_session **out)
{
    known_graph *g = dispatch_run_find(r, digest);
    mf_status st = MF_OK;

    if (!g)
        return MF_FAIL(MF_NOT_FOUND, "the call names a graph that was not sent");
    pthread_mutex_lock(&g->making);
    if (!g->session)
        st = dispatch_run_make_session(r, g);
    *out = g->session;
    pthread_mutex_unlock(&g->making);
    return st;
}

/* ---- calls ---- */

static mf_status dispatch_run(mf_dispatch_call_runner *r, const mf_dispatch_call *call,
                              mf_tensor **values, int64_t *ns)
{
    mf_session *session;
    int64_t begin;
    mf_status st;

    MF_TRY(session_for(r, &call->graph, &session));
    begin = mf_clock_ns();
    st = mf_session_run(session, NULL, call->feed_names, (const mf_tensor *const *)call->feeds,
                        call->n_feeds, call->fetches, call->n_fetches, call->targets,
                        call->n_targets, values);
    *ns = mf_clock_ns() - begin;
    for (int i = 0; st == MF_OK && i < call->n_fetches; i++) {
        const mf_dtype type = values[i]->dtype;

        if (!mf_dtype_is_plain(type) && type != MF_DTYPE_STRING)
            st = MF_FAIL(MF_UNIMPLEMENTED,
                         "'%.200s' has the type %s, which cannot be sent to "
                         "another process",
                         call->fetches[i], mf_dtype_name(type));
    }
    return st;
}

/* Encodes the result; a result that cannot be encoded is a failure, too. */
static mf_status write_result(const mf_dispatch_call *call, mf_status st, mf_tensor **values,
                              int64_t ns, mf_buf *out)
{
    const size_t before = out->len;

    if (st == MF_OK) {
        st = mf_answer_encode(
            &(mf_answer){ .id = call->id, .values = values, .n_values = call->n_fetches, .ns = ns },
            out);
        if (st == MF_OK && out->len - before > MF_FRAME_MAX)
            st = MF_FAIL(MF_RESOURCE_EXHAUSTED,
                         "results of %zu bytes do not fit one message of at most %d: fetch less "
                         "at once",
                         out->len - before, (int)MF_FRAME_MAX);
    }
    if (st == MF_OK)
        return MF_OK;
    mf_buf_deinit(out); /* its error is sticky */
    return mf_answer_encode(
        &(mf_answer){ .id = call->id, .status = st, .message = mf_error_message(), .ns = ns }, out);
}

static mf_status dispatch_run_begin_call(mf_dispatch_call_runner *r)
{
    bool stopped;

    pthread_mutex_lock(&r->lock);
    stopped = r->stopped;
    r->running += !stopped;
    pthread_mutex_unlock(&r->lock);
    return stopped ? MF_FAIL(MF_CANCELLED, "the call was cancelled") : MF_OK;
}

static void end_call(mf_dispatch_call_runner *r)
{
    pthread_mutex_lock(&r->lock);
    r->running--;
    pthread_cond_broadcast(&r->ended);
    pthread_mutex_unlock(&r->lock);
}

static mf_status run_unless_stopped(mf_dispatch_call_runner *r, const mf_dispatch_call *call,
                                    mf_tensor **values, int64_t *ns)
{
    mf_status st;

    MF_TRY(dispatch_run_begin_call(r));
    st = dispatch_run(r, call, values, ns);
    end_call(r);
    return st;
}

mf_status mf_dispatch_call_runner_run(mf_dispatch_call_runner *r, const void *data, size_t len,
                                      mf_buf *result)
{
    mf_arena *arena = mf_arena_new();
    mf_tensor **values = NULL;
    mf_dispatch_call call = { 0 };
    int64_t ns = 0;
    mf_status st = arena ? mf_dispatch_call_decode(data, len, arena, &call) : MF_NOMEM("a call");

    if (st == MF_OK) {
        values = mf_calloc(call.n_fetches, sizeof(mf_tensor *));
        st = values ? run_unless_stopped(r, &call, values, &ns) : MF_NOMEM("results");
        st = write_result(&call, st, values, ns, result);
    } else if (st == MF_RESOURCE_EXHAUSTED && call.id > 0) {
        st = write_result(&call, st, NULL, ns, result); /* the call is too large for memory: the
                                                           result is this failure */
    }
    for (int i = 0; values && i < call.n_fetches; i++)
        mf_tensor_free(values[i]);
    mf_free(values);
    mf_tensors_clear(call.feeds, call.n_feeds);
    mf_arena_free(arena);
    return st;
}

/* Repeated: a call that had not entered its session yet misses a cancellation. */
void mf_dispatch_call_runner_stop(mf_dispatch_call_runner *r)
{
    mf_error before;

    mf_error_save(MF_OK, &before); /* the caller may still need its own error */
    pthread_mutex_lock(&r->lock);
    r->stopped = true;
    while (r->running > 0) {
        for (known_graph *g = r->graphs; g; g = g->next) {
            if (g->session)
                mf_session_cancel(g->session);
        }
        if (r->running > 0)
            (void)mf_cond_wait_until(&r->ended, &r->lock, mf_clock_ns() + AGAIN_NS);
    }
    pthread_mutex_unlock(&r->lock);
    (void)mf_error_restore(&before);
}

/* ---- creating and freeing ---- */

mf_status mf_dispatch_call_runner_new(const mf_dispatch_options *o, mf_dispatch_call_runner **out)
{
    mf_dispatch_call_runner *r = mf_calloc(1, sizeof *r);
    mf_status st;

    *out = NULL;
    if (!r)
        return MF_NOMEM("a worker");
    pthread_mutex_init(&r->lock, NULL);
    mf_cond_init(&r->ended);
    r->o = *o;
    st = mf_pool_new(o->threads, &r->pool);
    if (st == MF_OK)
        st = mf_resources_new(&r->resources);
    if (st == MF_OK)
        *out = r;
    else
        mf_dispatch_call_runner_free(r);
    return st;
}

void mf_dispatch_call_runner_free(mf_dispatch_call_runner *r)
{
    if (!r)
        return;
    while (r->graphs) {
        known_graph *g = r->graphs;

        r->graphs = g->next;
        dispatch_run_graph_free(g);
    }
    mf_resources_free(r->resources);
    mf_pool_free(r->pool);
    pthread_cond_destroy(&r->ended);
    pthread_mutex_destroy(&r->lock);
    mf_free(r);
}
