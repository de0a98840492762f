/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - messages find those who wait for them, and those who wait learn of trouble. */
#include "comm/net.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "comm/net_private.h"

#include <string.h>
#include <time.h>

MF_PARAM_INT(comm_say_waiting_ms, 3000, "waiting for another task for so long is said");

enum { UNCLAIMED_MAX = 1 << 30 }; /* bytes of a peer that nobody has asked for */

/* ---- trouble ---- */

/* With the lock held: the thread's error becomes that of all who wait here. */
static void note_trouble(mf_net *n, mf_status st)
{
    if (n->trouble.status != MF_OK)
        return;
    mf_error_save(st, &n->trouble);
    pthread_cond_broadcast(&n->changed);
}

static void tell_trouble(mf_net *n)
{
    void (*fn)(void *);
    void *ctx;

    pthread_mutex_lock(&n->lock);
    fn = n->on_trouble;
    ctx = n->on_trouble_ctx;
    pthread_mutex_unlock(&n->lock);
    if (fn)
        fn(ctx);
}

void mf_net_on_trouble(mf_net *n, void (*fn)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&n->lock);
    n->on_trouble = fn;
    n->on_trouble_ctx = ctx;
    pthread_mutex_unlock(&n->lock);
}

mf_status mf_net_check(mf_net *n)
{
    mf_status st;

    pthread_mutex_lock(&n->lock);
    st = n->trouble.status == MF_OK ? MF_OK : mf_error_restore(&n->trouble);
    pthread_mutex_unlock(&n->lock);
    return st;
}

void mf_net_abort(mf_net *n, mf_status why)
{
    const mf_frame f = { .kind = MF_MESSAGE_ABORT, .epoch = n->epoch };
    mf_error e;
    bool first;

    mf_error_save(why, &e);
    pthread_mutex_lock(&n->lock);
    first = !n->aborted;
    n->aborted = true;
    note_trouble(n, mf_error_restore(&e));
    pthread_mutex_unlock(&n->lock);
    for (int i = 0; first && i < n->n_tasks; i++) {
        mf_frame one = f;

        one.size = strlen(e.message);
        if (i != n->self && mf_net_send(n, i, &one, e.message, mf_clock_ns() + 1000000000) != MF_OK)
            MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message()); /* it sees that we are gone */
    }
    tell_trouble(n);
}

/* ---- what the transport tells ---- */

static bool same_key(const mf_frame *a, const mf_frame *b)
{
    return a->kind == b->kind && a->epoch == b->epoch && a->group == b->group && a->seq == b->seq &&
           a->step == b->step;
}

static message *new_message(const mf_frame *f)
{
    message *m = mf_calloc(1, sizeof *m);

    if (m)
        m->data = mf_calloc((int64_t)f->size + 1, 1);
    if (!m || !m->data) {
        mf_free(m);
        (void)MF_NOMEM("a message");
        return NULL;
    }
    m->frame = *f;
    return m;
}

/* A waiter that wants just these bytes gets them where it wants them. */
static void *begin(mf_inbox *in, int peer, const mf_frame *f)
{
    mf_net *n = (mf_net *)in;
    mf_peer *p = &n->peers[peer];
    message *m = NULL;

    pthread_mutex_lock(&n->lock);
    for (waiter *w = p->waiters; w && f->size > 0; w = w->next) {
        if (!w->busy && !w->done && w->data && same_key(&w->frame, f) && w->frame.size == f->size) {
            w->busy = true;
            p->coming_to = w;
            pthread_mutex_unlock(&n->lock);
            return w->data;
        }
    }
    if (p->unclaimed + (int64_t)f->size <= UNCLAIMED_MAX)
        m = new_message(f);
    else
        (void)MF_FAIL(MF_RESOURCE_EXHAUSTED, "it sent more than anybody here asked for");
    p->coming = m;
    p->unclaimed += m ? (int64_t)f->size : 0;
    pthread_mutex_unlock(&n->lock);
    return m ? m->data : NULL;
}

static void take_abort(mf_net *n, int peer, const message *m)
{
    MF_LOG(MF_LOG_DEBUG, "%s gives up: %s", n->peers[peer].name, m->data);
    note_trouble(n, MF_FAIL(MF_ABORTED, "%s gave up: %.800s", n->peers[peer].name, m->data));
}

static void message_free(message *m)
{
    if (!m)
        return;
    mf_free(m->data);
    mf_free(m);
}

