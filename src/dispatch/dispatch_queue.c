/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_queue.c - queued calls, and futures of their results. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/host_state.h"
#include "dispatch/dispatch_private.h"

enum { USUAL_QUEUE = 1024 };

/* ---- lists ---- */

void mf_dispatch_calls_push(mf_dispatch_calls *q, mf_future *f)
{
    f->next = NULL;
    if (q->last)
        q->last->next = f;
    else
        q->first = f;
    q->last = f;
}

void mf_dispatch_calls_push_front(mf_dispatch_calls *q, mf_future *f)
{
    f->next = q->first;
    q->first = f;
    if (!q->last)
        q->last = f;
}

mf_future *mf_dispatch_calls_pop(mf_dispatch_calls *q)
{
    mf_future *f = q->first;

    if (!f)
        return NULL;
    q->first = f->next;
    if (!q->first)
        q->last = NULL;
    return f;
}

void mf_dispatch_calls_fail(mf_dispatch_calls *q, mf_status st)
{
    mf_error why;
    mf_future *f;

    mf_error_save(st, &why);
    while ((f = mf_dispatch_calls_pop(q)) != NULL) {
        mf_future_finish(f, mf_error_restore(&why), NULL);
        mf_future_unref(f);
    }
    (void)mf_error_restore(&why);
}

/* ---- futures ---- */

static void free_tensors(mf_tensor **tensors, int n)
{
    for (int i = 0; tensors && i < n; i++)
        mf_tensor_free(tensors[i]);
    mf_free(tensors);
}

void mf_future_unref(mf_future *f)
{
    if (--f->refs > 0)
        return;
    free_tensors(f->feeds, f->closure->n_feeds);
    free_tensors(f->values, f->closure->n_fetches);
    mf_closure_unref(f->closure);
    mf_free(f->message);
    mf_free(f);
}

void mf_future_finish(mf_future *f, mf_status st, mf_tensor **values)
{
    mf_master *m = f->master;

    if (f->done) { /* it was cancelled in between */
        free_tensors(values, f->closure->n_fetches);
        return;
    }
    f->done = true;
    f->status = st;
    f->values = values;
    free_tensors(f->feeds, f->closure->n_feeds);
    f->feeds = NULL;
    if (st != MF_OK) {
        f->message = mf_strdup(mf_error_message());
        if (m->failure.status == MF_OK && !f->waited_for)
            mf_error_save(st, &m->failure);
    }
    m->unfinished--;
    pthread_cond_broadcast(&m->changed);
}

/* With the lock held. */
static mf_status take_values(const mf_future *f, mf_tensor **results)
{
    if (f->status != MF_OK)
        return MF_FAIL(f->status, "%s",
                       f->message ? f->message
                                  : "the reason is not known: out "
                                    "of memory");
    for (int i = 0; i < f->closure->n_fetches; i++) {
        if (!results[i])
            MF_TRY(mf_tensor_copy(f->values[i], &results[i]));
        else
            mf_tensor_set(results[i], f->values[i]);
    }
    return MF_OK;
}

/* 0: no timeout, the end of all time. */
static int64_t until(int64_t timeout_ms)
{
    const int64_t now = mf_clock_ns();

    return timeout_ms < 0 || timeout_ms > (INT64_MAX - now) / 1000000 ? 0
                                                                      : now + 1000000 * timeout_ms;
}

/* With the lock held: false on timeout. */
static bool wait_for_change(mf_master *m, int64_t until_ns)
{
    if (until_ns == 0)
        return pthread_cond_wait(&m->changed, &m->lock) == 0;
    return mf_clock_ns() < until_ns &&
           (mf_cond_wait_until(&m->changed, &m->lock, until_ns) || mf_clock_ns() < until_ns);
}

mf_status mf_future_wait(mf_future *f, int64_t timeout_ms, mf_tensor **results)
{
    MF_ENTRY;
    MF_NEED(f);
    MF_NEED_ARRAY(results, f->closure->n_fetches);

    mf_master *m = f->master;
    const int64_t end = until(timeout_ms);
    mf_status st;

    pthread_mutex_lock(&m->lock);
    while (!f->done && wait_for_change(m, end))
        ;
    st = f->done ? take_values(f, results)
                 : MF_FAIL(MF_DEADLINE_EXCEEDED, "call %lld has not finished after %lld ms",
                           (long long)f->id, (long long)timeout_ms);
    pthread_mutex_unlock(&m->lock);
    return st;
}

