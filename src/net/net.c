/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - sends messages, and waits for messages or failures. */
#include "net/net.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/spin.h"
#include "net/net_private.h"
#include "observe/status_page.h"

#include <string.h>

enum { FINISH_NS = 200000000 }; /* time for a message in flight to complete after a failure */

/* ---- sending ---- */

/* The connection was closed. The transport's thread has read the reason, or will soon: another task
 * may have failed first and caused the peer to leave. */
static mf_status why_closed(mf_net *n, int to, mf_status st)
{
    const int64_t until = mf_clock_ns() + FINISH_NS;
    mf_status why;

    pthread_mutex_lock(&n->lock);
    while (n->trouble.status == MF_OK && !n->peers[to].gone && mf_clock_ns() < until)
        (void)mf_cond_wait_until(&n->changed, &n->lock, until);
    why = mf_net_failure_of(n, to);
    pthread_mutex_unlock(&n->lock);
    return why == MF_OK ? st : why;
}

mf_status mf_net_send(mf_net *n, int to, const mf_frame *f, const void *data, int64_t deadline_ns)
{
    mf_status st;

    if (f->size > MF_FRAME_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a message of %llu bytes is too long",
                       (unsigned long long)f->size);
    st = n->transport->kind->send(n->transport, to, f, data, deadline_ns);
    pthread_mutex_lock(&n->lock);
    if (!mf_net_is_control(f)) /* a control message, which never starts a failure */
        mf_wait_report_end(&n->peers[to].sending, st == MF_OK);
    n->peers[to].sent += st == MF_OK ? (int64_t)f->size : 0;
    pthread_mutex_unlock(&n->lock);
    if (st == MF_UNAVAILABLE || st == MF_DEADLINE_EXCEEDED)
        (void)mf_error_wrap(st, mf_net_peer_text(n, "cannot send to ", to), "");
    if (st == MF_UNAVAILABLE && !mf_net_is_control(f))
        return why_closed(n, to, st);
    MF_TRY(st);
    mf_status_page_sent(n->peers[to].name, (int64_t)f->size);
    if (!mf_net_is_control(f))
        mf_net_report_status(n);
    return MF_OK;
}

/* ---- waiting ---- */

/* Searches messages that arrived before they were requested. */
static message *find_message(mf_peer *p, const mf_frame *f)
{
    for (message **at = &p->arrived; *at; at = &(*at)->next) {
        message *m = *at;

        if (!mf_net_same_key(&m->frame, f))
            continue;
        *at = m->next;
        p->unclaimed -= (int64_t)m->frame.size;
        return m;
    }
    return NULL;
}

/* The caller holds the lock, which is released meanwhile. */
static void send_again(mf_net *n, mf_net_waiter *w, int64_t deadline_ns)
{
    w->again_ns *= 2;
    w->again_at = mf_clock_ns() + w->again_ns;
    if (w->again->times)
        ++*w->again->times;
    pthread_mutex_unlock(&n->lock);
    MF_LOG(MF_LOG_DEBUG, "%s has not sent %s of step %lld: sending the request again",
           n->peers[w->from].name, w->what, (long long)w->frame.step);
    if (mf_net_send(n, w->from, w->again->frame, w->again->data, deadline_ns) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message()); /* the waiting thread reports the reason */
    pthread_mutex_lock(&n->lock);
}

static int64_t net_next_check(const mf_net_waiter *w, int64_t deadline_ns)
{
    const int64_t look = mf_net_next_check(deadline_ns);

    return w->again && w->again_at < look ? w->again_at : look;
}

