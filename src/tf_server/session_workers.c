/* SPDX-License-Identifier: Apache-2.0 */
/* session_workers.c - opens and closes the worker sessions of a client's session. */
#include "tf_server/session_workers.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "graph/device_name.h"
#include "proto/worker.pb-c.h"
#include "tf_server/peer_tasks.h"

#include <string.h>

MF_PARAM_INT(server_connect_timeout_s, 600,
             "timeout in s of a session for tasks that have not started");

enum { TRY_MS = 2000, SAY_MS = 10000, TELL_MS = 10000 };

/* ---- calls to a task ---- */

static void log_reply(void *ctx, mf_status status, ProtobufCMessage *reply)
{
    (void)ctx;
    (void)reply;
    if (status != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
}

void mf_server_notify(mf_server *s, int task, const char *method, const ProtobufCMessage *message,
                      const ProtobufCMessageDescriptor *reply)
{
    const mf_rpc_stub_call q = { .method = method,
                                 .message = message,
                                 .reply = reply,
                                 .deadline_ns = mf_clock_ns() + TELL_MS * INT64_C(1000000) };
    mf_rpc_stub *caller;

    if (mf_peer_tasks_caller(s->peers, task, &caller) == MF_OK)
        mf_rpc_stub_start(caller, &q, NULL, log_reply, NULL);
}

mf_status mf_server_ask(mf_server *s, int task, const mf_rpc_stub_call *q, mf_arena *arena,
                        ProtobufCMessage **out)
{
    mf_rpc_stub *caller;
    mf_status st = mf_peer_tasks_caller(s->peers, task, &caller);

    if (st == MF_OK)
        st = mf_rpc_stub_ask(caller, q, arena, out);
    return st == MF_OK ? MF_OK : mf_server_task_failed(&s->tasks.all[task], st);
}

/* ---- members of the session ---- */

static mf_status passes_filters(const mf_server_task *t, char *const *filters, size_t n, bool *out)
{
    const mf_device_name self = mf_server_task_device(t);

    *out = n == 0;
    for (size_t i = 0; i < n && !*out; i++) {
        mf_device_name filter;

        MF_TRY(mf_device_name_parse(filters[i], &filter));
        *out = mf_device_name_is(&self, &filter);
    }
    return MF_OK;
}

static bool may_start_later(mf_status st)
{
    return st == MF_UNAVAILABLE || st == MF_DEADLINE_EXCEEDED;
}

/* Waits for a task that has not started yet. */
static mf_status session_workers_ask_status(mf_request *r, int task, mf_arena *arena,
                                            Tensorflow__GetStatusResponse **out)
{
    Tensorflow__GetStatusRequest request = TENSORFLOW__GET_STATUS_REQUEST__INIT;
    const mf_server_task *t = &r->server->tasks.all[task];
    const int64_t since = mf_clock_ns();
    const int64_t until = since + MF_PARAM(server_connect_timeout_s) * INT64_C(1000000000);
    int64_t said = since - (SAY_MS - TRY_MS) * INT64_C(1000000);
    mf_status st;

    do {
        const int64_t now = mf_clock_ns();
        const mf_rpc_stub_call q = { .method = "/tensorflow.WorkerService/GetStatus",
                                     .message = &request.base,
                                     .reply = &tensorflow__get_status_response__descriptor,
                                     .deadline_ns = now + TRY_MS * INT64_C(1000000),
                                     .waits = true,
                                     .cancel = &r->cancel };
        ProtobufCMessage *reply = NULL;

        st = mf_server_ask(r->server, task, &q, arena, &reply);
        *out = (Tensorflow__GetStatusResponse *)reply;
        if (!may_start_later(st))
            return st;
        if (mf_clock_ns() - said >= SAY_MS * INT64_C(1000000)) {
            said = mf_clock_ns();
            MF_WARN("a session has been waiting for %s at %s for %.0f s: no answer", t->name,
                    t->address, (double)(said - since) * 1e-9);
        }
    } while (mf_clock_ns() < until && !mf_cancel_is_raised(&r->cancel));
    return MF_FAIL(st, "%s does not answer at %s; start it, or exclude it with device_filters",
                   t->name, t->address);
}

static mf_status session_workers_add_task(mf_request *r, int task, mf_session_workers *c)
{
    const mf_server *s = r->server;
    Tensorflow__GetStatusResponse *answer;

    if (task == s->tasks.self) {
        MF_TRY(mf_server_device(s, c->arena, &c->attributes[task]));
    } else {
        MF_TRY(session_workers_ask_status(r, task, c->arena, &answer));
        if (answer->n_device_attributes == 0)
            return MF_FAIL(MF_INTERNAL, "%s has no devices", s->tasks.all[task].name);
        c->attributes[task] = answer->device_attributes[0];
    }
    c->available[task] = true;
    c->is_ours[task] = strncmp(c->attributes[task]->physical_device_desc, "Meshflow", 8) == 0;
    c->incarnations[task] = c->attributes[task]->incarnation;
    c->devices[task] = c->attributes[task]->name;
    return MF_OK;
}

mf_status mf_session_workers_gather(mf_request *r, char *const *filters, size_t n_filters,
                                    mf_session_workers *out)
{
    const mf_server_tasks *t = &r->server->tasks;

    *out = (mf_session_workers){ .server = r->server, .arena = mf_arena_new() };
    if (!out->arena)
        return MF_NOMEM("tasks");
    out->available = MF_ARENA_ARRAY(out->arena, bool, t->n);
    out->is_ours = MF_ARENA_ARRAY(out->arena, bool, t->n);
    out->incarnations = MF_ARENA_ARRAY(out->arena, uint64_t, t->n);
    out->devices = MF_ARENA_ARRAY(out->arena, const char *, t->n);
    out->attributes = MF_ARENA_ARRAY(out->arena, Tensorflow__DeviceAttributes *, t->n);
    if (!out->available || !out->is_ours || !out->incarnations || !out->devices || !out->attributes)
        return MF_NOMEM("tasks");
    for (int i = 0; i < t->n; i++) {
        bool let_in;

        MF_TRY(passes_filters(&t->all[i], filters, n_filters, &let_in));
        if (let_in || i == t->self)
            MF_TRY(session_workers_add_task(r, i, out));
    }
    return MF_OK;
}

void mf_session_workers_deinit(mf_session_workers *c)
{
    mf_arena_free(c->arena);
    *c = (mf_session_workers){ 0 };
}

bool mf_session_workers_is_several(const mf_session_workers *c)
{
    int n = 0;

    for (int i = 0; i < c->server->tasks.n; i++)
        n += c->available[i];
    return n > 1;
}

/* ---- the session ---- */

static bool session_workers_is_other(const mf_session_workers *c, int task)
{
    return c->available && c->available[task] && task != c->server->tasks.self;
}

mf_status mf_session_workers_begin(mf_session_workers *c, const char *session, bool isolated,
                                   mf_cancel *cancel)
{
    mf_server *s = c->server;

    for (int i = 0; i < s->tasks.n; i++) {
        Tensorflow__CreateWorkerSessionRequest request =
            TENSORFLOW__CREATE_WORKER_SESSION_REQUEST__INIT;
        Tensorflow__ServerDef def = TENSORFLOW__SERVER_DEF__INIT;
        const mf_rpc_stub_call q = { .method = "/tensorflow.WorkerService/CreateWorkerSession",
                                     .message = &request.base,
                                     .reply =
                                         &tensorflow__create_worker_session_response__descriptor,
                                     .cancel = cancel };
        ProtobufCMessage *reply;

        if (!session_workers_is_other(c, i))
            continue;
        def.job_name = (char *)(uintptr_t)s->tasks.all[i].job;
        def.task_index = s->tasks.all[i].index;
        def.protocol = (char *)(uintptr_t) "grpc";
        request.session_handle = (char *)(uintptr_t)session;
        request.server_def = &def;
        request.isolate_session_state = isolated;
        request.master_task = (char *)(uintptr_t)mf_server_self(s)->name;
        request.master_incarnation = (int64_t)s->incarnation;
        c->is_created = true;
        MF_TRY(mf_server_ask(s, i, &q, c->arena, &reply));
    }
    return MF_OK;
}

void mf_session_workers_end(mf_session_workers *c, const char *session)
{
    Tensorflow__DeleteWorkerSessionRequest request =
        TENSORFLOW__DELETE_WORKER_SESSION_REQUEST__INIT;

    request.session_handle = (char *)(uintptr_t)session;
    for (int i = 0; c->is_created && i < c->server->tasks.n; i++) {
        if (session_workers_is_other(c, i))
            mf_server_notify(c->server, i, "/tensorflow.WorkerService/DeleteWorkerSession",
                             &request.base,
                             &tensorflow__delete_worker_session_response__descriptor);
    }
    c->is_created = false;
}

mf_status mf_session_workers_clear(mf_request *r, const Tensorflow__ResetRequest *q)
{
    const mf_server_tasks *t = &r->server->tasks;
    Tensorflow__CleanupAllRequest request = TENSORFLOW__CLEANUP_ALL_REQUEST__INIT;
    const mf_rpc_stub_call question = { .method = "/tensorflow.WorkerService/CleanupAll",
                                        .message = &request.base,
                                        .reply = &tensorflow__cleanup_all_response__descriptor,
                                        .deadline_ns = mf_clock_ns() + TELL_MS * INT64_C(1000000),
                                        .cancel = &r->cancel };
    ProtobufCMessage *reply;

    request.container = q->container;
    request.n_container = q->n_container;
    for (int i = 0; i < t->n; i++) {
        bool let_in;
        mf_status st;

        MF_TRY(passes_filters(&t->all[i], q->device_filters, q->n_device_filters, &let_in));
        if (!let_in || i == t->self)
            continue;
        st = mf_server_ask(r->server, i, &question, r->arena, &reply);
        if (st != MF_OK && !may_start_later(st)) /* a task that is not running has no state */
            return st;
    }
    return MF_OK;
}
