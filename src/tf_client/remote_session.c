/* SPDX-License-Identifier: Apache-2.0 */
/* remote_session.c - a session whose graph is on a server. Sent nodes are recorded by name and
 * hash: only new nodes are sent, and a server cannot change nodes that it has. */
#include "tf_client/remote_session.h"

#include "base/clock.h"
#include "base/map.h"
#include "graph/graphdef_codec.h"
#include "proto/master.pb-c.h"
#include "runtime/active_runs.h"

#include <string.h>

enum { CLOSE_MS = 10000 };
/* Producer version of TensorFlow 2.21: ops have the semantics of that version. */
enum { PRODUCER = 2474 };

typedef struct remote {
    mf_session base; /* first */
    mf_rpc_stub *caller;
    char *handle; /* NULL: not created yet */
    mf_active_runs runs;
    pthread_mutex_t extending; /* guards all members below */
    mf_arena *arena; /* of names */
    mf_map nodes, functions; /* already sent: name -> uint64_t hash */
    int64_t version; /* the server's graph version */
} remote;

static remote *remote_of(mf_session *session)
{
    return (remote *)session;
}

/* ---- extend ---- */

/* Covers what other nodes and runs depend on. Not everything: TensorFlow's own clients add
 * attributes and control inputs to nodes that were already sent, which is harmless. */
static uint64_t remote_session_hash_of(const mf_node *node)
{
    uint64_t h = mf_hash(node->op_name, strlen(node->op_name), 1);

    for (int i = 0; i < node->n_inputs; i++) {
        const mf_output *in = &node->inputs[i];

        h = mf_hash(in->node->name, strlen(in->node->name), h + (uint64_t)in->port);
    }
    return mf_hash(node->out_types, (size_t)node->n_outputs * sizeof *node->out_types, h);
}

static mf_status keep_new_nodes(const remote *r, const mf_graph *graph, Tensorflow__GraphDef *def)
{
    size_t n = 0;

    for (size_t i = 0; i < def->n_node; i++) {
        const char *name = def->node[i]->name;
        const uint64_t *known = mf_map_find(&r->nodes, name);

        if (!known)
            def->node[n++] = def->node[i];
        else if (*known != remote_session_hash_of(mf_graph_find(graph, name)))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "'%s' has changed since it was sent to the server at %s, which cannot "
                           "change it; create a new session",
                           name, mf_rpc_stub_address(r->caller));
    }
    def->n_node = n;
    return MF_OK;
}

static void keep_new_functions(const remote *r, Tensorflow__FunctionDefLibrary *library)
{
    size_t n = 0;

    for (size_t i = 0; i < library->n_function; i++) {
        if (!mf_map_find(&r->functions, library->function[i]->signature->name))
            library->function[n++] = library->function[i];
    }
    library->n_function = n;
}

/* Keeps only new nodes in the message. */
static mf_status new_part(const remote *r, const mf_graph *graph, mf_arena *arena,
                          Tensorflow__GraphDef **out)
{
    MF_TRY(mf_graph_status(graph));
    MF_TRY(mf_graph_encode_message(graph, arena, out));
    if ((*out)->versions->producer == 0)
        (*out)->versions->producer = PRODUCER;
    if ((*out)->library)
        keep_new_functions(r, (*out)->library);
    return keep_new_nodes(r, graph, *out);
}

static mf_status remote_session_remember(remote *r, mf_map *sent, const char *name, uint64_t hash)
{
    uint64_t *value = MF_ARENA_NEW(r->arena, uint64_t);
    const char *key = mf_arena_strdup(r->arena, name);

    if (!value || !key)
        return MF_NOMEM("a session's names");
    *value = hash;
    return mf_map_set(sent, key, value);
}

/* Records what the server has. */
static mf_status was_sent(remote *r, const mf_graph *graph, const Tensorflow__GraphDef *def)
{
    for (size_t i = 0; i < def->n_node; i++) {
        const char *name = def->node[i]->name;

        MF_TRY(remote_session_remember(r, &r->nodes, name,
                                       remote_session_hash_of(mf_graph_find(graph, name))));
    }
    for (size_t i = 0; def->library && i < def->library->n_function; i++)
        MF_TRY(remote_session_remember(r, &r->functions, def->library->function[i]->signature->name,
                                       0));
    return MF_OK;
}

/* ---- create ---- */