/* The caller holds the lock. MF_OK: check again. */
static mf_status wait_more(mf_net *n, mf_net_waiter *w, int64_t deadline_ns)
{
    const mf_peer *p = &n->peers[w->from];

    if (n->trouble.status != MF_OK)
        return mf_error_restore(&n->trouble);
    if (p->left)
        return MF_FAIL(MF_UNAVAILABLE, "%s has left; %s waited for %s of step %lld", p->name,
                       n->peers[n->self].name, w->what, (long long)w->frame.step);
    if (p->gone)
        return mf_error_restore(&p->why);
    if (mf_net_suspect(n, &w->suspect, deadline_ns))
        return mf_net_blame(n, &w->suspect, w->from, "send", w->what, w->frame.step, w->since);
    mf_net_answer(n, w->from, -1);
    mf_wait_report_check(&w->waiting);
    if (mf_net_is_report_due(n)) {
        pthread_mutex_unlock(&n->lock);
        mf_net_report_status(n);
        pthread_mutex_lock(&n->lock);
        return MF_OK;
    }
    if (w->again && mf_clock_ns() >= w->again_at)
        send_again(n, w, deadline_ns);
    if (w->done || w->message) /* the lock was released meanwhile */
        return MF_OK;
    (void)mf_cond_wait_until(&n->changed, &n->lock, net_next_check(w, deadline_ns));
    return MF_OK;
}

/* The caller holds the lock. Bytes may be in flight into memory that the caller reclaims: they get
 * a short time to arrive, because a peer whose connection is dropped cannot be notified of the
 * cause. */
static void unpost(mf_net *n, mf_net_waiter *w)
{
    const int64_t until = w->busy ? mf_clock_ns() + FINISH_NS : 0;

    while (w->busy && mf_clock_ns() < until)
        (void)mf_cond_wait_until(&n->changed, &n->lock, until);
    while (w->busy) {
        pthread_mutex_unlock(&n->lock);
        n->transport->kind->drop(n->transport, w->from);
        pthread_mutex_lock(&n->lock);
        if (w->busy)
            pthread_cond_wait(&n->changed, &n->lock);
    }
    for (mf_net_waiter **at = &n->peers[w->from].waiters; *at; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            break;
        }
    }
}

void mf_net_post(mf_net *n, mf_net_waiter *w)
{
    mf_peer *p = &n->peers[w->from];
    mf_net_waiter **last = &p->waiters;

    w->busy = w->done = false;
    w->next = NULL;
    w->since = mf_clock_ns();
    w->suspect = (mf_suspect){ .task = w->from };
    pthread_mutex_lock(&n->lock);
    w->message = find_message(p, &w->frame);
    while (*last)
        last = &(*last)->next;
    *last = w;
    pthread_mutex_unlock(&n->lock);
}

static bool net_is_over(mf_net *n, const mf_net_waiter *w)
{
    bool over;

    pthread_mutex_lock(&n->lock);
    over = w->done || w->message || n->trouble.status != MF_OK || n->peers[w->from].left ||
           n->peers[w->from].gone;
    pthread_mutex_unlock(&n->lock);
    return over;
}

/* The thread reads by itself for a short time: waking the transport's thread, and then this one,
 * takes longer than most waits of a collective. Bytes that arrive restart the time. */
static void net_poll(mf_net *n, const mf_net_waiter *w)
{
    static _Thread_local mf_spin spin;
    mf_transport *t = n->transport;
    int64_t limit, most = 0;

    if (t->polls == 0 || !mf_net_is_collective(&w->frame) || net_is_over(n, w))
        return;
    limit = mf_spin_limit(&spin, MF_TRANSPORT_POLLS_LEAST, t->polls);
    for (int64_t idle = 0; idle < limit; idle++) {
        if (t->kind->poll(t))
            idle = 0;
        most = idle > most ? idle : most;
        if (net_is_over(n, w)) {
            mf_spin_learn(&spin, most, true);
            return;
        }
    }
    mf_spin_learn(&spin, limit, false);
    t->kind->end_poll(t);
}

/* Waits until the message or its bytes have arrived. */
static mf_status net_await(mf_net *n, mf_net_waiter *w, int64_t deadline_ns)
{
    mf_status st = MF_OK;

    net_poll(n, w);
    pthread_mutex_lock(&n->lock);
    if (!w->done && !w->message) {
        w->waiting = (mf_wait_report){ .who = n->peers[n->self].name,
                                       .whom = n->peers[w->from].name,
                                       .where = n->peers[w->from].address,
                                       .what = w->what,
                                       .step = w->frame.step };
        mf_wait_report_begin(&w->waiting);
    }
    while (st == MF_OK && !w->done && !w->message)
        st = wait_more(n, w, deadline_ns);
    mf_wait_report_end(&w->waiting, w->done || w->message);
    unpost(n, w);
    if (w->done || w->message)
        st = MF_OK;
    pthread_mutex_unlock(&n->lock);
    return st;
}

