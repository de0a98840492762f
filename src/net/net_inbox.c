/* SPDX-License-Identifier: Apache-2.0 */
/* net_inbox.c - callbacks of the transport: incoming messages, their delivery, and lost peers. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/net_private.h"
#include "observe/status_page.h"

enum { UNCLAIMED_MAX = 1 << 30 }; /* limit for unrequested bytes of a peer */

void mf_message_free(message *m)
{
    if (!m)
        return;
    mf_free(m->data);
    mf_free(m);
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

/* The first waiter for a message with this key. */
static mf_net_waiter *find_waiter(const mf_peer *p, const mf_frame *f)
{
    for (mf_net_waiter *w = p->waiters; w; w = w->next) {
        if (!w->busy && !w->done && !w->message && mf_net_same_key(&w->frame, f))
            return w;
    }
    return NULL;
}

/* A waiter for exactly these bytes receives them directly into its memory. */
static void *net_inbox_begin(mf_inbox *in, int peer, const mf_frame *f)
{
    mf_net *n = (mf_net *)in;
    mf_peer *p = &n->peers[peer];
    message *m = NULL;
    mf_net_waiter *w;

    pthread_mutex_lock(&n->lock);
    w = find_waiter(p, f);
    if (w && w->data && w->frame.size == f->size && f->size > 0) {
        w->busy = true;
        p->incoming_to = w;
        pthread_mutex_unlock(&n->lock);
        return w->data;
    }
    if (p->unclaimed + (int64_t)f->size <= UNCLAIMED_MAX)
        m = new_message(f);
    else
        (void)MF_FAIL(MF_RESOURCE_EXHAUSTED, "it sent more data than this task requested");
    p->incoming = m;
    p->unclaimed += m ? (int64_t)f->size : 0;
    pthread_mutex_unlock(&n->lock);
    return m ? m->data : NULL;
}

/* The thread's error is the reason why a peer is lost: the first reason is kept. */
static void net_inbox_note_gone(mf_net *n, mf_peer *p, mf_status why)
{
    if (!p->gone)
        mf_error_save(why, &p->why);
    p->gone = true;
    if (!p->left && !n->closing && !n->star)
        mf_net_record_failure(n, why);
    pthread_cond_broadcast(&n->changed);
}

static void take_abort(mf_net *n, int peer, const message *m)
{
    mf_peer *p = &n->peers[peer];
    mf_status why;

    MF_LOG(MF_LOG_DEBUG, "%s aborts: %s", p->name, m->data);
    why = MF_FAIL(MF_ABORTED, "%s aborted: %.800s", p->name, m->data);
    if (n->star)
        net_inbox_note_gone(n, p, why);
    else
        mf_net_record_failure(n, why);
}

/* The caller holds the lock. Handles control messages of the net. True: external waiters must be
 * notified. */
static bool net_inbox_take_control(mf_net *n, int peer, const message *m)
{
    mf_peer *p = &n->peers[peer];

    switch (m->frame.kind) {
    case MF_MESSAGE_ABORT:
        take_abort(n, peer, m);
        return true;
    case MF_MESSAGE_BYE:
        p->left = true;
        break;
    case MF_MESSAGE_ASK:
    case MF_MESSAGE_STATE: /* the sender must know that it is read */
        p->probe_pending = true;
        break;
    case MF_MESSAGE_ANSWER:
        if (m->frame.step < 0 || m->frame.step >= n->n_tasks)
            return false;
        p->waits_for = (int)m->frame.step;
        p->answered = mf_clock_ns();
        break;
    default:
        return false;
    }
    pthread_cond_broadcast(&n->changed);
    return m->frame.kind != MF_MESSAGE_ANSWER;
}

/* True: the message was handled. */
static bool take_control(mf_net *n, int peer, message *m)
{
    mf_net_serve_fn *serve = NULL;
    void *ctx = NULL;
    bool news;

    if (m->frame.kind == MF_MESSAGE_STATE && n->self == 0)
        mf_status_page_keep(n->peers[peer].name, m->data, m->frame.size);
    pthread_mutex_lock(&n->lock);
    news = net_inbox_take_control(n, peer, m);
    if (m->frame.kind == MF_MESSAGE_REQUEST) {
        serve = n->serve;
        ctx = n->serve_ctx;
    }
    pthread_mutex_unlock(&n->lock);
    if (news)
        mf_net_notify_watches(n,
                              m->frame.kind == MF_MESSAGE_ASK || m->frame.kind == MF_MESSAGE_STATE);
    if (serve) {
        serve(ctx, peer, &m->frame, m->data);
        m->data = NULL;
    }
    return serve || mf_net_is_control(&m->frame) || m->frame.epoch < n->epoch;
}

/* The caller holds the lock. Delivers to the waiter, or else to the unrequested messages. */
static void deliver(mf_peer *p, message *m)
{
    message **last = &p->arrived;
    mf_net_waiter *w = find_waiter(p, &m->frame);

    if (w) {
        w->message = m;
        p->unclaimed -= (int64_t)m->frame.size;
        return;
    }
    while (*last)
        last = &(*last)->next;
    *last = m;
}

/* The incoming message is complete. For a request: the caller holds `serving`. */
static void take_whole(mf_net *n, int peer)
{
    mf_peer *p = &n->peers[peer];
    message *m = p->incoming;

    if (peer == 0) {
        pthread_mutex_lock(&n->lock);
        n->unheard = 0;
        pthread_mutex_unlock(&n->lock);
    }
    if (m && take_control(n, peer, m)) {
        pthread_mutex_lock(&n->lock);
        p->unclaimed -= (int64_t)m->frame.size;
        p->incoming = NULL;
        pthread_mutex_unlock(&n->lock);
        mf_message_free(m);
        return;
    }
    pthread_mutex_lock(&n->lock);
    if (m) {
        deliver(p, m);
    } else {
        p->incoming_to->busy = false;
        p->incoming_to->done = true;
    }
    p->incoming = NULL;
    p->incoming_to = NULL;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static void net_inbox_end(mf_inbox *in, int peer, const mf_frame *f)
{
    mf_net *n = (mf_net *)in;

    if (f->kind != MF_MESSAGE_REQUEST) {
        take_whole(n, peer);
        return;
    }
    pthread_mutex_lock(&n->serving);
    take_whole(n, peer);
    pthread_mutex_unlock(&n->serving);
}

static void net_inbox_on_disconnect(mf_inbox *in, int peer, const char *why)
{
    mf_net *n = (mf_net *)in;
    mf_peer *p = &n->peers[peer];
    bool news;

    pthread_mutex_lock(&n->lock);
    mf_message_free(p->incoming);
    p->incoming = NULL;
    if (p->incoming_to)
        p->incoming_to->busy = false;
    p->incoming_to = NULL;
    news = !p->left && !n->closing;
    net_inbox_note_gone(n, p,
                        MF_FAIL(MF_UNAVAILABLE, "%s%s%s is lost: %s", p->name,
                                p->address ? " at " : "", p->address ? p->address : "", why));
    pthread_mutex_unlock(&n->lock);
    if (news)
        mf_net_notify_watches(n, false);
}

/* The caller holds the lock. */
static void show_sending(mf_net *n, int peer, const mf_frame *f)
{
    mf_peer *p = &n->peers[peer];

    if (p->sending.stall.since == 0) {
        p->sending = (mf_wait_report){ .who = n->peers[n->self].name,
                                       .whom = p->name,
                                       .where = p->address,
                                       .what = "to take a message",
                                       .step = f->step };
        mf_wait_report_begin(&p->sending);
    }
    mf_wait_report_check(&p->sending);
}

/* Called while sending is blocked. Control messages are sent even after a failure. */
static mf_status net_inbox_waits(mf_inbox *in, int peer, const mf_frame *f)
{
    mf_net *n = (mf_net *)in;
    mf_status st = MF_OK;

    if (mf_net_is_control(f))
        return MF_OK;
    pthread_mutex_lock(&n->lock);
    if (n->trouble.status != MF_OK)
        st = mf_error_restore(&n->trouble);
    else {
        show_sending(n, peer, f);
        mf_net_answer(n, peer, peer);
    }
    pthread_mutex_unlock(&n->lock);
    return st;
}

const mf_inbox_kind mf_net_inbox = {
    .greeting = mf_net_greeting,
    .hello = mf_net_hello,
    .refused = mf_net_refused,
    .ready = mf_net_ready,
    .begin = net_inbox_begin,
    .end = net_inbox_end,
    .waits = net_inbox_waits,
    .gone = net_inbox_on_disconnect,
};