static mf_status remote_session_create(remote *r, const mf_graph *graph,
                                       const mf_session_options *o, mf_arena *arena)
{
    Tensorflow__CreateSessionRequest request = TENSORFLOW__CREATE_SESSION_REQUEST__INIT;
    Tensorflow__ConfigProto config = TENSORFLOW__CONFIG_PROTO__INIT;
    const mf_rpc_stub_call q = { .method = "/tensorflow.MasterService/CreateSession",
                                 .message = &request.base,
                                 .reply = &tensorflow__create_session_response__descriptor };
    const Tensorflow__CreateSessionResponse *answer;
    ProtobufCMessage *reply;

    MF_TRY(mf_remote_connect(o, &r->caller));
    MF_TRY(new_part(r, graph, arena, &request.graph_def));
    config.allow_soft_placement = o->allow_soft_placement;
    config.device_filters = (char **)(uintptr_t)o->device_filters;
    config.n_device_filters = (size_t)o->n_device_filters;
    request.config = &config;
    request.target = (char *)(uintptr_t)o->target;
    MF_TRY(mf_remote_ask_first(r->caller, &q, o, arena, &reply));
    answer = (const Tensorflow__CreateSessionResponse *)reply;
    r->version = answer->graph_version;
    r->handle = mf_strdup(answer->session_handle);
    return r->handle ? was_sent(r, graph, request.graph_def) : MF_NOMEM("a session");
}

static void close_remote_session(remote *r)
{
    Tensorflow__CloseSessionRequest request = TENSORFLOW__CLOSE_SESSION_REQUEST__INIT;
    const mf_rpc_stub_call q = { .method = "/tensorflow.MasterService/CloseSession",
                                 .message = &request.base,
                                 .reply = &tensorflow__close_session_response__descriptor,
                                 .deadline_ns = mf_clock_ns() + CLOSE_MS * INT64_C(1000000) };
    mf_arena *arena = mf_arena_new();
    ProtobufCMessage *reply;

    request.session_handle = r->handle;
    if (arena)
        (void)!mf_rpc_stub_ask(r->caller, &q, arena, &reply); /* a server that has restarted no
                                                                 longer has the session */
    mf_arena_free(arena);
}

static void remote_free(mf_session *session)
{
    remote *r = remote_of(session);
    mf_error why;

    mf_error_save(MF_OK, &why); /* keeps the thread's error: the session may be freed because of it
                                 */
    if (r->runs.flag)
        mf_active_runs_drain(&r->runs);
    if (r->handle)
        close_remote_session(r);
    mf_rpc_stub_free(r->caller);
    mf_active_runs_deinit(&r->runs);
    mf_map_deinit(&r->nodes);
    mf_map_deinit(&r->functions);
    mf_arena_free(r->arena);
    mf_free(r->handle);
    pthread_mutex_destroy(&r->extending);
    mf_free(r);
    (void)mf_error_restore(&why);
}

mf_status mf_remote_new(const mf_graph *graph, const mf_session_options *options, mf_session **out)
{
    remote *r = mf_calloc(1, sizeof *r);
    mf_arena *arena = mf_arena_new();
    mf_status st = MF_OK;

    *out = NULL;
    if (!r || !arena) {
        mf_free(r);
        mf_arena_free(arena);
        return MF_NOMEM("a session");
    }
    r->base.kind = &mf_session_remote;
    pthread_mutex_init(&r->extending, NULL);
    r->arena = mf_arena_new();
    MF_TRY_TO(done, mf_active_runs_init(&r->runs));
    MF_TRY_TO(done, r->arena ? MF_OK : MF_NOMEM("a session"));
    MF_TRY_TO(done, remote_session_create(r, graph, options, arena));
    *out = &r->base;

done:
    mf_arena_free(arena);
    if (st != MF_OK)
        remote_free(&r->base);
    return st;
}

/* ---- run ---- */

static mf_status remote_session_extend(remote *r, const mf_graph *graph, mf_arena *arena)
{
    Tensorflow__ExtendSessionRequest request = TENSORFLOW__EXTEND_SESSION_REQUEST__INIT;
    const mf_rpc_stub_call q = { .method = "/tensorflow.MasterService/ExtendSession",
                                 .message = &request.base,
                                 .reply = &tensorflow__extend_session_response__descriptor };
    ProtobufCMessage *reply;

    MF_TRY(new_part(r, graph, arena, &request.graph_def));
    if (request.graph_def->n_node == 0 &&
        (!request.graph_def->library || request.graph_def->library->n_function == 0))
        return MF_OK;
    request.session_handle = r->handle;
    request.current_graph_version = r->version;
    MF_TRY(mf_rpc_stub_ask(r->caller, &q, arena, &reply));
    r->version = ((const Tensorflow__ExtendSessionResponse *)reply)->new_graph_version;
    return was_sent(r, graph, request.graph_def);
}