bool mf_future_is_done(mf_future *f)
{
    MF_ENTRY_OR(true);
    if (!f)
        return true;

    bool done;

    pthread_mutex_lock(&f->master->lock);
    done = f->done;
    pthread_mutex_unlock(&f->master->lock);
    return done;
}

void mf_future_free(mf_future *f)
{
    MF_ENTRY_OR();

    mf_master *m = f ? f->master : NULL;

    if (!f)
        return;
    pthread_mutex_lock(&m->lock);
    mf_future_unref(f);
    pthread_mutex_unlock(&m->lock);
}

/* ---- scheduling ---- */

static mf_status new_future(mf_master *m, const mf_closure *closure, const mf_tensor *const *feeds,
                            mf_future **out)
{
    mf_closure *c = (mf_closure *)(uintptr_t)closure; /* only its reference count changes */
    mf_future *f = mf_calloc(1, sizeof *f);

    *out = NULL;
    if (f)
        f->feeds = mf_calloc(c->n_feeds, sizeof(mf_tensor *));
    if (!f || !f->feeds) {
        mf_free(f);
        return MF_NOMEM("a call");
    }
    f->master = m;
    f->closure = c;
    f->only = -1;
    f->refs = 1;
    pthread_mutex_lock(&m->lock);
    c->refs++;
    pthread_mutex_unlock(&m->lock);
    *out = f;
    for (int i = 0; i < c->n_feeds; i++)
        MF_TRY(mf_tensor_copy(feeds[i], &f->feeds[i]));
    return MF_OK;
}

/* With the lock held: waits until one more call may be scheduled. */
static mf_status dispatch_queue_wait_for_room(mf_master *m)
{
    const int64_t most = m->d->o.queue > 0 ? m->d->o.queue : USUAL_QUEUE;

    while (m->over.status == MF_OK && m->unfinished >= most) {
        if (m->d->o.refuse)
            return MF_FAIL(MF_RESOURCE_EXHAUSTED, "%lld calls are unfinished, which is the limit",
                           (long long)m->unfinished);
        (void)wait_for_change(m, 0);
    }
    return m->over.status == MF_OK ? MF_OK : mf_error_restore(&m->over);
}

/* With the lock held: adds the call to its queue. */
static mf_status enqueue(mf_master *m, mf_future *f)
{
    mf_dispatch_calls *q = &m->queue;

    MF_TRY(dispatch_queue_wait_for_room(m));
    if (f->only >= 0) {
        mf_agent *a = &m->agents[f->only];

        if (a->done.lost)
            return MF_FAIL(MF_UNAVAILABLE, "%s is lost", a->done.name);
        q = &a->pinned;
    }
    f->id = ++m->next_id;
    f->refs++;
    m->unfinished++;
    mf_dispatch_calls_push(q, f);
    return MF_OK;
}

static mf_status dispatch_queue_schedule(mf_dispatch *d, int worker, bool waited_for,
                                         const mf_closure *c, const mf_tensor *const *feeds,
                                         mf_future **out)
{
    mf_master *m = d->master;
    mf_future *f;
    mf_status st;

    if (c->master != m)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the closure was made for another dispatch");
    MF_NEED_ALL(feeds, c->n_feeds);
    st = new_future(m, c, feeds, &f);

    if (!f)
        return st;
    f->only = worker;
    f->waited_for = waited_for;
    pthread_mutex_lock(&m->lock);
    if (st == MF_OK)
        st = enqueue(m, f);
    if (st != MF_OK || !out)
        mf_future_unref(f);
    pthread_mutex_unlock(&m->lock);
    MF_TRY(st);
    mf_master_wake(m);
    if (out)
        *out = f;
    return MF_OK;
}

mf_status mf_dispatch_schedule(mf_dispatch *d, const mf_closure *c, const mf_tensor *const *feeds,
                               mf_future **out)
{
    MF_ENTRY;
    MF_NEED(d, c);

    if (out)
        *out = NULL;
    MF_TRY(mf_dispatch_need_master(d));
    return dispatch_queue_schedule(d, -1, false, c, feeds, out);
}

