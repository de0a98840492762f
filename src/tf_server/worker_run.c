/* SPDX-License-Identifier: Apache-2.0 */
/* worker_run.c - RunGraph: this task's part of a step; RecvTensor: its values for other tasks. */
#include "base/clock.h"
#include "base/cond.h"
#include "proto/tensor_message.h"
#include "proto/wire.h"
#include "runtime/session.h"
#include "tf_server/step_rendezvous.h"
#include "tf_server/step_stats.h"
#include "tf_server/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VALUE_MAX = INT32_MAX, /* bytes of one */
    REFUSED_MS = 100
};

/* ---- RunGraph ---- */

mf_status mf_worker_put_sent(mf_rendezvous_table *table, const Tensorflow__RunGraphRequest *q)
{
    for (size_t i = 0; i < q->n_send; i++) {
        static const Tensorflow__TensorProto none = TENSORFLOW__TENSOR_PROTO__INIT;
        const Tensorflow__NamedTensorProto *sent = q->send[i];
        mf_tensor value = { 0 };
        mf_status st;

        MF_TRY(mf_tensor_decode(sent->tensor ? sent->tensor : &none, VALUE_MAX, &value));
        st = mf_rendezvous_table_send(table, sent->name, &value);
        mf_tensor_clear(&value);
        MF_TRY(st);
    }
    return MF_OK;
}

/* Milliseconds until the master's deadline, so that timeouts here can report the reason; 0: none.
 */
static int64_t time_left(const mf_request *r)
{
    const int64_t ms = (r->call->deadline_ns - mf_clock_ns()) / 1000000;

    if (r->call->deadline_ns == INT64_MAX)
        return 0;
    return ms < 1 ? 1 : ms;
}

static mf_status worker_run_part(mf_request *r, const Tensorflow__RunGraphRequest *q,
                                 mf_worker_graph *g, mf_step_rendezvous *m, mf_trace *trace)
{
    int n;
    const char *const *targets = mf_worker_graph_targets(g, &n);

    const mf_run_options options = { .timeout_ms = time_left(r) };

    MF_TRY(mf_worker_put_sent(m->table, q));
    if (n == 0)
        return MF_OK;
    return mf_session_run_with(mf_worker_graph_session(g), &options,
                               &(mf_run_with){ .until = &r->cancel,
                                               .rendezvous = &m->base,
                                               .trace = trace,
                                               .task = mf_server_self(r->server)->name,
                                               .step = q->step_id },
                               NULL, NULL, 0, NULL, 0, targets, n, NULL);
}

/* A value that the master requests with the reply. */
typedef struct worker_run_wanted {
    mf_tensor value;
    mf_status st;
} worker_run_wanted;

static void recv_done(void *ctx, mf_status st, const mf_tensor *value)
{
    worker_run_wanted *w = ctx;

    w->st = st;
    if (st == MF_OK && value)
        mf_tensor_set(&w->value, value);
}

/* The step has ended: a missing value will not appear. */
static mf_status take_wanted(mf_step_rendezvous *m, const char *key, mf_tensor *out)
{
    worker_run_wanted w = { .st = MF_UNKNOWN };
    mf_cancel now;

    mf_cancel_init(&now);
    mf_cancel_raise(&now);
    mf_rendezvous_table_fetch(m->table, key, &now, recv_done, &w);
    mf_cancel_deinit(&now);
    if (w.st != MF_OK || w.value.dtype == MF_DTYPE_INVALID)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the step has not produced the value %s", key);
    *out = w.value;
    return MF_OK;
}

static mf_status worker_run_take_all(mf_step_rendezvous *m, const Tensorflow__RunGraphRequest *q,
                                     mf_tensor *values)
{
    for (size_t i = 0; i < q->n_recv_key; i++)
        MF_TRY(take_wanted(m, q->recv_key[i], &values[i]));
    return MF_OK;
}

