/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_agent.c - the master's side of one worker: a thread that sends calls while the worker
 * has free slots, receives results, and detects the loss of the worker. A stalled worker blocks
 * only its own agent. */
#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "base/thread.h"
#include "dispatch/dispatch_private.h"

#include <stdio.h>
#include <string.h>

MF_PARAM_INT(dispatch_max_lost_workers, 3,
             "a call fails after this number of workers were lost while they ran it");

/* ---- sending calls ---- */

/* The next call for this worker; NULL: none, or no free slot. */
static mf_future *next_call(mf_agent *a)
{
    mf_master *m = a->master;
    mf_future *f = NULL;

    pthread_mutex_lock(&m->lock);
    if (a->done.running < a->done.slots) {
        f = mf_dispatch_calls_pop(&a->pinned);
        if (!f)
            f = mf_dispatch_calls_pop(&m->queue);
    }
    if (f) {
        int k = 0;

        while (a->running[k])
            k++;
        a->running[k] = f;
        a->done.running++;
    }
    pthread_mutex_unlock(&m->lock);
    return f;
}

/* With the lock held: the slot of this call; -1: the worker does not run it. */
static int find_running(const mf_agent *a, int64_t id)
{
    for (int k = 0; k < a->done.slots; k++) {
        if (a->running[k] && a->running[k]->id == id)
            return k;
    }
    return -1;
}

/* With the lock held: removes the call from its slot. */
static mf_future *take_back(mf_agent *a, int k)
{
    mf_future *f = a->running[k];

    a->running[k] = NULL;
    a->done.running--;
    return f;
}

/* The call fails for a reason that no other worker would change. */
static void fail_call(mf_agent *a, int64_t id, mf_status st)
{
    mf_future *f;

    pthread_mutex_lock(&a->master->lock);
    f = take_back(a, find_running(a, id));
    mf_future_finish(f, st, NULL);
    mf_future_unref(f);
    pthread_mutex_unlock(&a->master->lock);
}

static mf_status dispatch_agent_encode(mf_agent *a, const mf_future *f, mf_buf *out)
{
    mf_master *m = a->master;
    const mf_closure *c = f->closure;
    mf_dispatch_call call = { .id = f->id,
                              .graph = c->graph->digest,
                              .feed_names = (const char *const *)c->feeds,
                              .fetches = (const char *const *)c->fetches,
                              .targets = (const char *const *)c->targets,
                              .n_feeds = c->n_feeds,
                              .n_fetches = c->n_fetches,
                              .n_targets = c->n_targets,
                              .feeds = mf_calloc(c->n_feeds, sizeof(mf_tensor *)) };
    mf_status st = MF_OK;

    if (!call.feeds)
        return MF_NOMEM("a call");
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < c->n_feeds && st == MF_OK; i++) /* a cancellation frees them */
        st = f->feeds ? mf_tensor_copy(f->feeds[i], &call.feeds[i])
                      : MF_FAIL(MF_CANCELLED, "the call was cancelled");
    pthread_mutex_unlock(&m->lock);
    if (st == MF_OK)
        st = mf_dispatch_call_encode(&call, out);
    if (st == MF_OK && out->len > MF_FRAME_MAX)
        st = MF_FAIL(MF_INVALID_ARGUMENT,
                     "feeds of %zu bytes do not fit one message of at most %d: feed less at once",
                     out->len, (int)MF_FRAME_MAX);
    for (int i = 0; i < c->n_feeds; i++)
        mf_tensor_free(call.feeds[i]);
    mf_free(call.feeds);
    return st;
}

static mf_status dispatch_agent_send_message(mf_agent *a, mf_dispatch_message what,
                                             const void *data, size_t size)
{
    mf_master *m = a->master;

    MF_TRY(mf_dispatch_send(m->d->net, a->task, what, data, size, m->d->timeout_ns));
    pthread_mutex_lock(&m->lock);
    a->done.bytes_sent += (int64_t)size;
    pthread_mutex_unlock(&m->lock);
    return MF_OK;
}

/* Sends the graph unless the worker has it. */
static mf_status dispatch_agent_ship(mf_agent *a, const mf_shipped *graph)
{
    const int64_t have = a->cap_shipped;

    if (graph->number >= have) {
        MF_TRY(mf_grow(&a->shipped, &a->cap_shipped, graph->number + 1, sizeof *a->shipped));
        memset(a->shipped + have, 0, (size_t)(a->cap_shipped - have) * sizeof *a->shipped);
    }
    if (a->shipped[graph->number])
        return MF_OK;
    if (a->task < 0)
        MF_TRY(mf_dispatch_call_runner_add(a->master->runner, graph->bytes, graph->len));
    else
        MF_TRY(dispatch_agent_send_message(a, MF_DISPATCH_GRAPH, graph->bytes, graph->len));
    a->shipped[graph->number] = true;
    return MF_OK;
}

/* ---- receiving results ---- */

