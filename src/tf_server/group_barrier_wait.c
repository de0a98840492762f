/* SPDX-License-Identifier: Apache-2.0 */
/* group_barrier_wait.c - members that wait at barriers until all members have arrived, they are
 * cancelled, or their deadline expires. A thread checks the deadlines. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/thread.h"
#include "tf_server/group_barrier_private.h"

#include <string.h>

enum { SAY_S = 10, AHEAD_MS = 500 };

int64_t mf_deadline_ahead(int64_t deadline_ns)
{
    const int64_t most = AHEAD_MS * INT64_C(1000000);
    int64_t left;

    if (deadline_ns == 0 || deadline_ns == INT64_MAX)
        return INT64_MAX;
    left = deadline_ns - mf_clock_ns();
    return deadline_ns - (left / 10 < most ? left / 10 : most);
}

/* ---- waiting ---- */

static void group_barrier_wait_on_cancel(mf_cancel_hook *hook);

void mf_barrier_waiter_enqueue(mf_barrier_waiter *w, mf_group_barriers *m, mf_group_barrier *a,
                               const mf_barrier_request *c)
{
    *w = (mf_barrier_waiter){ .pending =
                                  mf_waiter_of(&m->lock, c->cancel, group_barrier_wait_on_cancel),
                              .barriers = m,
                              .at = a,
                              .device = mf_group_barrier_find(a, c->who.device)->device,
                              .since_ns = mf_clock_ns(),
                              .deadline_ns = mf_deadline_ahead(c->deadline_ns),
                              .done = c->done,
                              .ctx = c->ctx,
                              .waits = true,
                              .prev = a->last };
    a->refs++;
    *(a->last ? &a->last->next : &a->first) = w;
    a->last = w;
}

static void group_barrier_wait_take_off(mf_barrier_waiter *w)
{
    mf_group_barrier *a = w->at;

    *(w->prev ? &w->prev->next : &a->first) = w->next;
    *(w->next ? &w->next->prev : &a->last) = w->prev;
    w->prev = w->next = NULL;
    w->waits = false;
}

/* Removes a waiter without a reply, as if it had not arrived. The caller holds the lock. */
static void group_barrier_wait_leave(mf_barrier_waiter *w)
{
    mf_group_barrier *a = w->at;
    const mf_barrier_waiter *twin = a->first;

    while (twin && (twin == w || strcmp(twin->device, w->device) != 0))
        twin = twin->next;
    group_barrier_wait_take_off(w);
    if (a->answer || twin)
        return;
    for (int i = 0; i < a->n; i++) {
        if (strcmp(a->all[i].device, w->device) == 0)
            a->all[i] = a->all[--a->n];
    }
    if (a->n == 0)
        mf_group_barrier_forget(w->barriers, a);
}

static void group_barrier_wait_unref(mf_barrier_waiter *w)
{
    if (!mf_waiter_unref(&w->pending))
        return;
    mf_group_barrier_release(w->barriers, w->at);
    mf_free(w);
}

/* Completes a waiter that is no longer queued. On failure the thread's error is set. */
static void group_barrier_wait_end(mf_barrier_waiter *w, mf_status st)
{
    mf_error why;

    mf_error_save(st, &why);
    mf_waiter_end(&w->pending);
    if (st != MF_OK)
        (void)mf_error_restore(&why);
    w->done(w->ctx, st, st == MF_OK ? w->at->answer : NULL);
    group_barrier_wait_unref(w);
}

/* Completes all waiters with the thread's error. */
void mf_barrier_waiters_end(mf_group_barriers *m, mf_group_barrier *a, mf_status st)
{
    mf_error why;
    mf_barrier_waiter *w;

    mf_error_save(st, &why);
    do {
        pthread_mutex_lock(&m->lock);
        w = a->first;
        if (w)
            group_barrier_wait_take_off(w);
        pthread_mutex_unlock(&m->lock);
        if (w)
            group_barrier_wait_end(w, st == MF_OK ? MF_OK : mf_error_restore(&why));
    } while (w);
    if (st != MF_OK)
        (void)mf_error_restore(&why);
}

