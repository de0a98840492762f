/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - sessions of masters, and the graphs that they register. */
#include "tf_server/worker.h"

#include "base/map.h"
#include "base/param.h"
#include "base/quota.h"
#include "graph/graphdef_codec.h"
#include "runtime/session.h"
#include "tf_server/group_leader.h"
#include "tf_server/step_sequence.h"
#include "tf_server/task_collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

MF_PARAM_INT(server_graphs, 2000, "maximum number of graphs on a server per session of a master");

/* A master's session, on this task. */
typedef struct worker_session {
    char *handle;
    char *master; /* "/job:worker/replica:0/task:0"; "": not sent */
    int64_t incarnation; /* of the master's process */
    mf_resources *resources; /* NULL: the server's */
    mf_resources *node_state; /* state of nodes, shared by all graphs of the session */
    int refs; /* held by graphs and the map; guarded by the lock, like the members below */
    int64_t graphs; /* registered now */
} worker_session;

struct mf_worker_graph {
    mf_worker_service *workings;
    char handle[17];
    worker_session *session;
    mf_session *graph;
    const char **targets;
    int n_targets;
    mf_arena *arena; /* of targets */
    int64_t charged; /* bytes charged to the memory quota */
    int leader; /* leader of groups: a task */
    int refs; /* guarded by the lock */
};

struct mf_worker_service {
    mf_server *server;
    pthread_mutex_t lock; /* all below */
    mf_map sessions, graphs; /* by handle */
    uint64_t made; /* graphs registered so far */
};

/* ---- sessions ---- */

static void session_free(worker_session *s)
{
    mf_resources_free(s->resources);
    mf_resources_free(s->node_state);
    mf_free(s->handle);
    mf_free(s->master);
    mf_free(s);
}

static void session_release(mf_worker_service *w, worker_session *s)
{
    bool last;

    pthread_mutex_lock(&w->lock);
    last = --s->refs == 0;
    pthread_mutex_unlock(&w->lock);
    if (last)
        session_free(s);
}

static mf_status session_new(const Tensorflow__CreateWorkerSessionRequest *q, worker_session **out)
{
    worker_session *s = mf_calloc(1, sizeof *s);

    *out = NULL;
    if (!s)
        return MF_NOMEM("a session");
    s->refs = 1;
    s->handle = mf_strdup(q->session_handle);
    s->master = mf_strdup(q->master_task);
    s->incarnation = q->master_incarnation;
    if (!s->handle || !s->master || mf_resources_new(&s->node_state) != MF_OK ||
        (q->isolate_session_state && mf_resources_new(&s->resources) != MF_OK)) {
        session_free(s);
        return MF_NOMEM("a session");
    }
    *out = s;
    return MF_OK;
}

/* Idempotent: a master that got no reply repeats the request. */
static mf_status worker_add_session(mf_worker_service *w,
                                    const Tensorflow__CreateWorkerSessionRequest *q)
{
    worker_session *s;
    mf_status st = MF_OK;

    MF_TRY(session_new(q, &s));
    pthread_mutex_lock(&w->lock);
    if (mf_map_find(&w->sessions, q->session_handle))
        st = MF_ALREADY_EXISTS;
    else
        st = mf_server_check_sessions(w->server, w->sessions.count);
    if (st == MF_OK)
        st = mf_map_set(&w->sessions, s->handle, s);
    pthread_mutex_unlock(&w->lock);
    if (st != MF_OK)
        session_free(s);
    return st == MF_ALREADY_EXISTS ? MF_OK : st;
}

static mf_status find_session(mf_worker_service *w, const char *handle, worker_session **out)
{
    worker_session *s;

    pthread_mutex_lock(&w->lock);
    s = mf_map_find(&w->sessions, handle);
    if (s)
        s->refs++;
    pthread_mutex_unlock(&w->lock);
    *out = s;
    if (!s)
        return MF_FAIL(MF_ABORTED,
                       "Session handle is not found: %s. Possibly this worker (\"%s\") just "
                       "restarted.",
                       handle, mf_server_self(w->server)->name);
    return MF_OK;
}

/* ---- graphs ---- */

