/* SPDX-License-Identifier: Apache-2.0 */
/* master_step.c - runs a client's step on all its tasks. The first part that fails cancels the
 * others. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "observe/stall_watchdog.h"
#include "proto/worker.pb-c.h"
#include "runtime/session.h"
#include "tf_server/master.h"
#include "tf_server/peer_tasks.h"
#include "tf_server/step_rendezvous.h"
#include "tf_server/step_sequence.h"
#include "tf_server/step_stats.h"

#include <inttypes.h>

/* 0: none. */
static int64_t master_step_deadline_of(const mf_master_step *m)
{
    return m->timeout_ms > 0 ? mf_clock_ns() + m->timeout_ms * INT64_C(1000000) : 0;
}

/* ---- a step in progress ---- */

typedef struct master_step {
    mf_server *server;
    mf_cancel *cancel; /* cancels all parts */
    int64_t id;
    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t changed;
    int missing; /* parts without a reply */
    mf_buf *stats; /* of all tasks; NULL: not requested */
    mf_error why; /* the first error that is more than a cancellation */
} master_step;

typedef struct master_step_part {
    master_step *step;
    const mf_server_task *task;
    bool has_answered; /* guarded by the step's lock */
} master_step_part;

/* The thread's error, attributed to this task. */
static void master_step_note_failure(master_step *s, mf_status st, const mf_server_task *task)
{
    st = mf_server_task_failed(task, st);
    pthread_mutex_lock(&s->lock);
    if (s->why.status == MF_OK || (s->why.status == MF_CANCELLED && st != MF_CANCELLED))
        mf_error_save(st, &s->why);
    pthread_mutex_unlock(&s->lock);
    mf_cancel_raise(s->cancel);
}