/* True: the message is dealt with. */
static bool take_control(mf_net *n, int peer, message *m)
{
    mf_net_serve_fn *serve = NULL;
    void *ctx = NULL;
    bool trouble = false;

    pthread_mutex_lock(&n->lock);
    if (m->frame.kind == MF_MESSAGE_ABORT) {
        take_abort(n, peer, m);
        trouble = true;
    } else if (m->frame.kind == MF_MESSAGE_BYE) {
        n->peers[peer].left = true;
        pthread_cond_broadcast(&n->changed);
    } else if (m->frame.kind == MF_MESSAGE_REQUEST) {
        serve = n->serve;
        ctx = n->serve_ctx;
    }
    pthread_mutex_unlock(&n->lock);
    if (trouble)
        tell_trouble(n);
    if (serve) {
        serve(ctx, peer, &m->frame, m->data);
        m->data = NULL;
    }
    return serve || m->frame.kind == MF_MESSAGE_ABORT || m->frame.kind == MF_MESSAGE_BYE ||
           m->frame.epoch < n->epoch;
}

static void end(mf_inbox *in, int peer, const mf_frame *f)
{
    mf_net *n = (mf_net *)in;
    mf_peer *p = &n->peers[peer];
    message *m = p->coming;

    (void)f;
    if (m && take_control(n, peer, m)) {
        pthread_mutex_lock(&n->lock);
        p->unclaimed -= (int64_t)m->frame.size;
        p->coming = NULL;
        pthread_mutex_unlock(&n->lock);
        message_free(m);
        return;
    }
    pthread_mutex_lock(&n->lock);
    if (m) {
        message **last = &p->arrived;

        while (*last)
            last = &(*last)->next;
        *last = m;
    } else {
        p->coming_to->busy = false;
        p->coming_to->done = true;
    }
    p->coming = NULL;
    p->coming_to = NULL;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static void gone(mf_inbox *in, int peer, const char *why)
{
    mf_net *n = (mf_net *)in;
    mf_peer *p = &n->peers[peer];
    bool trouble;

    pthread_mutex_lock(&n->lock);
    message_free(p->coming);
    p->coming = NULL;
    if (p->coming_to)
        p->coming_to->busy = false;
    p->coming_to = NULL;
    p->gone = true;
    mf_error_save(MF_FAIL(MF_UNAVAILABLE, "%s%s%s is gone: %s", p->name, p->address ? " at " : "",
                          p->address ? p->address : "", why),
                  &p->why);
    trouble = !p->left && !n->closing;
    if (trouble)
        note_trouble(n, p->why.status);
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
    if (trouble)
        tell_trouble(n);
}

const mf_inbox_kind mf_net_inbox = {
    .hello = mf_net_hello, .begin = begin, .end = end, .gone = gone
};

/* ---- sending ---- */

mf_status mf_net_send(mf_net *n, int to, const mf_frame *f, const void *data, int64_t deadline_ns)
{
    mf_status st;

    if (f->size > MF_FRAME_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a message of %llu bytes is too long",
                       (unsigned long long)f->size);
    st = n->transport->kind->send(n->transport, to, f, data, deadline_ns);
    if (st != MF_OK)
        return mf_error_wrap(st, mf_net_sentence(n, "cannot send to ", to), "");
    pthread_mutex_lock(&n->lock);
    n->peers[to].sent += (int64_t)f->size;
    pthread_mutex_unlock(&n->lock);
    return MF_OK;
}

/* ---- waiting ---- */

static message *find_message(mf_peer *p, const mf_frame *f)
{
    for (message **at = &p->arrived; *at; at = &(*at)->next) {
        message *m = *at;

        if (!same_key(&m->frame, f))
            continue;
        *at = m->next;
        p->unclaimed -= (int64_t)m->frame.size;
        return m;
    }
    return NULL;
}

static void say_waiting(mf_net *n, const waiter *w, int from)
{
    MF_WARN("%s waits for %s%s%s: %s of step %lld, since %.1f s", n->peers[n->self].name,
            n->peers[from].name, n->peers[from].address ? " at " : "",
            n->peers[from].address ? n->peers[from].address : "", w->what, (long long)w->frame.step,
            (double)(mf_clock_ns() - w->since) * 1e-9);
}

/* With the lock held. MF_OK: look again. */
static mf_status wait_more(mf_net *n, waiter *w, int from, int64_t deadline_ns)
{
    const mf_peer *p = &n->peers[from];
    const int64_t now = mf_clock_ns();
    int64_t until = now + 1000000000;
    struct timespec at;

    if (n->trouble.status != MF_OK)
        return mf_error_restore(&n->trouble);
    if (p->left)
        return MF_FAIL(MF_UNAVAILABLE, "%s has left; %s waited for %s of step %lld", p->name,
                       n->peers[n->self].name, w->what, (long long)w->frame.step);
    if (p->gone)
        return mf_error_restore(&p->why);
    if (deadline_ns > 0 && now >= deadline_ns)
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "%s did not send %s of step %lld; %s waited %.1f s",
                       p->name, w->what, (long long)w->frame.step, n->peers[n->self].name,
                       (double)(now - w->since) * 1e-9);
    if (now - w->since > w->say_at) {
        w->say_at = 2 * (now - w->since);
        say_waiting(n, w, from);
    }
    if (deadline_ns > 0 && deadline_ns < until)
        until = deadline_ns;
    at = (struct timespec){ until / 1000000000, until % 1000000000 };
    (void)pthread_cond_timedwait(&n->changed, &n->lock, &at);
    return MF_OK;
}