static void worker_graph_free(mf_worker_graph *g)
{
    mf_session_free(g->graph);
    if (g->session)
        session_release(g->workings, g->session);
    mf_arena_free(g->arena);
    mf_quota_give_back(g->charged);
    mf_free(g);
}

void mf_worker_graph_release(mf_worker_graph *g)
{
    mf_worker_service *w;
    bool last;

    if (!g)
        return;
    w = g->workings;
    pthread_mutex_lock(&w->lock);
    last = --g->refs == 0;
    pthread_mutex_unlock(&w->lock);
    if (last)
        worker_graph_free(g);
}

mf_worker_graph *mf_worker_graph_ref(mf_worker_graph *g)
{
    pthread_mutex_lock(&g->workings->lock);
    g->refs++;
    pthread_mutex_unlock(&g->workings->lock);
    return g;
}

struct mf_session *mf_worker_graph_session(const mf_worker_graph *g)
{
    return g->graph;
}

int mf_worker_graph_leader(const mf_worker_graph *g)
{
    return g->leader;
}

const char *const *mf_worker_graph_targets(const mf_worker_graph *g, int *n)
{
    *n = g->n_targets;
    return g->targets;
}

mf_status mf_worker_service_find(mf_worker_service *w, const char *session, const char *graph,
                                 mf_worker_graph **out)
{
    worker_session *s;
    mf_worker_graph *g;

    MF_TRY(find_session(w, session, &s));
    pthread_mutex_lock(&w->lock);
    g = mf_map_find(&w->graphs, graph);
    if (g && g->session == s)
        g->refs++;
    else
        g = NULL;
    pthread_mutex_unlock(&w->lock);
    session_release(w, s);
    *out = g;
    if (!g)
        return MF_FAIL(MF_ABORTED, "Graph handle is not found: %s", graph);
    return MF_OK;
}

static mf_status worker_read_graph(mf_worker_graph *g, const Tensorflow__GraphDef *def)
{
    mf_server *server = g->workings->server;
    const mf_session_options o = { .allow_dirs = (const char *const *)server->allow_dirs,
                                   .n_allow_dirs = server->n_allow_dirs };
    const mf_session_shared shared = {
        .pool = server->pool,
        .resources = g->session->resources ? g->session->resources : server->resources,
        .node_state = g->session->node_state,
    };
    mf_graph *graph;
    mf_status st;

    MF_TRY(mf_graph_new(&graph));
    st = def ? mf_graph_add_message(graph, def) : MF_OK;
    if (st == MF_OK)
        st = mf_graph_ends(graph, g->arena, &g->targets, &g->n_targets);
    if (st == MF_OK)
        st = mf_session_new_shared(graph, &o, &shared, &g->graph);
    mf_graph_free(graph);
    return st;
}

static mf_status add_graph(mf_worker_graph *g)
{
    mf_worker_service *w = g->workings;
    mf_status st;

    pthread_mutex_lock(&w->lock);
    (void)snprintf(g->handle, sizeof g->handle, "%016" PRIx64, ++w->made);
    if (g->session->graphs >= MF_PARAM(server_graphs))
        st = MF_FAIL(MF_RESOURCE_EXHAUSTED,
                     "%s already keeps %lld graphs for this session: run fewer kinds of steps, "
                     "or raise server_graphs",
                     mf_server_self(w->server)->name, (long long)g->session->graphs);
    else
        st = mf_map_set(&w->graphs, g->handle, g);
    g->session->graphs += st == MF_OK;
    pthread_mutex_unlock(&w->lock);
    return st;
}

static mf_status register_graph(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__RegisterGraphRequest *q = (const Tensorflow__RegisterGraphRequest *)message;
    Tensorflow__RegisterGraphResponse out = TENSORFLOW__REGISTER_GRAPH_RESPONSE__INIT;
    mf_worker_service *w = r->server->workings;
    mf_worker_graph *g = mf_calloc(1, sizeof *g);
    mf_status st;

    if (!g)
        return MF_NOMEM("a graph");
    *g = (mf_worker_graph){ .workings = w, .arena = mf_arena_new(), .refs = 1 };
    st = g->arena ? MF_OK : MF_NOMEM("a graph");
    if (st == MF_OK)
        st = find_session(w, q->create_worker_session_called ? q->session_handle : "", &g->session);
    if (st == MF_OK)
        st = mf_server_leader(r->server, q->config_proto, &g->leader);
    if (st == MF_OK)
        st = worker_read_graph(g, q->graph_def);
    if (st == MF_OK)
        st = mf_request_keep(r, &g->charged);
    if (st == MF_OK)
        st = add_graph(g);
    if (st != MF_OK) {
        worker_graph_free(g);
        return st;
    }
    out.graph_handle = g->handle;
    return mf_request_reply(r, &out.base);
}

