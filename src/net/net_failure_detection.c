/* SPDX-License-Identifier: Apache-2.0 */
/* net_failure_detection.c - detects lost, aborted and stalled tasks, and names the cause.
 *
 * A lost connection names its peer. A stalled peer sends nothing, and tasks that wait for it make
 * other tasks wait. So when a deadline is near, the waiting task follows the chain of waits: it
 * probes the task that it waits for, then the task that this task waits for, and so on. A waiting
 * task replies with the task that it waits for; the task that does not reply is blamed. Replies are
 * sent by waiting threads, never by the transport's threads, which must continue to read. */
#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "net/net_private.h"

#include <string.h>

MF_PARAM_INT(comm_probe_timeout_ms, 400,
             "a peer that does not answer a probe within this time in ms is blamed for the wait");

static int64_t ask_ns(void)
{
    return MF_PARAM(comm_probe_timeout_ms) * 1000000;
}

/* ---- notifications ---- */

void mf_net_record_failure(mf_net *n, mf_status st)
{
    if (n->trouble.status != MF_OK)
        return;
    mf_error_save(st, &n->trouble);
    pthread_cond_broadcast(&n->changed);
}

void mf_net_notify_watches(mf_net *n, bool question)
{
    pthread_mutex_lock(&n->watching);
    for (mf_net_watch *w = n->watches; w; w = w->next) {
        if (!question || w->questions)
            w->fn(w->ctx);
    }
    pthread_mutex_unlock(&n->watching);
}

void mf_net_watch_add(mf_net *n, mf_net_watch *w)
{
    pthread_mutex_lock(&n->watching);
    w->next = n->watches;
    n->watches = w;
    pthread_mutex_unlock(&n->watching);
}

void mf_net_watch_remove(mf_net *n, mf_net_watch *w)
{
    pthread_mutex_lock(&n->watching);
    for (mf_net_watch **at = &n->watches; *at; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            break;
        }
    }
    pthread_mutex_unlock(&n->watching);
}

mf_status mf_net_check(mf_net *n)
{
    mf_status st;

    pthread_mutex_lock(&n->lock);
    st = n->trouble.status == MF_OK ? MF_OK : mf_error_restore(&n->trouble);
    pthread_mutex_unlock(&n->lock);
    return st;
}

mf_status mf_net_failure_of(const mf_net *n, int task)
{
    const mf_peer *p = &n->peers[task];

    if (n->trouble.status != MF_OK)
        return mf_error_restore(&n->trouble);
    if (p->left)
        return MF_FAIL(MF_UNAVAILABLE, "%s has left", p->name);
    return p->gone ? mf_error_restore(&p->why) : MF_OK;
}

mf_status mf_net_check_task(mf_net *n, int task)
{
    mf_status st;

    pthread_mutex_lock(&n->lock);
    st = mf_net_failure_of(n, task);
    pthread_mutex_unlock(&n->lock);
    return st;
}

void mf_net_abort(mf_net *n, mf_status why)
{
    mf_frame f = { .kind = MF_MESSAGE_ABORT, .epoch = n->epoch };
    mf_error e;
    bool first;

    mf_error_save(why, &e);
    pthread_mutex_lock(&n->lock);
    first = !n->aborted;
    n->aborted = true;
    mf_net_record_failure(n, why);
    pthread_mutex_unlock(&n->lock);
    mf_net_notify_watches(n, false);
    f.size = strlen(e.message);
    for (int i = 0; first && i < n->n_tasks; i++) {
        if (i != n->self && mf_net_connects_to(n, i) &&
            mf_net_send(n, i, &f, e.message, mf_clock_ns() + ask_ns()) != MF_OK)
            MF_LOG(MF_LOG_DEBUG, "%s",
                   mf_error_message()); /* the peer detects the lost connection */
    }
    (void)mf_error_restore(&e);
}

/* ---- probes ---- */

/* The caller holds the lock, which is released meanwhile. The message has no data. */
static void send_control(mf_net *n, int to, mf_message kind, int64_t step)
{
    const mf_frame f = { .kind = (uint16_t)kind, .epoch = n->epoch, .step = step };

    pthread_mutex_unlock(&n->lock);
    if (mf_net_send(n, to, &f, NULL, mf_clock_ns() + ask_ns()) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    pthread_mutex_lock(&n->lock);
}

void mf_net_answer(mf_net *n, int task, int but)
{
    for (int i = 0; i < n->n_tasks; i++) {
        if (!n->peers[i].probe_pending || i == but)
            continue;
        n->peers[i].probe_pending = false;
        if (i != task) /* it knows that this task waits for it */
            send_control(n, i, MF_MESSAGE_ANSWER, task);
    }
}

static void net_failure_detection_probe(mf_net *n, mf_suspect *s)
{
    s->asked = mf_clock_ns();
    send_control(n, s->task, MF_MESSAGE_ASK, 0);
}

int64_t mf_net_next_check(int64_t deadline_ns)
{
    const int64_t now = mf_clock_ns(), rarely = now + 1000000000;

    if (deadline_ns <= 0)
        return rarely;
    if (now >= deadline_ns - ask_ns())
        return now + 20000000;
    return deadline_ns - ask_ns() < rarely ? deadline_ns - ask_ns() : rarely;
}

bool mf_net_suspect(mf_net *n, mf_suspect *s, int64_t deadline_ns)
{
    const mf_peer *p = &n->peers[s->task];
    const int64_t now = mf_clock_ns();

    if (deadline_ns <= 0 || now < deadline_ns - ask_ns())
        return false;
    if (s->asked == 0) {
        net_failure_detection_probe(n, s);
        return false;
    }
    if (p->answered >= s->asked && p->waits_for != n->self && s->hops < n->n_tasks) {
        s->task = p->waits_for;
        s->hops++;
        net_failure_detection_probe(n, s);
        return false;
    }
    return now >= deadline_ns && now >= s->asked + ask_ns();
}

mf_status mf_net_blame(const mf_net *n, const mf_suspect *s, int waited_for, const char *verb,
                       const char *what, int64_t step, int64_t since)
{
    const char *self = n->peers[n->self].name, *other = n->peers[waited_for].name;
    const double seconds = (double)(mf_clock_ns() - since) * 1e-9;

    if (s->task == waited_for)
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "%s did not %s %s of step %lld; %s waited %.1f s",
                       other, verb, what, (long long)step, self, seconds);
    return MF_FAIL(MF_DEADLINE_EXCEEDED,
                   "%s holds up %s of step %lld: %s waited %.1f s for %s, which waits for it",
                   n->peers[s->task].name, what, (long long)step, self, seconds, other);
}