/* With the lock held: moves values from a message to the future. */
static void dispatch_agent_finish(mf_agent *a, mf_future *f, const mf_answer *r)
{
    mf_tensor **values = NULL;
    mf_status st = r->status;

    if (st != MF_OK)
        st = MF_FAIL(st, "%s: %.900s", a->done.name, r->message);
    else
        values = mf_calloc(r->n_values, sizeof(mf_tensor *));
    if (st == MF_OK && !values)
        st = MF_NOMEM("results");
    for (int i = 0; st == MF_OK && i < r->n_values; i++)
        st = mf_tensor_copy(r->values[i], &values[i]);
    if (st != MF_OK) {
        for (int i = 0; values && i < r->n_values; i++)
            mf_tensor_free(values[i]);
        mf_free(values);
        values = NULL;
    }
    mf_future_finish(f, st, values);
    mf_future_unref(f);
}

/* With the lock held: the call in slot k is done. */
static void dispatch_agent_take_answer(mf_agent *a, int k, const mf_answer *r)
{
    a->done.calls++;
    a->done.failed += r->status != MF_OK;
    a->done.seconds += (double)r->ns * 1e-9;
    dispatch_agent_finish(a, take_back(a, k), r);
}

/* Fails: the message is invalid, and the worker is taken for lost. A result that is too large for
 * this process fails its call only. */
static mf_status dispatch_agent_take_result(mf_agent *a, const void *data, size_t size)
{
    mf_master *m = a->master;
    mf_arena *arena = mf_arena_new();
    mf_answer r = { 0 };
    mf_status st = arena ? mf_answer_decode(data, size, arena, &r) : MF_NOMEM("a result");
    int k;

    pthread_mutex_lock(&m->lock);
    k = find_running(a, r.id);
    if (st == MF_OK &&
        (k < 0 || (r.status == MF_OK && r.n_values != a->running[k]->closure->n_fetches)))
        st = MF_FAIL(MF_DATA_LOSS, "unexpected answer to call %lld with %d values", (long long)r.id,
                     r.n_values);
    if (st == MF_OK) {
        dispatch_agent_take_answer(a, k, &r);
    } else if (st == MF_RESOURCE_EXHAUSTED && k >= 0) {
        r.status = MF_FAIL(st, "not enough memory for its result: %.800s", mf_error_message());
        r.message = mf_error_message();
        dispatch_agent_take_answer(a, k, &r);
        st = MF_OK;
    }
    pthread_mutex_unlock(&m->lock);
    mf_tensors_clear(r.values, r.n_values);
    mf_arena_free(arena);
    return st;
}

static mf_status take_ready(mf_agent *a, const void *data, size_t size)
{
    mf_arena *arena = mf_arena_new();
    int slots = 0;
    mf_status st = arena ? mf_ready_decode(data, size, arena, &slots) : MF_NOMEM("a worker");

    mf_arena_free(arena);
    MF_TRY(st);
    pthread_mutex_lock(&a->master->lock);
    if (a->running)
        st = MF_FAIL(MF_DATA_LOSS, "it reported twice that it is ready");
    else
        a->running = mf_calloc(slots, sizeof *a->running);
    if (st == MF_OK && !a->running)
        st = MF_NOMEM("a worker");
    if (st == MF_OK)
        a->done.slots = slots;
    pthread_mutex_unlock(&a->master->lock);
    return st;
}

static mf_status dispatch_agent_take_mail(mf_agent *a, const mf_mail *mail)
{
    pthread_mutex_lock(&a->master->lock);
    a->done.bytes_received += (int64_t)mail->frame.size;
    pthread_mutex_unlock(&a->master->lock);
    switch (mail->frame.flags) {
    case MF_DISPATCH_READY:
        return take_ready(a, mail->data, mail->frame.size);
    case MF_DISPATCH_RESULT:
        return dispatch_agent_take_result(a, mail->data, mail->frame.size);
    case MF_DISPATCH_PING:
        return MF_OK;
    default:
        return MF_FAIL(MF_DATA_LOSS, "it sent a message of kind %d", (int)mail->frame.flags);
    }
}

/* ---- this process as the worker ---- */

static void dispatch_agent_run_here(mf_agent *a, int64_t id, const mf_buf *call)
{
    mf_buf result = { 0 };
    mf_status st = mf_dispatch_call_runner_run(a->master->runner, call->data, call->len, &result);

    if (st == MF_OK)
        st = dispatch_agent_take_result(a, result.data, result.len);
    if (st != MF_OK)
        fail_call(a, id, st);
    mf_buf_deinit(&result);
}

/* ---- loss of a worker ---- */

/* With the lock held: moves a call of a lost worker back to the queue. The thread's message says
 * why the worker is lost. */
static void move_call(mf_agent *a, mf_future *f, const mf_error *why)
{
    mf_master *m = a->master;

    if (!f->done && f->only < 0 && ++f->losses < MF_PARAM(dispatch_max_lost_workers)) {
        a->done.moved++;
        mf_dispatch_calls_push_front(&m->queue, f);
        return;
    }
    if (f->losses >= MF_PARAM(dispatch_max_lost_workers))
        (void)MF_FAIL(MF_UNAVAILABLE, "%d workers were lost with this call; the last: %.800s",
                      f->losses, why->message);
    else
        (void)mf_error_restore(why);
    mf_future_finish(f, MF_UNAVAILABLE, NULL);
    mf_future_unref(f);
}

