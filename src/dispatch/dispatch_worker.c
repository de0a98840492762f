/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_worker.c - a worker: threads run the calls of the master and send results. One thread
 * reads the master's messages, sends pings, and detects the loss of the master. */
#include "base/clock.h"
#include "base/log.h"
#include "base/machine_limits.h"
#include "base/mem.h"
#include "base/thread.h"
#include "dispatch/dispatch_private.h"

typedef struct dispatch_worker {
    mf_dispatch *d;
    mf_dispatch_call_runner *runner;
    mf_mailbox box; /* messages of the master */
    mf_mailbox calls; /* calls to run, from `box` */
    mf_net_watch watch;
    pthread_t *threads;
    int n_threads, slots;
    bool over;
    pthread_mutex_t lock; /* guards the fields below */
    mf_error failure; /* the first one */
    int64_t done; /* calls done */
    int64_t ns; /* time of all threads in calls */
} dispatch_worker;

/* Records a failure. It is reported after all messages of the master are read: the master may have
 * sent STOP and closed. */
static void dispatch_worker_note_failure(dispatch_worker *w, mf_status st)
{
    pthread_mutex_lock(&w->lock);
    if (w->failure.status == MF_OK)
        mf_error_save(st, &w->failure);
    pthread_mutex_unlock(&w->lock);
    mf_mailbox_wake(&w->box);
}

static void dispatch_worker_send_message(dispatch_worker *w, mf_dispatch_message what,
                                         const void *data, size_t size)
{
    const mf_status st = mf_dispatch_send(w->d->net, w->d->hub, what, data, size, w->d->timeout_ns);

    if (st != MF_OK)
        dispatch_worker_note_failure(w, st);
}

/* ---- running calls ---- */

static void run_call(dispatch_worker *w, const mf_mail *mail)
{
    const int64_t begin = mf_clock_ns();
    mf_buf result = { 0 };
    const mf_status st =
        mf_dispatch_call_runner_run(w->runner, mail->data, mail->frame.size, &result);

    pthread_mutex_lock(&w->lock);
    w->done++;
    w->ns += mf_clock_ns() - begin;
    pthread_mutex_unlock(&w->lock);
    if (st == MF_OK)
        dispatch_worker_send_message(w, MF_DISPATCH_RESULT, result.data, result.len);
    else
        dispatch_worker_note_failure(w, st);
    mf_buf_deinit(&result);
}

static void *thread_main(void *arg)
{
    dispatch_worker *w = arg;
    mf_mail *mail;

    while ((mail = mf_mailbox_take(&w->calls, 0)) != NULL) {
        run_call(w, mail);
        mf_mail_free(mail);
    }
    return NULL;
}

/* ---- messages of the master ---- */

/* Owns: ownership of the mail is transferred. */
static mf_status dispatch_worker_take_mail(dispatch_worker *w, mf_mail *mail)
{
    mf_status st = MF_OK;

    switch (mail->frame.flags) {
    case MF_DISPATCH_CALL:
        if (w->slots > 0) {
            mf_mailbox_add(&w->calls, mail);
            return MF_OK;
        }
        st = MF_FAIL(MF_DATA_LOSS, "%s received a call, but it runs none",
                     mf_net_name(w->d->net, mf_net_self(w->d->net)));
        break;
    case MF_DISPATCH_GRAPH:
        st = mf_dispatch_call_runner_add(w->runner, mail->data, mail->frame.size);
        break;
    case MF_DISPATCH_PING:
        break;
    case MF_DISPATCH_STOP:
        w->over = true;
        break;
    default:
        st = MF_FAIL(MF_DATA_LOSS, "%s sent a message of kind %d",
                     mf_net_name(w->d->net, w->d->hub), (int)mail->frame.flags);
    }
    mf_mail_free(mail);
    return st;
}

/* No message has arrived for a while: sends a ping, and checks the timeout. heard: time of the last
 * message. */
static mf_status dispatch_worker_check_peer(dispatch_worker *w, int64_t heard)
{
    const int64_t silent = mf_clock_ns() - heard;
    mf_status st;

    MF_TRY(mf_mailbox_check(&w->box));
    pthread_mutex_lock(&w->lock);
    st = w->failure.status == MF_OK ? MF_OK : mf_error_restore(&w->failure);
    pthread_mutex_unlock(&w->lock);
    if (st == MF_OK || st == MF_UNAVAILABLE) /* the failure of the connection explains that of
                                                sending */
        MF_TRY(mf_net_check_task(w->d->net, w->d->hub));
    MF_TRY(st);
    if (silent > w->d->timeout_ns)
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "no message from %s for %.1f s",
                       mf_net_name(w->d->net, w->d->hub), (double)silent * 1e-9);
    return MF_OK;
}