/* The caller holds the lock. */
static void remove_graph(mf_worker_service *w, mf_worker_graph *g)
{
    (void)mf_map_remove(&w->graphs, g->handle);
    g->session->graphs--;
}

static void forget_graph(mf_worker_service *w, const char *handle, const worker_session *of)
{
    mf_worker_graph *g;

    pthread_mutex_lock(&w->lock);
    g = mf_map_find(&w->graphs, handle);
    if (g && g->session == of)
        remove_graph(w, g);
    else
        g = NULL;
    pthread_mutex_unlock(&w->lock);
    if (g) {
        mf_worker_partials_end(w->server->partials, g);
        mf_worker_graph_release(g);
    }
}

static mf_status deregister_graph(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__DeregisterGraphRequest *q =
        (const Tensorflow__DeregisterGraphRequest *)message;
    mf_worker_service *w = r->server->workings;
    worker_session *s;

    MF_TRY(find_session(w, q->create_worker_session_called ? q->session_handle : "", &s));
    forget_graph(w, q->graph_handle, s);
    session_release(w, s);
    return MF_OK;
}

/* Any graph of the session; NULL: none. */
static mf_worker_graph *any_graph(mf_worker_service *w, const worker_session *s)
{
    mf_map_entry *e;
    int64_t it = 0;

    while ((e = mf_map_next(&w->graphs, &it)) != NULL) {
        mf_worker_graph *g = e->value;

        if (!s || g->session == s)
            return g;
    }
    return NULL;
}

static void forget_graphs(mf_worker_service *w, const worker_session *s)
{
    mf_worker_graph *g;

    do {
        pthread_mutex_lock(&w->lock);
        g = any_graph(w, s);
        if (g)
            remove_graph(w, g);
        pthread_mutex_unlock(&w->lock);
        if (g) {
            mf_session_cancel(g->graph);
            mf_worker_partials_end(w->server->partials, g);
            mf_worker_graph_release(g);
        }
    } while (g);
}

/* ---- create and delete sessions ---- */

/* Removes the session from the map and cancels its steps. */
static void end_session(mf_worker_service *w, worker_session *s)
{
    forget_graphs(w, s);
    session_release(w, s);
}

static mf_status delete_session(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__DeleteWorkerSessionRequest *q =
        (const Tensorflow__DeleteWorkerSessionRequest *)message;
    mf_worker_service *w = r->server->workings;
    worker_session *s = NULL;

    pthread_mutex_lock(&w->lock);
    if (q->session_handle[0] != '\0') /* the default session is shared */
        s = mf_map_remove(&w->sessions, q->session_handle);
    pthread_mutex_unlock(&w->lock);
    if (s)
        end_session(w, s);
    return MF_OK;
}

/* Removes and returns one; NULL: none. */
static worker_session *take_orphan(mf_worker_service *w, const char *master, int64_t incarnation)
{
    worker_session *found = NULL;
    mf_map_entry *e;
    int64_t it = 0;

    pthread_mutex_lock(&w->lock);
    while (!found && (e = mf_map_next(&w->sessions, &it)) != NULL) {
        worker_session *s = e->value;

        if (s->incarnation != incarnation && strcmp(s->master, master) == 0)
            found = mf_map_remove(&w->sessions, s->handle);
    }
    pthread_mutex_unlock(&w->lock);
    return found;
}

/* The master has been restarted: sessions of its previous process would never be deleted. */
static void end_orphans(mf_worker_service *w, const char *master, int64_t incarnation)
{
    worker_session *s;

    if (master[0] == '\0' || incarnation == 0)
        return;
    while ((s = take_orphan(w, master, incarnation)) != NULL)
        end_session(w, s);
}