/* With the lock held: no worker is left, so all calls fail. */
static void dispatch_agent_give_up(mf_master *m, const mf_error *why)
{
    mf_error_save(MF_FAIL(MF_UNAVAILABLE, "no worker is left: %.900s", why->message), &m->over);
    mf_dispatch_calls_fail(&m->queue, MF_UNAVAILABLE);
    pthread_cond_broadcast(&m->changed);
}

/* Its calls move to other workers; if it was the last worker, all calls fail. */
static void lost(mf_agent *a, mf_status st)
{
    mf_master *m = a->master;
    mf_error why;

    mf_error_save(st, &why);
    mf_mailbox_close(&a->box); /* messages of a worker that returns are dropped */
    pthread_mutex_lock(&m->lock);
    if (!m->closing)
        MF_WARN("%s is lost, with %lld calls: %s", a->done.name, (long long)a->done.running,
                why.message);
    mf_error_save(MF_FAIL(MF_UNAVAILABLE, "%s is lost: %.900s", a->done.name, why.message), &why);
    a->done.lost = true;
    for (int k = a->done.slots - 1; k >= 0; k--) {
        if (a->running[k])
            move_call(a, a->running[k], &why);
        a->running[k] = NULL;
    }
    a->done.running = 0;
    (void)mf_error_restore(&why);
    mf_dispatch_calls_fail(&a->pinned, MF_UNAVAILABLE);
    if (a->index < m->n_workers && --m->n_left == 0)
        dispatch_agent_give_up(m, &why);
    pthread_mutex_unlock(&m->lock);
    mf_master_wake(m);
}

/* ---- the thread ---- */

/* Sends calls while there are free slots. Fails: the worker is lost. */
static mf_status give_calls(mf_agent *a)
{
    mf_future *f;
    mf_status st = MF_OK;

    while (st == MF_OK && (f = next_call(a)) != NULL) {
        const int64_t id = f->id;
        mf_buf call = { 0 };
        mf_status written;

        st = dispatch_agent_ship(a, f->closure->graph);
        written = st == MF_OK ? dispatch_agent_encode(a, f, &call) : MF_OK;
        if (written != MF_OK)
            fail_call(a, id, written);
        else if (st == MF_OK && a->task < 0)
            dispatch_agent_run_here(a, id, &call);
        else if (st == MF_OK)
            st = dispatch_agent_send_message(a, MF_DISPATCH_CALL, call.data, call.len);
        mf_buf_deinit(&call);
    }
    return st;
}

static bool closing(mf_agent *a)
{
    bool is;

    pthread_mutex_lock(&a->master->lock);
    is = a->master->closing;
    pthread_mutex_unlock(&a->master->lock);
    return is;
}

/* No message has arrived for a while: sends a ping, and checks the timeout. */
static mf_status dispatch_agent_check_peer(mf_agent *a)
{
    const mf_dispatch *d = a->master->d;
    const int64_t silent = mf_clock_ns() - a->heard;

    MF_TRY(mf_mailbox_check(&a->box));
    MF_TRY(mf_net_check_task(d->net, a->task));
    if (silent > d->timeout_ns)
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "no message from it for %.1f s",
                       (double)silent * 1e-9);
    return MF_OK;
}

/* Runs until the master closes or the worker is lost. */
static mf_status dispatch_agent_talk(mf_agent *a)
{
    const int64_t every = mf_dispatch_ping_ns(a->master->d);
    int64_t ping_at = mf_clock_ns() + every;

    a->heard = mf_clock_ns();
    while (!closing(a)) {
        mf_mail *mail = mf_mailbox_take(&a->box, ping_at);
        mf_status st;

        if (mail)
            a->heard = mf_clock_ns();
        st = mail ? dispatch_agent_take_mail(a, mail) : dispatch_agent_check_peer(a);
        mf_mail_free(mail);
        MF_TRY(st);
        MF_TRY(give_calls(a));
        if (mf_clock_ns() >= ping_at) {
            MF_TRY(dispatch_agent_send_message(a, MF_DISPATCH_PING, NULL, 0));
            ping_at = mf_clock_ns() + every;
        }
    }
    return dispatch_agent_send_message(a, MF_DISPATCH_STOP, NULL, 0);
}

static mf_status run_alone(mf_agent *a)
{
    while (!closing(a)) {
        MF_TRY(give_calls(a));
        mf_mail_free(mf_mailbox_take(&a->box, 0));
    }
    return MF_OK;
}

static void *agent_main(void *arg)
{
    mf_agent *a = arg;
    const mf_status st = a->task < 0 ? run_alone(a) : dispatch_agent_talk(a);

    if (st != MF_OK)
        lost(a, st);
    return NULL;
}

mf_status mf_agent_start(mf_agent *a)
{
    if (mf_thread_start(&a->thread, agent_main, a) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread for %s", a->done.name);
    a->started = true;
    return MF_OK;
}

void mf_agent_stop(mf_agent *a)
{
    mf_mailbox_wake(&a->box);
    if (a->started)
        pthread_join(a->thread, NULL);
    a->started = false;
}
