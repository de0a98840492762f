/* SPDX-License-Identifier: Apache-2.0 */
/* master.c - sessions: create, extend, list, close and reset, with TensorFlow's messages. */
#include "tf_server/master.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/quota.h"
#include "graph/graphdef_codec.h"
#include "runtime/session.h"
#include "tf_server/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct mf_clients {
    mf_server *server;
    pthread_mutex_t lock; /* all below */
    mf_map sessions; /* by handle */
};

/* ---- lookup ---- */

mf_status mf_clients_find(mf_clients *m, const char *handle, mf_client_session **out)
{
    mf_client_session *s;

    pthread_mutex_lock(&m->lock);
    s = mf_map_find(&m->sessions, handle);
    if (s)
        s->refs++;
    pthread_mutex_unlock(&m->lock);
    *out = s;
    if (!s)
        return MF_FAIL(MF_ABORTED, "Session %s is not found.", handle);
    return MF_OK;
}

static void free_session(mf_client_session *s)
{
    mf_client_session_end_partials(s);
    mf_client_session_free_callables(s);
    mf_client_session_free_plans(s);
    mf_session_workers_end(&s->workers, s->handle);
    mf_session_workers_deinit(&s->workers);
    mf_session_free(s->session);
    mf_placed_unref(s->placed);
    mf_resources_free(s->resources);
    mf_resources_free(s->node_state);
    mf_quota_give_back(s->charged);
    pthread_cond_destroy(&s->plan_ready);
    pthread_mutex_destroy(&s->extending);
    mf_cancel_deinit(&s->closed);
    mf_free(s);
}

void mf_client_session_release(mf_client_session *s)
{
    mf_clients *m = s->clients;
    bool last;

    pthread_mutex_lock(&m->lock);
    last = --s->refs == 0;
    pthread_mutex_unlock(&m->lock);
    if (last)
        free_session(s);
}

/* Removes the session from the map and cancels its steps. */
static void close_session(mf_clients *m, const char *handle)
{
    mf_client_session *s;

    pthread_mutex_lock(&m->lock);
    s = mf_map_remove(&m->sessions, handle);
    pthread_mutex_unlock(&m->lock);
    if (!s)
        return;
    mf_cancel_raise(&s->closed);
    mf_session_cancel(s->session);
    mf_client_session_release(s);
}

/* ---- create ---- */

/* Takes ownership of the graph, even on failure. Nodes that were placed before are not moved. */
static mf_status master_place(mf_client_session *s, mf_graph *graph, const mf_placed *before,
                              mf_placed **out)
{
    const mf_place_options o = { .tasks = &s->clients->server->tasks,
                                 .available = s->workers.available,
                                 .soft = s->soft };
    const int64_t n_before = before ? before->graph->n_nodes : 0;
    mf_placed *p = mf_calloc(1, sizeof *p);
    mf_status st = MF_OK;

    if (!p) {
        mf_graph_free(graph);
        return MF_NOMEM("a graph");
    }
    *p = (mf_placed){ graph, mf_calloc(graph->n_nodes, sizeof(int)), 1 };
    if (!p->task)
        st = MF_NOMEM("a graph");
    if (st == MF_OK && n_before > 0)
        memcpy(p->task, before->task, (size_t)n_before * sizeof(int));
    if (st == MF_OK)
        st = mf_place(graph, &o, p->task, n_before);
    if (st != MF_OK) {
        mf_placed_unref(p);
        return st;
    }
    *out = p;
    return MF_OK;
}

/* The old graph with the new nodes. Owns: *out. */
static mf_status master_read_graph(const Tensorflow__GraphDef *more, const mf_graph *before,
                                   mf_graph **out)
{
    mf_status st = mf_graph_new(out);

    if (st == MF_OK && before)
        st = mf_graph_merge(*out, before);
    if (st == MF_OK && more)
        st = mf_graph_add_message(*out, more);
    if (st != MF_OK)
        mf_graph_free(*out);
    return st;
}

/* Detects collectives, whose groups may have members under other masters. */
static mf_status find_collectives(mf_client_session *s, mf_graph *graph)
{
    mf_collectives found;

    MF_TRY(mf_collectives_find(&graph, 1, &found));
    s->collects = found.key != 0;
    return MF_OK;
}