mf_status mf_dispatch_schedule_on(mf_dispatch *d, int worker, const mf_closure *c,
                                  const mf_tensor *const *feeds, mf_future **out)
{
    MF_ENTRY;
    MF_NEED(d, c);

    if (out)
        *out = NULL;
    MF_TRY(mf_dispatch_need_master(d));
    if (worker < 0 || worker >= d->master->n_workers)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there is no worker %d: there are %d", worker,
                       d->master->n_workers);
    return dispatch_queue_schedule(d, worker, false, c, feeds, out);
}

/* ---- all calls ---- */

static bool dispatch_queue_is_lost(mf_master *m, int worker)
{
    mf_worker_done done;

    mf_dispatch_done(m->d, worker, &done);
    return done.lost;
}

mf_status mf_dispatch_run_on_all(mf_dispatch *d, const mf_closure *c, const mf_tensor *const *feeds)
{
    MF_ENTRY;
    MF_NEED(d, c);

    mf_tensor **results = NULL;
    mf_future **futures = NULL;
    mf_error first = { 0 };
    int n = 0;

    MF_TRY(mf_dispatch_need_master(d));
    n = d->master->n_workers;
    futures = mf_calloc(n, sizeof *futures);
    results = mf_calloc(c->n_fetches, sizeof(mf_tensor *));
    if (!futures || !results)
        mf_error_save(MF_NOMEM("calls"), &first);
    for (int w = 0; w < n && first.status == MF_OK; w++) {
        const mf_status st = dispatch_queue_schedule(d, w, true, c, feeds, &futures[w]);

        if (st != MF_OK && !dispatch_queue_is_lost(d->master, w))
            mf_error_save(st, &first);
    }
    for (int w = 0; futures && results && w < n; w++) {
        const mf_status st = futures[w] ? mf_future_wait(futures[w], -1, results) : MF_OK;

        if (st != MF_OK && first.status == MF_OK && !dispatch_queue_is_lost(d->master, w))
            mf_error_save(st, &first);
        mf_future_free(futures[w]);
    }
    free_tensors(results, c->n_fetches);
    mf_free(futures);
    pthread_mutex_lock(&d->master->lock);
    if (first.status == MF_OK && d->master->over.status != MF_OK)
        first = d->master->over;
    pthread_mutex_unlock(&d->master->lock);
    return first.status == MF_OK ? MF_OK : mf_error_restore(&first);
}

mf_status mf_dispatch_join(mf_dispatch *d, int64_t timeout_ms)
{
    MF_ENTRY;
    MF_NEED(d);

    const int64_t end = until(timeout_ms);
    mf_master *m = d->master;
    mf_status st = MF_OK;

    MF_TRY(mf_dispatch_need_master(d));
    pthread_mutex_lock(&m->lock);
    while (m->unfinished > 0 && wait_for_change(m, end))
        ;
    if (m->unfinished > 0)
        st = MF_FAIL(MF_DEADLINE_EXCEEDED, "%lld calls have not finished after %lld ms",
                     (long long)m->unfinished, (long long)timeout_ms);
    else if (m->failure.status != MF_OK)
        st = mf_error_restore(&m->failure);
    if (m->unfinished == 0)
        m->failure.status = MF_OK;
    pthread_mutex_unlock(&m->lock);
    return st;
}

void mf_dispatch_cancel(mf_dispatch *d)
{
    MF_ENTRY_OR();
    if (!d)
        return;

    mf_master *m = d->master;
    mf_error before;
    mf_status st;

    if (!m)
        return;
    mf_error_save(MF_OK, &before); /* the caller may still need its own error */
    pthread_mutex_lock(&m->lock);
    st = MF_FAIL(MF_CANCELLED, "the call was cancelled");
    mf_dispatch_calls_fail(&m->queue, st);
    for (int i = 0; i < m->n_workers; i++) {
        mf_agent *a = &m->agents[i];

        mf_dispatch_calls_fail(&a->pinned, st);
        for (int k = 0; k < a->done.slots; k++) {
            if (a->running[k])
                mf_future_finish(a->running[k], st, NULL);
        }
    }
    pthread_mutex_unlock(&m->lock);
    (void)mf_error_restore(&before);
}