static mf_status put_wanted(mf_request *r, const Tensorflow__RunGraphRequest *q,
                            const mf_tensor *values, Tensorflow__RunGraphResponse *out)
{
    const int64_t n = (int64_t)q->n_recv_key;
    Tensorflow__NamedTensorProto *all = MF_ARENA_ARRAY(r->arena, Tensorflow__NamedTensorProto, n);

    out->recv = MF_ARENA_ARRAY(r->arena, Tensorflow__NamedTensorProto *, n);
    if (!all || !out->recv)
        return MF_NOMEM("a step");
    for (int64_t i = 0; i < n; i++) {
        tensorflow__named_tensor_proto__init(&all[i]);
        all[i].name = q->recv_key[i];
        MF_TRY(mf_tensor_encode(&values[i], r->arena, &all[i].tensor));
        out->recv[i] = &all[i];
    }
    out->n_recv = (size_t)n;
    return MF_OK;
}

/* Runs with a trace, for the master's StepStats. */
static mf_status run_noted(mf_request *r, const Tensorflow__RunGraphRequest *q, mf_worker_graph *g,
                           mf_step_rendezvous *m, mf_buf *stats)
{
    mf_trace *trace;
    mf_status st;

    if (!q->exec_opts || !q->exec_opts->record_timeline)
        return worker_run_part(r, q, g, m, NULL);
    MF_TRY(mf_trace_new(&trace));
    st = worker_run_part(r, q, g, m, trace);
    if (st == MF_OK)
        st = mf_stats_encode(trace, mf_server_self(r->server)->device, stats);
    mf_trace_free(trace);
    return st;
}

static mf_status worker_run_reply_error(mf_request *r, const Tensorflow__RunGraphRequest *q,
                                        mf_status st)
{
    Tensorflow__RunGraphResponse out = TENSORFLOW__RUN_GRAPH_RESPONSE__INIT;
    char text[MF_ERROR_MESSAGE_MAX];

    if (!q->store_errors_in_response_body)
        return st;
    (void)snprintf(text, sizeof text, "%s", mf_error_message());
    mf_utf8_sanitize(text);
    out.status_code = (int32_t)st;
    out.status_error_message = text;
    return mf_request_reply(r, &out.base);
}

/* ---- steps of an unknown session ---- */

typedef struct ending {
    mf_cancel_hook hook; /* first */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_raised; /* guarded by lock */
} ending;