static void master_step_answered(void *ctx, mf_status st, ProtobufCMessage *reply)
{
    master_step_part *p = ctx;
    master_step *s = p->step;
    const Tensorflow__RunGraphResponse *answer = (const Tensorflow__RunGraphResponse *)reply;

    if (st == MF_OK && answer->status_code != MF_OK)
        st = MF_FAIL(answer->status_code > 0 && answer->status_code <= MF_UNAUTHENTICATED
                         ? (mf_status)answer->status_code
                         : MF_UNKNOWN,
                     "%s", answer->status_error_message);
    if (st != MF_OK)
        master_step_note_failure(s, st, p->task);
    pthread_mutex_lock(&s->lock);
    if (st == MF_OK && s->stats)
        mf_buf_bytes(s->stats, answer->step_stats.data, answer->step_stats.len);
    p->has_answered = true;
    s->missing--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void start_part(master_step *s, const mf_exec_plan_part *l, const char *session,
                       int64_t deadline_ns, master_step_part *p)
{
    Tensorflow__RunGraphRequest request = TENSORFLOW__RUN_GRAPH_REQUEST__INIT;
    Tensorflow__ExecutorOpts opts = TENSORFLOW__EXECUTOR_OPTS__INIT;
    const mf_rpc_stub_call q = { .method = "/tensorflow.WorkerService/RunGraph",
                                 .message = &request.base,
                                 .reply = &tensorflow__run_graph_response__descriptor,
                                 .deadline_ns = deadline_ns,
                                 .cancel = s->cancel };
    mf_rpc_stub *caller;
    mf_status st;

    *p = (master_step_part){ .step = s, .task = &s->server->tasks.all[l->task] };
    request.session_handle = (char *)(uintptr_t)session;
    request.create_worker_session_called = true;
    request.graph_handle = l->graph;
    request.step_id = s->id;
    opts.record_timeline = s->stats != NULL;
    request.exec_opts = &opts;
    request.store_errors_in_response_body = true;
    request.request_id = (int64_t)(mf_random_seed() >> 1 | 1);
    pthread_mutex_lock(&s->lock);
    s->missing++;
    pthread_mutex_unlock(&s->lock);
    st = mf_peer_tasks_caller(s->server->peers, l->task, &caller);
    if (st == MF_OK)
        mf_rpc_stub_start(caller, &q, NULL, master_step_answered, p);
    else
        master_step_answered(p, st, NULL);
}

/* Appends the recorded StepStats, if any. */
static mf_status add_stats(const mf_server *server, mf_trace *trace, mf_buf *out)
{
    return trace ? mf_stats_encode(trace, mf_server_self(server)->device, out) : MF_OK;
}

static mf_status run_at(mf_step_rendezvous *rendezvous, const mf_exec_plan *l,
                        const mf_master_step *m, mf_trace *trace)
{
    const int n_feeds = m->feeds ? l->n_feeds : 0, n_fetches = m->results ? l->n_fetches : 0;

    if (n_fetches + l->n_targets == 0)
        return MF_OK;
    return mf_session_run_with(l->own, &(mf_run_options){ .timeout_ms = m->timeout_ms },
                               &(mf_run_with){ .until = m->cancel,
                                               .rendezvous = &rendezvous->base,
                                               .trace = trace,
                                               .task = mf_server_self(rendezvous->server)->name,
                                               .step = m->id },
                               l->feeds, m->feeds, n_feeds, l->fetches, n_fetches, l->targets,
                               l->n_targets, m->results);
}

static mf_status run_with_rendezvous(master_step *s, const mf_exec_plan *l, const mf_master_step *m,
                                     mf_trace *trace)
{
    mf_step_rendezvous rendezvous;
    mf_status st;

    MF_TRY(mf_step_rendezvous_begin(&rendezvous, s->server, s->id));
    rendezvous.leader = l->leader;
    st = run_at(&rendezvous, l, m, trace);
    mf_step_rendezvous_end(&rendezvous, st);
    MF_TRY(st);
    pthread_mutex_lock(&s->lock);
    st = add_stats(s->server, trace, s->stats);
    pthread_mutex_unlock(&s->lock);
    return st;
}

static void run_own(master_step *s, const mf_exec_plan *l, const mf_master_step *m)
{
    mf_trace *trace = NULL;
    mf_status st = s->stats ? mf_trace_new(&trace) : MF_OK;

    if (st == MF_OK)
        st = run_with_rendezvous(s, l, m, trace);
    mf_trace_free(trace);
    if (st != MF_OK)
        master_step_note_failure(s, st, mf_server_self(s->server));
}

/* Meshflow's tasks clean up after a successful step themselves. This one does too, except for steps
 * shared with other masters: their tasks may not have fetched all values yet. */
void mf_master_clean_up(const mf_session_workers *workers, const mf_exec_plan *l, int64_t id,
                        bool well)
{
    Tensorflow__CleanupGraphRequest request = TENSORFLOW__CLEANUP_GRAPH_REQUEST__INIT;

    request.step_id = id;
    if (!well || !l->collectives.is_shared)
        mf_rendezvous_tables_end(workers->server->tables, id);
    for (int i = 0; i < l->n_parts; i++) {
        if (!well || !workers->is_ours[l->parts[i].task])
            mf_server_notify(workers->server, l->parts[i].task,
                             "/tensorflow.WorkerService/CleanupGraph", &request.base,
                             &tensorflow__cleanup_graph_response__descriptor);
    }
}

/* The local part has ended and others have not. The caller holds the lock. */
static void report_missing_parts(const master_step *s, const master_step_part *parts, int n,
                                 int64_t since)
{
    mf_buf text = { 0 };

    for (int i = 0; i < n; i++) {
        if (!parts[i].has_answered)
            mf_buf_printf(&text, "%s%s", text.len > 0 ? ", " : "", parts[i].task->name);
    }
    if (mf_buf_finish(&text) == MF_OK)
        MF_WARN("%s: step %" PRId64 " has been waiting for the parts at %s for %.1f s",
                mf_server_self(s->server)->name, s->id, text.data,
                (double)(mf_clock_ns() - since) * 1e-9);
    mf_buf_deinit(&text);
}

static void await_parts(master_step *s, const master_step_part *parts, int n)
{
    const int64_t since = mf_clock_ns();
    int64_t look_at = since + mf_stall_patience_ns();

    pthread_mutex_lock(&s->lock);
    while (s->missing > 0) {
        const bool in_time = mf_cond_wait_until(&s->changed, &s->lock, look_at);

        if (in_time || s->missing == 0)
            continue;
        report_missing_parts(s, parts, n, since);
        look_at = mf_clock_ns() + 10 * (look_at - since);
    }
    pthread_mutex_unlock(&s->lock);
}

mf_status mf_master_run_plan(mf_server *server, const char *session, const mf_exec_plan *l,
                             const mf_master_step *m)
{
    master_step s = { .server = server, .cancel = m->cancel, .id = m->id, .stats = m->stats };
    master_step_part *parts = mf_calloc(l->n_parts, sizeof *parts);
    const int64_t deadline = master_step_deadline_of(m);

    if (!parts)
        return MF_NOMEM("a step");
    pthread_mutex_init(&s.lock, NULL);
    mf_cond_init(&s.changed);
    for (int i = 0; i < l->n_parts; i++)
        start_part(&s, &l->parts[i], session, deadline, &parts[i]);
    run_own(&s, l, m);
    await_parts(&s, parts, l->n_parts);
    pthread_cond_destroy(&s.changed);
    pthread_mutex_destroy(&s.lock);
    mf_free(parts);
    return s.why.status == MF_OK ? MF_OK : mf_error_restore(&s.why);
}

/* An entirely local step. rendezvous: NULL: none. */
static mf_status run_with(mf_request *r, mf_client_session *session, const mf_master_step *m,
                          mf_rendezvous *rendezvous)
{
    const mf_run_names *n = &m->names;
    mf_trace *trace = NULL;
    mf_status st = m->stats ? mf_trace_new(&trace) : MF_OK;

    if (st == MF_OK)
        st = mf_session_run_with(session->session, &(mf_run_options){ .timeout_ms = m->timeout_ms },
                                 &(mf_run_with){ .until = &r->cancel,
                                                 .rendezvous = rendezvous,
                                                 .trace = trace,
                                                 .task = mf_server_self(r->server)->name,
                                                 .step = m->id },
                                 n->feeds, m->feeds, n->n_feeds, n->fetches, n->n_fetches,
                                 n->targets, n->n_targets, m->results);
    if (st == MF_OK)
        st = add_stats(r->server, trace, m->stats);
    mf_trace_free(trace);
    return st;
}

static mf_status master_step_run_here(mf_request *r, mf_client_session *session,
                                      const mf_master_step *m, const mf_exec_plan *l)
{
    mf_step_rendezvous rendezvous;
    mf_status st;

    if (!l || !l->collectives.is_shared) /* all members are under this master */
        return run_with(r, session, m, NULL);
    MF_TRY(mf_step_rendezvous_begin(&rendezvous, r->server, m->id));
    rendezvous.leader = l->leader;
    st = run_with(r, session, m, &rendezvous.base);
    mf_step_rendezvous_end(&rendezvous, st);
    return st;
}

static mf_status run_laid_out(mf_request *r, mf_client_session *s, const mf_master_step *m,
                              const mf_exec_plan *l)
{
    mf_status st;
    mf_error why;

    if (!l || !l->own)
        return master_step_run_here(r, s, m, l);
    st = mf_master_run_plan(r->server, s->handle, l, m);
    mf_error_save(st, &why);
    mf_master_clean_up(&s->workers, l, m->id, st == MF_OK);
    return st == MF_OK ? MF_OK : mf_error_restore(&why);
}

/* Several masters run the step, so it has the same id on all of them. */
static mf_status run_shared(mf_request *r, mf_client_session *s, mf_master_step *m,
                            const mf_exec_plan *l)
{
    const mf_step_sequence q = { .server = r->server,
                                 .leader = l->leader,
                                 .key = m->collectives != 0 ? m->collectives : l->collectives.key,
                                 .deadline_ns = master_step_deadline_of(m) };
    mf_status st;
    mf_error why;

    MF_TRY(mf_step_sequence_begin(&q, &r->cancel, &m->id));
    st = run_laid_out(r, s, m, l);
    mf_error_save(st, &why);
    mf_step_sequence_end(&q, m->id, st == MF_OK);
    return st == MF_OK ? MF_OK : mf_error_restore(&why);
}

int64_t mf_master_new_step(void)
{
    return (int64_t)(mf_random_seed() >> 8 | UINT64_C(1) << 56); /* the same form as TensorFlow's
                                                                    ids */
}

static mf_status master_step_run_step(mf_request *r, mf_client_session *s, const mf_master_step *m)
{
    mf_master_step own = *m;
    mf_cached_plan *kept = NULL;
    mf_exec_plan *l = NULL;
    mf_status st = MF_OK;

    own.id = mf_master_new_step();
    own.cancel = &r->cancel;
    if (mf_session_workers_is_several(&s->workers) || s->collects)
        st = mf_client_session_plan(s, &m->names, &r->cancel, &kept);
    l = kept ? kept->plan : NULL;
    if (st == MF_OK)
        st =
            l && l->collectives.is_shared ? run_shared(r, s, &own, l) : run_laid_out(r, s, &own, l);
    mf_client_session_release_plan(s, kept);
    return st == MF_OK ? MF_OK : mf_server_task_failed(mf_server_self(r->server), st);
}

/* Closing a session cancels its steps, including steps that have not begun. */
typedef struct closing {
    mf_cancel_hook hook; /* first */
    mf_cancel *step;
} closing;

static void end_step(mf_cancel_hook *hook)
{
    mf_cancel_raise(((closing *)(void *)hook)->step);
}

mf_status mf_master_step_run(mf_request *r, mf_client_session *s, const mf_master_step *m)
{
    closing c = { .hook.fn = end_step, .step = &r->cancel };
    mf_status st;
    mf_error why;

    if (!mf_cancel_add(&s->closed, &c.hook))
        mf_cancel_raise(&r->cancel);
    st = master_step_run_step(r, s, m);
    mf_error_save(st, &why);
    (void)mf_cancel_remove(&s->closed, &c.hook);
    return st == MF_OK ? MF_OK : mf_error_restore(&why);
}