static mf_status master_make_session(mf_request *r, const Tensorflow__CreateSessionRequest *q,
                                     mf_client_session *s)
{
    static Tensorflow__ConfigProto none = TENSORFLOW__CONFIG_PROTO__INIT;
    const Tensorflow__ConfigProto *config = q->config ? q->config : &none;
    const mf_server *server = r->server;
    const mf_session_options o = { .allow_dirs = (const char *const *)server->allow_dirs,
                                   .n_allow_dirs = server->n_allow_dirs };
    mf_session_shared shared = { .pool = server->pool };
    mf_graph *graph;
    mf_status st;

    s->soft = config->allow_soft_placement;
    s->timeout_ms = config->operation_timeout_in_ms;
    MF_TRY(mf_server_leader(server, config, &s->leader));
    MF_TRY(master_read_graph(q->graph_def, NULL, &graph));
    st =
        mf_session_workers_gather(r, config->device_filters, config->n_device_filters, &s->workers);
    if (st != MF_OK) {
        mf_graph_free(graph);
        return st;
    }
    MF_TRY(master_place(s, graph, NULL, &s->placed));
    MF_TRY(find_collectives(s, graph));
    MF_TRY(mf_resources_new(&s->node_state));
    if (config->isolate_session_state)
        MF_TRY(mf_resources_new(&s->resources));
    shared.resources = s->resources ? s->resources : server->resources;
    shared.node_state = s->node_state;
    MF_TRY(mf_session_new_shared(s->placed->graph, &o, &shared, &s->session));
    (void)snprintf(s->handle, sizeof s->handle, "%016" PRIx64, mf_random_seed());
    return mf_session_workers_begin(&s->workers, s->handle, config->isolate_session_state,
                                    &r->cancel);
}

/* Checked early: a refused request must be cheap. */
static mf_status check_sessions(mf_clients *m)
{
    int64_t n;

    pthread_mutex_lock(&m->lock);
    n = m->sessions.count;
    pthread_mutex_unlock(&m->lock);
    return mf_server_check_sessions(m->server, n);
}

static mf_status master_add_session(mf_clients *m, mf_client_session *s)
{
    mf_status st;

    pthread_mutex_lock(&m->lock);
    st = mf_map_set(&m->sessions, s->handle, s);
    pthread_mutex_unlock(&m->lock);
    return st;
}

static mf_status master_create(mf_request *r, const ProtobufCMessage *message)
{
    mf_clients *m = r->server->clients;
    Tensorflow__CreateSessionResponse out = TENSORFLOW__CREATE_SESSION_RESPONSE__INIT;
    mf_client_session *s;
    mf_status st;

    MF_TRY(check_sessions(m));
    s = mf_calloc(1, sizeof *s);
    if (!s)
        return MF_NOMEM("a session");
    s->clients = m;
    s->refs = 2; /* one for the map, one for the caller */
    pthread_mutex_init(&s->extending, NULL);
    mf_cond_init(&s->plan_ready);
    mf_cancel_init(&s->closed);
    st = master_make_session(r, (const Tensorflow__CreateSessionRequest *)message, s);
    if (st == MF_OK)
        st = mf_request_keep(r, &s->charged);
    if (st == MF_OK)
        st = master_add_session(m, s);
    if (st != MF_OK) {
        free_session(s);
        return st;
    }
    out.session_handle = s->handle;
    st = mf_request_reply(r, &out.base);
    if (st != MF_OK ||
        atomic_load(&r->call->gone)) /* the client has disconnected and would never close it
                                      */
        close_session(m, s->handle);
    mf_client_session_release(s);
    return st;
}

/* ---- extend ---- */

/* All or nothing. */
static mf_status extend_graph(const mf_request *r, mf_client_session *s,
                              const Tensorflow__GraphDef *more)
{
    mf_graph *graph;
    mf_placed *placed;
    mf_status st;

    MF_TRY(master_read_graph(more, s->placed->graph, &graph));
    MF_TRY(master_place(s, graph, s->placed, &placed));
    st = mf_request_keep(r, &s->charged);
    if (st == MF_OK)
        st = mf_session_extend(s->session, graph);
    if (st != MF_OK) {
        mf_placed_unref(placed);
        return st;
    }
    mf_placed_unref(s->placed);
    s->placed = placed;
    s->version++;
    return find_collectives(s, graph);
}

static mf_status extend_session(const mf_request *r, mf_client_session *s,
                                const Tensorflow__ExtendSessionRequest *q, int64_t *version)
{
    mf_status st = MF_OK;

    pthread_mutex_lock(&s->extending);
    if (q->current_graph_version != s->version)
        st = MF_FAIL(MF_ABORTED, "Current version is %lld but caller expected %lld.",
                     (long long)s->version, (long long)q->current_graph_version);
    else if (q->graph_def)
        st = extend_graph(r, s, q->graph_def);
    *version = s->version;
    pthread_mutex_unlock(&s->extending);
    return st;
}