mf_status mf_net_finish(mf_net *n, mf_net_waiter *w, int64_t deadline_ns)
{
    const mf_frame *f = &w->frame;
    mf_status st;

    MF_TRY(net_await(n, w, deadline_ns));
    if (!w->message)
        return MF_OK;
    if (w->message->frame.size != f->size)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "%s sent %llu bytes for %s of step %lld, not %llu",
                     n->peers[w->from].name, (unsigned long long)w->message->frame.size, w->what,
                     (long long)f->step, (unsigned long long)f->size);
    else
        st = MF_OK;
    if (st == MF_OK && f->size > 0)
        memcpy(w->data, w->message->data, f->size);
    mf_message_free(w->message);
    w->message = NULL;
    return st;
}

void mf_net_unpost(mf_net *n, mf_net_waiter *w)
{
    pthread_mutex_lock(&n->lock);
    unpost(n, w);
    pthread_mutex_unlock(&n->lock);
    mf_message_free(w->message);
    w->message = NULL;
}

mf_status mf_net_recv(mf_net *n, int from, const mf_frame *f, void *data, int64_t deadline_ns,
                      const char *what)
{
    mf_net_waiter w = { .frame = *f, .from = from, .data = data, .what = what };

    mf_net_post(n, &w);
    return mf_net_finish(n, &w, deadline_ns);
}

static mf_status net_take(mf_net *n, mf_net_waiter *w, void **data, size_t *size,
                          int64_t deadline_ns)
{
    *data = NULL;
    mf_net_post(n, w);
    MF_TRY(net_await(n, w, deadline_ns));
    *data = w->message->data;
    *size = w->message->frame.size;
    w->message->data = NULL;
    mf_message_free(w->message);
    return MF_OK;
}

mf_status mf_net_take(mf_net *n, int from, const mf_frame *f, void **data, size_t *size,
                      int64_t deadline_ns, const char *what)
{
    mf_net_waiter w = { .frame = *f, .from = from, .what = what };

    return net_take(n, &w, data, size, deadline_ns);
}

/* Drops additional replies to a request that was sent more than once. */
static void drop_late(mf_net *n, mf_peer *p, const mf_frame *f)
{
    pthread_mutex_lock(&n->lock);
    for (message **at = &p->arrived; *at;) {
        message *m = *at;

        if (m->frame.kind != f->kind || m->frame.group != f->group || m->frame.seq >= f->seq) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        p->unclaimed -= (int64_t)m->frame.size;
        mf_message_free(m);
    }
    pthread_mutex_unlock(&n->lock);
}

mf_status mf_net_take_with_retry(mf_net *n, int from, const mf_frame *f, const mf_net_retry *again,
                                 void **data, size_t *size, int64_t deadline_ns, const char *what)
{
    mf_net_waiter w = { .frame = *f,
                        .from = from,
                        .what = what,
                        .again = again,
                        .again_ns = again->after_ns,
                        .again_at = mf_clock_ns() + again->after_ns };

    drop_late(n, &n->peers[from], f);
    return net_take(n, &w, data, size, deadline_ns);
}

void mf_net_forget(mf_net *n, uint32_t group)
{
    pthread_mutex_lock(&n->lock);
    for (int i = 0; i < n->n_tasks; i++) {
        mf_peer *p = &n->peers[i];

        for (message **at = &p->arrived; *at;) {
            message *m = *at;

            if (m->frame.group != group ||
                (m->frame.kind != MF_MESSAGE_COLLECTIVE && m->frame.kind != MF_MESSAGE_READY)) {
                at = &m->next;
                continue;
            }
            *at = m->next;
            p->unclaimed -= (int64_t)m->frame.size;
            mf_message_free(m);
        }
    }
    pthread_mutex_unlock(&n->lock);
}