static void on_end(mf_cancel_hook *hook)
{
    ending *e = (ending *)(void *)hook;

    pthread_mutex_lock(&e->lock);
    e->is_raised = true;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

/* This task does not know the session because it was restarted. A TensorFlow master that learns
 * this before its own part's receives have failed cancels that part and may report CANCELLED to its
 * client, from which no client recovers. So pending receives are refused first: then the master
 * ends the step and does not need this reply. It is sent if there are no such receives. */
static void wait_for_refused_values(mf_request *r)
{
    const int64_t until = mf_clock_ns() + REFUSED_MS * INT64_C(1000000);
    ending e = { .hook.fn = on_end };

    pthread_mutex_init(&e.lock, NULL);
    mf_cond_init(&e.changed);
    if (mf_cancel_add(&r->cancel, &e.hook)) {
        pthread_mutex_lock(&e.lock);
        while (!e.is_raised && mf_cond_wait_until(&e.changed, &e.lock, until))
            continue;
        pthread_mutex_unlock(&e.lock);
        (void)mf_cancel_remove(&r->cancel, &e.hook);
    }
    pthread_cond_destroy(&e.changed);
    pthread_mutex_destroy(&e.lock);
}

/* ---- the call ---- */

/* The whole part, in one call. */
static mf_status worker_run_whole(mf_request *r, const Tensorflow__RunGraphRequest *q,
                                  mf_worker_graph *g, mf_tensor *values, mf_buf *stats)
{
    mf_step_rendezvous m;
    mf_status st;

    MF_TRY(mf_step_rendezvous_begin(&m, r->server, q->step_id));
    m.leader = mf_worker_graph_leader(g);
    st = run_noted(r, q, g, &m, stats);
    if (st == MF_OK)
        st = worker_run_take_all(&m, q, values);
    mf_step_rendezvous_end(&m, st);
    return st;
}

static mf_status worker_run_and_reply(mf_request *r, const Tensorflow__RunGraphRequest *q,
                                      mf_worker_graph *g, mf_tensor *values)
{
    Tensorflow__RunGraphResponse out = TENSORFLOW__RUN_GRAPH_RESPONSE__INIT;
    mf_buf stats = { 0 };
    mf_status st = q->is_partial ? mf_worker_partial_call(r, q, g, values)
                                 : worker_run_whole(r, q, g, values, &stats);

    out.step_stats = (ProtobufCBinaryData){ stats.len, (uint8_t *)stats.data };
    if (st == MF_OK)
        st = put_wanted(r, q, values, &out);
    if (st == MF_OK)
        st = mf_request_reply(r, &out.base);
    mf_buf_deinit(&stats);
    return st;
}

mf_status mf_worker_run_graph(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__RunGraphRequest *q = (const Tensorflow__RunGraphRequest *)message;
    mf_tensor *values = MF_ARENA_ARRAY(r->arena, mf_tensor, (int64_t)q->n_recv_key + 1);
    mf_worker_graph *g = NULL;
    mf_status st = values ? MF_OK : MF_NOMEM("a step");

    if (st == MF_OK)
        st = mf_worker_service_find(r->server->workings,
                                    q->create_worker_session_called ? q->session_handle : "",
                                    q->graph_handle, &g);
    if (st == MF_ABORTED)
        wait_for_refused_values(r);
    if (st == MF_OK)
        st = worker_run_and_reply(r, q, g, values);
    if (st != MF_OK)
        st = worker_run_reply_error(r, q, st);
    mf_worker_graph_release(g);
    for (size_t i = 0; values && i < q->n_recv_key; i++)
        mf_tensor_clear(&values[i]);
    return st;
}

mf_status mf_worker_cleanup_graph(mf_request *r, const ProtobufCMessage *message)
{
    const int64_t step = ((const Tensorflow__CleanupGraphRequest *)message)->step_id;

    mf_rendezvous_tables_end(r->server->tables, step);
    mf_worker_partials_end_step(r->server->partials, step);
    return MF_OK;
}

/* ---- RecvTensor ---- */

/* A failure of the step here is passed on to the receiver: the master may learn it from either task
 * first. */
static void worker_run_found(void *ctx, mf_status st, const mf_tensor *value)
{
    mf_request *r = ctx;

    st = st == MF_OK ? mf_tensor_message_make(value, r->arena, &r->reply, &r->content)
                     : mf_server_task_failed(mf_server_self(r->server), st);
    mf_request_done(r, st);
}

/* Keys name the incarnation of the sender: a restarted task does not have the value. */
static mf_status check_incarnation(const mf_server *s, const char *key)
{
    const char *after = strchr(key, ';');
    const uint64_t theirs = after ? strtoull(after + 1, NULL, 16) : 0;

    if (!after)
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%.200s' is not a rendezvous key", key);
    if (theirs != s->incarnation)
        return MF_FAIL(MF_ABORTED,
                       "RecvTensor expects a different device incarnation: %" PRIu64 " vs. %" PRIu64
                       ". Your worker job (\"%s\") was probably restarted. Check your worker job "
                       "for the reason why it was restarted.",
                       theirs, s->incarnation, mf_server_self(s)->name);
    return MF_OK;
}

void mf_worker_recv_tensor(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__RecvTensorRequest *q = (const Tensorflow__RecvTensorRequest *)message;
    mf_rendezvous_table *table = NULL;
    mf_status st = check_incarnation(r->server, q->rendezvous_key);

    if (st == MF_OK)
        st = mf_rendezvous_tables_enter(r->server->tables, q->step_id, &table);
    if (st != MF_OK) {
        mf_request_done(r, st);
        return;
    }
    mf_rendezvous_table_fetch(table, q->rendezvous_key, &r->cancel, worker_run_found, r);
    mf_rendezvous_table_leave(table);
}