/* The error of a waiter that gives up: lists the members present. The caller holds the lock. */
static mf_status not_all(const mf_group_barrier *a, mf_status code, const char *how,
                         int64_t since_ns)
{
    mf_buf names = { 0 };

    mf_group_barrier_names(a, &names);
    (void)MF_FAIL(code, "%s: %s after %.1f s with %d of %d members present: %s", a->title, how,
                  (double)(mf_clock_ns() - since_ns) * 1e-9, a->n, a->size,
                  names.data ? names.data : "");
    mf_buf_deinit(&names);
    return code;
}

static void group_barrier_wait_on_cancel(mf_cancel_hook *hook)
{
    mf_barrier_waiter *w = (mf_barrier_waiter *)(void *)hook;
    mf_status st = MF_OK;
    bool waits;

    pthread_mutex_lock(&w->barriers->lock);
    waits = w->waits;
    if (waits) {
        st = not_all(w->at, MF_CANCELLED, "cancelled", w->since_ns);
        group_barrier_wait_leave(w);
    }
    pthread_mutex_unlock(&w->barriers->lock);
    if (waits)
        group_barrier_wait_end(w, st);
}

void mf_barrier_waiter_begin(mf_barrier_waiter *w)
{
    mf_waiter_begin(&w->pending);
    group_barrier_wait_unref(w);
}

/* ---- missing members ---- */

/* A waiter whose deadline has expired; otherwise the time of the next check. The caller holds the
 * lock. */
static mf_barrier_waiter *find_late(const mf_group_barriers *m, int64_t now, int64_t *next)
{
    mf_map_entry *e;
    int64_t it = 0;

    while ((e = mf_map_next(&m->all, &it)) != NULL) {
        mf_group_barrier *a = e->value;

        for (mf_barrier_waiter *w = a->first; w; w = w->next) {
            if (w->deadline_ns <= now)
                return w;
            if (w->deadline_ns < *next)
                *next = w->deadline_ns;
        }
    }
    return NULL;
}

/* The caller holds the lock. */
static void report_waiters(const mf_group_barriers *m, int64_t now)
{
    mf_map_entry *e;
    int64_t it = 0;

    while ((e = mf_map_next(&m->all, &it)) != NULL) {
        mf_group_barrier *a = e->value;
        const int64_t since = a->first ? a->first->since_ns : now;
        mf_buf names = { 0 };

        if (now - since < SAY_S * INT64_C(1000000000) ||
            now - a->reported_ns < SAY_S * INT64_C(1000000000))
            continue;
        a->reported_ns = now;
        mf_group_barrier_names(a, &names);
        MF_WARN("%s has been waiting for %d of %d members for %.0f s; present: %s", a->title,
                a->size - a->n, a->size, (double)(now - since) * 1e-9,
                names.data ? names.data : "");
        mf_buf_deinit(&names);
    }
}

static void *group_barrier_wait_watch(void *ctx)
{
    mf_group_barriers *m = ctx;

    pthread_mutex_lock(&m->lock);
    while (!m->ends) {
        const int64_t now = mf_clock_ns();
        int64_t next = now + SAY_S * INT64_C(1000000000);
        mf_barrier_waiter *late = find_late(m, now, &next);

        if (late) {
            const mf_status st =
                not_all(late->at, MF_DEADLINE_EXCEEDED, "the deadline expired", late->since_ns);

            group_barrier_wait_leave(late);
            pthread_mutex_unlock(&m->lock);
            group_barrier_wait_end(late, st);
            pthread_mutex_lock(&m->lock);
            continue;
        }
        report_waiters(m, now);
        (void)mf_cond_wait_until(&m->changed, &m->lock, next);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* The caller holds the lock. */
mf_status mf_barrier_waiters_watch(mf_group_barriers *m)
{
    if (!m->watches && mf_thread_start(&m->watch, group_barrier_wait_watch, m) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start the thread that checks deadlines of "
                                              "groups");
    m->watches = true;
    pthread_cond_signal(&m->changed);
    return MF_OK;
}