static mf_status remote_extend(mf_session *session, const mf_graph *graph)
{
    remote *r = remote_of(session);
    mf_arena *arena = mf_arena_new();
    mf_status st;

    if (!arena)
        return MF_NOMEM("a graph");
    pthread_mutex_lock(&r->extending);
    st = remote_session_extend(r, graph, arena);
    pthread_mutex_unlock(&r->extending);
    mf_arena_free(arena);
    return st;
}

static mf_status remote_run(mf_session *session, const mf_run_options *options,
                            const mf_run_with *with, const char *const *feed_names,
                            const mf_tensor *const *feeds, int n_feeds, const char *const *fetches,
                            int n_fetches, const char *const *targets, int n_targets,
                            mf_tensor **results)
{
    remote *r = remote_of(session);
    mf_run run;
    mf_status st;

    if ((options && options->trace_path) || with->trace)
        return MF_FAIL(MF_UNIMPLEMENTED, "a run on a server (%s) cannot be traced",
                       mf_rpc_stub_address(r->caller));
    mf_active_runs_begin(&r->runs, with->until, &run);
    st = mf_remote_run(&(mf_remote_step){ .caller = r->caller,
                                          .handle = r->handle,
                                          .cancel = run.cancel,
                                          .timeout_ms = options ? options->timeout_ms : 0,
                                          .feed_names = feed_names,
                                          .feeds = feeds,
                                          .fetches = fetches,
                                          .targets = targets,
                                          .n_feeds = n_feeds,
                                          .n_fetches = n_fetches,
                                          .n_targets = n_targets },
                       results);
    mf_active_runs_end(&r->runs, &run);
    return st;
}

static void remote_cancel(mf_session *session)
{
    mf_active_runs_cancel(&remote_of(session)->runs);
}

static void visit_devices(Tensorflow__DeviceAttributes *const *devices, size_t n,
                          mf_device_fn *each, void *ctx)
{
    for (size_t i = 0; i < n; i++)
        each(ctx, devices[i]->name, devices[i]->device_type);
}

static mf_status remote_devices(mf_session *session, mf_device_fn *each, void *ctx)
{
    remote *r = remote_of(session);
    Tensorflow__ListDevicesRequest request = TENSORFLOW__LIST_DEVICES_REQUEST__INIT;
    const mf_rpc_stub_call q = { .method = "/tensorflow.MasterService/ListDevices",
                                 .message = &request.base,
                                 .reply = &tensorflow__list_devices_response__descriptor };
    mf_arena *arena = mf_arena_new();
    const Tensorflow__ListDevicesResponse *list;
    ProtobufCMessage *reply;
    mf_status st;

    request.session_handle = r->handle;
    st = arena ? mf_rpc_stub_ask(r->caller, &q, arena, &reply) : MF_NOMEM("a list of devices");
    if (st == MF_OK) {
        list = (const Tensorflow__ListDevicesResponse *)reply;
        visit_devices(list->local_device, list->n_local_device, each, ctx);
        visit_devices(list->remote_device, list->n_remote_device, each, ctx);
    }
    mf_arena_free(arena);
    return st;
}

const mf_session_kind mf_session_remote = {
    .run = remote_run,
    .extend = remote_extend,
    .devices = remote_devices,
    .cancel = remote_cancel,
    .free = remote_free,
};

/* ---- without a session ---- */

mf_status mf_remote_reset(const mf_session_options *options, const char *const *containers,
                          int n_containers)
{
    Tensorflow__ResetRequest request = TENSORFLOW__RESET_REQUEST__INIT;
    const mf_rpc_stub_call q = { .method = "/tensorflow.MasterService/Reset",
                                 .message = &request.base,
                                 .reply = &tensorflow__reset_response__descriptor };
    mf_arena *arena = mf_arena_new();
    mf_rpc_stub *c = NULL;
    ProtobufCMessage *reply;
    mf_status st = MF_OK;

    MF_TRY_TO(done, arena ? MF_OK : MF_NOMEM("a request"));
    MF_TRY_TO(done, mf_remote_connect(options, &c));
    request.container = (char **)(uintptr_t)containers;
    request.n_container = (size_t)n_containers;
    MF_TRY_TO(done, mf_remote_ask_first(c, &q, options, arena, &reply));

done:
    mf_rpc_stub_free(c);
    mf_arena_free(arena);
    return st;
}