static mf_status create_session(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__CreateWorkerSessionRequest *q =
        (const Tensorflow__CreateWorkerSessionRequest *)message;

    if (q->session_handle[0] == '\0')
        return MF_OK;
    end_orphans(r->server->workings, q->master_task, q->master_incarnation);
    return worker_add_session(r->server->workings, q);
}

/* ---- the task ---- */

static mf_status get_status(mf_request *r, const ProtobufCMessage *message)
{
    Tensorflow__GetStatusResponse out = TENSORFLOW__GET_STATUS_RESPONSE__INIT;
    Tensorflow__DeviceAttributes *device;

    (void)message;
    MF_TRY(mf_server_device(r->server, r->arena, &device));
    out.device_attributes = &device;
    out.n_device_attributes = 1;
    return mf_request_reply(r, &out.base);
}

static mf_status cleanup_all(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__CleanupAllRequest *q = (const Tensorflow__CleanupAllRequest *)message;

    mf_server_clear(r->server, (const char *const *)q->container, (int)q->n_container);
    return MF_OK;
}

/* TensorFlow's masters call it; the reply is empty. */
static mf_status nothing(mf_request *r, const ProtobufCMessage *message)
{
    (void)r;
    (void)message;
    return MF_OK;
}

/* ---- opening and closing ---- */

mf_status mf_worker_service_new(mf_server *server, mf_worker_service **out)
{
    static const Tensorflow__CreateWorkerSessionRequest none =
        TENSORFLOW__CREATE_WORKER_SESSION_REQUEST__INIT;
    mf_worker_service *w = mf_calloc(1, sizeof *w);
    mf_status st;

    *out = w;
    if (!w)
        return MF_NOMEM("a server");
    w->server = server;
    pthread_mutex_init(&w->lock, NULL);
    st = worker_add_session(w, &none); /* the default session, for masters that create none */
    if (st != MF_OK) {
        mf_worker_service_free(w);
        *out = NULL;
    }
    return st;
}

void mf_worker_service_free(mf_worker_service *w)
{
    mf_map_entry *e;
    int64_t it = 0;

    if (!w)
        return;
    forget_graphs(w, NULL);
    while ((e = mf_map_next(&w->sessions, &it)) != NULL)
        session_free(e->value);
    mf_map_deinit(&w->sessions);
    mf_map_deinit(&w->graphs);
    pthread_mutex_destroy(&w->lock);
    mf_free(w);
}

#define METHOD(NAME, MESSAGE, ...)                                                                 \
    {                                                                                              \
        .name = "/tensorflow.WorkerService/" NAME,                                                 \
        .message = &tensorflow__##MESSAGE##_request__descriptor, __VA_ARGS__                       \
    }

const mf_method mf_worker_methods[] = {
    METHOD("GetStatus", get_status, .run = get_status),
    METHOD("CreateWorkerSession", create_worker_session, .run = create_session),
    METHOD("DeleteWorkerSession", delete_worker_session, .run = delete_session),
    METHOD("RegisterGraph", register_graph, .run = register_graph),
    METHOD("DeregisterGraph", deregister_graph, .run = deregister_graph),
    METHOD("RunGraph", run_graph, .run = mf_worker_run_graph),
    METHOD("CleanupGraph", cleanup_graph, .run = mf_worker_cleanup_graph),
    METHOD("CleanupAll", cleanup_all, .run = cleanup_all),
    METHOD("RecvTensor", recv_tensor, .start = mf_worker_recv_tensor),
    METHOD("RecvBuf", recv_buf, .start = mf_collective_recv_buf),
    METHOD("CompleteGroup", complete_group, .start = mf_group_leader_group_called),
    METHOD("CompleteInstance", complete_instance, .start = mf_group_leader_instance_called),
    METHOD("GetStepSequence", get_step_sequence, .run = mf_step_sequence_called),
    METHOD("MarkRecvFinished", mark_recv_finished, .run = nothing),
    METHOD("Logging", logging, .run = nothing),
    METHOD("Tracing", tracing, .run = nothing),
    { 0 },
};