static void unpost(mf_net *n, mf_peer *p, waiter *w, int from)
{
    while (w->busy) { /* bytes are on their way into memory that the caller wants back */
        pthread_mutex_unlock(&n->lock);
        n->transport->kind->drop(n->transport, from);
        pthread_mutex_lock(&n->lock);
        if (w->busy)
            pthread_cond_wait(&n->changed, &n->lock);
    }
    for (waiter **at = &p->waiters; *at; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            break;
        }
    }
}

/* The message, or (for a waiter with memory) MF_OK and none: its bytes are there. */
static mf_status await(mf_net *n, int from, waiter *w, int64_t deadline_ns, message **out)
{
    mf_peer *p = &n->peers[from];
    mf_status st = MF_OK;

    *out = NULL;
    w->since = mf_clock_ns();
    w->say_at = MF_PARAM(comm_say_waiting_ms) * 1000000;
    pthread_mutex_lock(&n->lock);
    *out = find_message(p, &w->frame);
    if (!*out) {
        w->next = p->waiters;
        p->waiters = w;
        while (st == MF_OK && !w->done && !*out) {
            st = wait_more(n, w, from, deadline_ns);
            if (!w->done && !w->busy)
                *out = find_message(p, &w->frame);
        }
        if (w->done || *out)
            st = MF_OK;
        unpost(n, p, w, from);
        if (w->done)
            st = MF_OK;
    }
    pthread_mutex_unlock(&n->lock);
    return st;
}

mf_status mf_net_recv(mf_net *n, int from, const mf_frame *f, void *data, int64_t deadline_ns,
                      const char *what)
{
    waiter w = { .frame = *f, .data = data, .what = what };
    message *m;
    mf_status st = MF_OK;

    MF_TRY(await(n, from, &w, deadline_ns, &m));
    if (m && m->frame.size != f->size)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "%s sent %llu bytes for %s of step %lld, not %llu",
                     n->peers[from].name, (unsigned long long)m->frame.size, what,
                     (long long)f->step, (unsigned long long)f->size);
    else if (m && f->size > 0)
        memcpy(data, m->data, f->size);
    message_free(m);
    return st;
}

mf_status mf_net_take(mf_net *n, int from, const mf_frame *f, void **data, size_t *size,
                      int64_t deadline_ns, const char *what)
{
    waiter w = { .frame = *f, .what = what };
    message *m;

    *data = NULL;
    MF_TRY(await(n, from, &w, deadline_ns, &m));
    *data = m->data;
    *size = m->frame.size;
    m->data = NULL;
    message_free(m);
    return MF_OK;
}

/* ---- serving, closing ---- */

void mf_net_serve(mf_net *n, mf_net_serve_fn *fn, void *ctx)
{
    pthread_mutex_lock(&n->lock);
    n->serve = fn;
    n->serve_ctx = ctx;
    pthread_mutex_unlock(&n->lock);
}

int mf_net_self(const mf_net *n)
{
    return n->self;
}

const char *mf_net_name(const mf_net *n, int task)
{
    return n->peers[task].name;
}

static void say_bye(mf_net *n)
{
    const mf_frame bye = { .kind = MF_MESSAGE_BYE, .epoch = n->epoch };

    for (int i = 0; i < n->n_tasks; i++) {
        if (i != n->self && n->peers[i].here && !n->peers[i].gone &&
            mf_net_send(n, i, &bye, NULL, mf_clock_ns() + 1000000000) != MF_OK)
            MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    }
}

void mf_net_close(mf_net *n)
{
    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    n->closing = true;
    pthread_mutex_unlock(&n->lock);
    if (n->transport) {
        if (!n->aborted && n->trouble.status == MF_OK)
            say_bye(n);
        n->transport->kind->close(n->transport);
    }
    for (int i = 0; i < n->n_tasks; i++) {
        mf_peer *p = &n->peers[i];

        message_free(p->coming);
        while (p->arrived) {
            message *m = p->arrived;

            p->arrived = m->next;
            message_free(m);
        }
        mf_free(p->name);
        mf_free(p->address);
        mf_free(p->host);
    }
    mf_free(n->peers);
    mf_free(n->identity);
    mf_free(n->hello);
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
    mf_free(n);
}