static mf_status master_extend(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__ExtendSessionRequest *q = (const Tensorflow__ExtendSessionRequest *)message;
    Tensorflow__ExtendSessionResponse out = TENSORFLOW__EXTEND_SESSION_RESPONSE__INIT;
    mf_client_session *s;
    mf_status st;

    MF_TRY(mf_clients_find(r->server->clients, q->session_handle, &s));
    st = extend_session(r, s, q, &out.new_graph_version);
    mf_client_session_release(s);
    return st == MF_OK ? mf_request_reply(r, &out.base) : st;
}

/* ---- close and reset ---- */

static mf_status close_one(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__CloseSessionRequest *q = (const Tensorflow__CloseSessionRequest *)message;
    mf_client_session *s;

    MF_TRY(mf_clients_find(r->server->clients, q->session_handle, &s));
    close_session(r->server->clients, q->session_handle);
    mf_client_session_release(s);
    return MF_OK;
}

/* *handle: any session; false: none. */
static bool any_handle(mf_clients *m, char handle[17])
{
    const mf_map_entry *e;
    int64_t it = 0;

    pthread_mutex_lock(&m->lock);
    e = mf_map_next(&m->sessions, &it);
    if (e)
        memcpy(handle, e->key, 17);
    pthread_mutex_unlock(&m->lock);
    return e != NULL;
}

static void master_close_all(mf_clients *m)
{
    char handle[17];

    while (any_handle(m, handle))
        close_session(m, handle);
}

/* Closes all sessions and clears the containers. */
static mf_status reset(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__ResetRequest *q = (const Tensorflow__ResetRequest *)message;
    mf_server *s = r->server;

    master_close_all(s->clients);
    mf_server_clear(s, (const char *const *)q->container, (int)q->n_container);
    return mf_session_workers_clear(r, q);
}

/* ---- devices ---- */

static mf_status list_devices(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__ListDevicesRequest *q = (const Tensorflow__ListDevicesRequest *)message;
    const int n = r->server->tasks.n;
    Tensorflow__ListDevicesResponse out = TENSORFLOW__LIST_DEVICES_RESPONSE__INIT;
    mf_client_session *s;
    mf_status st;

    out.local_device = MF_ARENA_ARRAY(r->arena, Tensorflow__DeviceAttributes *, n);
    if (!out.local_device)
        return MF_NOMEM("devices");
    if (q->session_handle[0] == '\0') {
        out.n_local_device = 1;
        MF_TRY(mf_server_device(r->server, r->arena, &out.local_device[0]));
        return mf_request_reply(r, &out.base);
    }
    MF_TRY(mf_clients_find(r->server->clients, q->session_handle, &s));
    for (int i = 0; i < n; i++) {
        if (s->workers.available[i])
            out.local_device[out.n_local_device++] = s->workers.attributes[i];
    }
    st = mf_request_reply(r, &out.base);
    mf_client_session_release(s);
    return st;
}

/* ---- methods ---- */

#define METHOD(NAME, MESSAGE, ...)                                                                 \
    {                                                                                              \
        .name = "/tensorflow.MasterService/" NAME,                                                 \
        .message = &tensorflow__##MESSAGE##_request__descriptor, __VA_ARGS__                       \
    }

const mf_method mf_master_methods[] = {
    METHOD("CreateSession", create_session, .run = master_create),
    METHOD("ExtendSession", extend_session, .run = master_extend),
    METHOD("RunStep", run_step, .run = mf_master_run_step),
    METHOD("PartialRunSetup", partial_run_setup, .run = mf_master_partial_setup),
    METHOD("MakeCallable", make_callable, .run = mf_master_make_callable),
    METHOD("RunCallable", run_callable, .run = mf_master_run_callable),
    METHOD("ReleaseCallable", release_callable, .run = mf_master_release_callable),
    METHOD("CloseSession", close_session, .run = close_one),
    METHOD("ListDevices", list_devices, .run = list_devices),
    METHOD("Reset", reset, .run = reset),
    { 0 },
};

mf_status mf_clients_new(mf_server *server, mf_clients **out)
{
    mf_clients *m = mf_calloc(1, sizeof *m);

    *out = m;
    if (!m)
        return MF_NOMEM("sessions");
    m->server = server;
    pthread_mutex_init(&m->lock, NULL);
    return MF_OK;
}

void mf_clients_free(mf_clients *m)
{
    master_close_all(m);
    mf_map_deinit(&m->sessions);
    pthread_mutex_destroy(&m->lock);
    mf_free(m);
}