/* The next message of the master; NULL: none yet. Fails: there will be none. */
static mf_status next_mail(dispatch_worker *w, int64_t until_ns, int64_t heard, mf_mail **out)
{
    mf_status st;

    *out = mf_mailbox_take(&w->box, until_ns);
    if (*out)
        return MF_OK;
    st = dispatch_worker_check_peer(w, heard);
    if (st != MF_OK) /* its last message may have arrived in between */
        *out = mf_mailbox_take(&w->box, mf_clock_ns());
    return *out ? MF_OK : st;
}

static mf_status attend(dispatch_worker *w)
{
    const int64_t every = mf_dispatch_ping_ns(w->d);
    int64_t heard = mf_clock_ns(), ping_at = heard + every;

    while (!w->over) {
        mf_mail *mail;

        MF_TRY(next_mail(w, ping_at, heard, &mail));
        if (mail) {
            heard = mf_clock_ns();
            MF_TRY(dispatch_worker_take_mail(w, mail));
        }
        if (mf_clock_ns() >= ping_at) {
            dispatch_worker_send_message(w, MF_DISPATCH_PING, NULL, 0);
            ping_at = mf_clock_ns() + every;
        }
    }
    return MF_OK;
}

/* ---- running ---- */

static void dispatch_worker_wake(void *ctx)
{
    mf_mailbox_wake(ctx);
}

static mf_status dispatch_worker_send_ready(dispatch_worker *w)
{
    mf_buf text = { 0 };
    const mf_status st = mf_ready_encode(w->slots, &text);

    if (st == MF_OK)
        dispatch_worker_send_message(w, MF_DISPATCH_READY, text.data, text.len);
    mf_buf_deinit(&text);
    return st;
}

static mf_status dispatch_worker_start(dispatch_worker *w)
{
    const mf_dispatch_options *o = &w->d->o;
    const int threads = o->threads > 0 ? o->threads : mf_default_threads(NULL);

    w->slots = w->d->spare ? 0 : o->slots > 0 ? o->slots : threads;
    w->slots = w->slots < MF_SLOTS_MAX ? w->slots : MF_SLOTS_MAX;
    MF_TRY(mf_dispatch_call_runner_new(o, &w->runner));
    w->threads = mf_calloc(w->slots, sizeof *w->threads);
    if (!w->threads)
        return MF_NOMEM("threads");
    while (w->n_threads < w->slots) {
        if (mf_thread_start(&w->threads[w->n_threads], thread_main, w) != 0)
            return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread for calls");
        w->n_threads++;
    }
    return dispatch_worker_send_ready(w);
}

/* Cancels running calls: no result is needed any more. */
static void dispatch_worker_finish(dispatch_worker *w)
{
    mf_mailbox_close(&w->calls);
    if (w->runner)
        mf_dispatch_call_runner_stop(w->runner);
    for (int i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    mf_free(w->threads);
    mf_dispatch_call_runner_free(w->runner);
}

mf_status mf_worker_serve(mf_dispatch *d)
{
    dispatch_worker w = { .d = d };
    mf_status st;
    mf_error why;

    pthread_mutex_init(&w.lock, NULL);
    mf_mailbox_init(&w.box);
    mf_mailbox_init(&w.calls);
    w.watch = (mf_net_watch){ .fn = dispatch_worker_wake, .ctx = &w.box, .questions = true };
    mf_net_watch_add(d->net, &w.watch);
    mf_net_serve(d->net, mf_mailbox_put, &w.box);
    st = dispatch_worker_start(&w);
    if (st == MF_OK)
        st = attend(&w);
    mf_error_save(st, &why);
    dispatch_worker_finish(&w);
    mf_net_serve(d->net, NULL, NULL);
    mf_net_watch_remove(d->net, &w.watch);
    mf_mailbox_deinit(&w.calls);
    mf_mailbox_deinit(&w.box);
    pthread_mutex_destroy(&w.lock);
    MF_INFO("%s has run %lld calls in %.3f s", mf_net_name(d->net, mf_net_self(d->net)),
            (long long)w.done, (double)w.ns * 1e-9);
    if (st == MF_OK)
        return MF_OK;
    (void)mf_error_restore(&why);
    if (st == MF_DATA_LOSS) /* tell the master why this worker closes */
        mf_net_abort(d->net, st);
    return st;
}