/* ---- serving, closing ---- */

/* The first request of a peer that arrived early; NULL: none. */
static message *early_request(mf_peer *p)
{
    for (message **at = &p->arrived; *at; at = &(*at)->next) {
        message *m = *at;

        if (m->frame.kind != MF_MESSAGE_REQUEST)
            continue;
        *at = m->next;
        p->unclaimed -= (int64_t)m->frame.size;
        return m;
    }
    return NULL;
}

/* Early requests are served first: later ones wait until fn is set. The lock is not held while fn
 * is called, because fn may query the net. */
void mf_net_serve(mf_net *n, mf_net_serve_fn *fn, void *ctx)
{
    pthread_mutex_lock(&n->serving);
    pthread_mutex_lock(&n->lock);
    for (int i = 0; fn && i < n->n_tasks; i++) {
        message *m;

        while ((m = early_request(&n->peers[i])) != NULL) {
            pthread_mutex_unlock(&n->lock);
            fn(ctx, i, &m->frame, m->data);
            m->data = NULL;
            mf_message_free(m);
            pthread_mutex_lock(&n->lock);
        }
    }
    n->serve = fn;
    n->serve_ctx = ctx;
    pthread_mutex_unlock(&n->lock);
    pthread_mutex_unlock(&n->serving);
}

void mf_net_drop(mf_net *n, int task)
{
    n->transport->kind->drop(n->transport, task);
}

int mf_net_self(const mf_net *n)
{
    return n->self;
}

uint32_t mf_net_epoch(const mf_net *n)
{
    return n->epoch;
}

int64_t mf_net_sent_remote(mf_net *n)
{
    int64_t bytes = 0;

    pthread_mutex_lock(&n->lock);
    for (int i = 0; i < n->n_tasks; i++)
        bytes += mf_net_same_host(n, n->self, i) ? 0 : n->peers[i].sent;
    pthread_mutex_unlock(&n->lock);
    return bytes;
}

const char *mf_net_name(const mf_net *n, int task)
{
    return n->peers[task].name;
}

int mf_net_tasks(const mf_net *n)
{
    return n->n_tasks;
}

const char *mf_net_note(const mf_net *n, int task)
{
    return n->peers[task].note;
}

static void send_bye(mf_net *n)
{
    const mf_frame bye = { .kind = MF_MESSAGE_BYE, .epoch = n->epoch };

    for (int i = 0; i < n->n_tasks; i++) {
        bool here;

        pthread_mutex_lock(&n->lock);
        here = i != n->self && n->peers[i].here && !n->peers[i].gone;
        pthread_mutex_unlock(&n->lock);
        if (here && mf_net_send(n, i, &bye, NULL, mf_clock_ns() + 1000000000) != MF_OK)
            MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    }
}

void mf_net_close(mf_net *n)
{
    bool trouble;
    mf_error before; /* the caller may be about to report its own error */

    if (!n)
        return;
    mf_error_save(MF_UNKNOWN, &before);
    pthread_mutex_lock(&n->lock);
    n->closing = true;
    trouble = n->trouble.status != MF_OK;
    pthread_mutex_unlock(&n->lock);
    if (n->transport) {
        if (!trouble)
            send_bye(n);
        else /* otherwise other tasks would blame this one */
            mf_net_abort(n, mf_net_check(n));
        n->transport->kind->close(n->transport);
    }
    for (int i = 0; i < n->n_tasks; i++) {
        mf_peer *p = &n->peers[i];

        mf_message_free(p->incoming);
        while (p->arrived) {
            message *m = p->arrived;

            p->arrived = m->next;
            mf_message_free(m);
        }
        mf_free(p->name);
        mf_free(p->address);
        mf_free(p->host);
        mf_free(p->note);
    }
    mf_free(n->peers);
    mf_free(n->identity);
    mf_free(n->note);
    mf_free(n->hello);
    mf_free(n->job);
    pthread_mutex_destroy(&n->watching);
    pthread_mutex_destroy(&n->serving);
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
    mf_free(n);
    (void)mf_error_restore(&before);
}
