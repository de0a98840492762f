/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator.c - threads that end together.
 *
 *   1. A thread that the coordinator started holds a reference, so a thread that outlives the grace
 *      time still has a coordinator.
 *   2. `failure` is written once, before `stopping` is set, and kept until clear_stop.
 *   3. The lock is held during no wait except that for `changed`. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/host_state.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#include <meshflow/coordinator.h>

#include <stdatomic.h>
#include <string.h>

enum { GRACE_MS = 120000, POLL_MS = 10 };

typedef struct thread {
    mf_coordinator *owner;
    char *name;
    pthread_t id;
    mf_status (*fn)(void *ctx); /* NULL: the caller has started it */
    void *ctx;
    bool ended; /* guarded by lock */
    bool let_go; /* guarded by lock: it frees itself */
    struct thread *next;
} thread;

struct mf_coordinator {
    atomic_int refs; /* the owner's, and one for each thread started here */
    atomic_bool stopping; /* set under lock */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a stop was requested, or a thread has ended */
    thread *threads; /* guarded by lock */
    mf_error failure; /* guarded by lock; MF_OK: none */
    bool joined; /* guarded by lock */
};

/* ---- making and freeing ---- */

mf_status mf_coordinator_new(mf_coordinator **out)
{
    MF_ENTRY_SMALL;
    MF_NEED(out);

    mf_coordinator *c = mf_calloc(1, sizeof *c);

    *out = NULL;
    if (!c)
        return MF_NOMEM("a coordinator");
    atomic_store(&c->refs, 1);
    pthread_mutex_init(&c->lock, NULL);
    mf_cond_init(&c->changed);
    *out = c;
    return MF_OK;
}

static void coordinator_unref(mf_coordinator *c)
{
    if (atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    mf_free(c);
}

static void thread_free(thread *t)
{
    mf_free(t->name);
    mf_free(t);
}

/* Threads that still run are abandoned. */
static void coordinator_let_go(mf_coordinator *c, thread *list)
{
    while (list) {
        thread *t = list;
        bool ended;

        list = t->next;
        pthread_detach(t->id);
        pthread_mutex_lock(&c->lock);
        ended = t->ended || !t->fn;
        t->let_go = true;
        pthread_mutex_unlock(&c->lock);
        if (ended)
            thread_free(t);
    }
}

void mf_coordinator_free(mf_coordinator *c)
{
    MF_ENTRY_OR();

    thread *rest;

    if (!c)
        return;
    mf_coordinator_request_stop(c, MF_OK);
    pthread_mutex_lock(&c->lock);
    rest = c->threads;
    c->threads = NULL;
    pthread_mutex_unlock(&c->lock);
    coordinator_let_go(c, rest);
    coordinator_unref(c);
}

/* ---- stopping ---- */

void mf_coordinator_request_stop(mf_coordinator *c, mf_status why)
{
    MF_ENTRY_OR();
    if (!c)
        return;

    pthread_mutex_lock(&c->lock);
    if (!atomic_load(&c->stopping)) {
        if (why != MF_OK && why != MF_OUT_OF_RANGE)
            mf_error_save(why, &c->failure);
        atomic_store(&c->stopping, true);
        pthread_cond_broadcast(&c->changed);
    } else if (c->joined && why != MF_OK && why != MF_OUT_OF_RANGE) {
        MF_WARN("a thread failed after the others were joined: %s", mf_error_message());
    }
    pthread_mutex_unlock(&c->lock);
}

bool mf_coordinator_should_stop(const mf_coordinator *c)
{
    return !c || atomic_load(&c->stopping);
}

bool mf_coordinator_wait_for_stop(mf_coordinator *c, int64_t timeout_ms)
{
    MF_ENTRY_OR(true);
    if (!c)
        return true;

    const int64_t until = mf_clock_ns() + (timeout_ms > 0 ? timeout_ms : 0) * 1000000;
    bool early = true;

    pthread_mutex_lock(&c->lock);
    while (!atomic_load(&c->stopping) && early)
        early = timeout_ms < 0 ? pthread_cond_wait(&c->changed, &c->lock) == 0
                               : mf_cond_wait_until(&c->changed, &c->lock, until);
    pthread_mutex_unlock(&c->lock);
    return atomic_load(&c->stopping);
}

mf_status mf_coordinator_failure(mf_coordinator *c)
{
    MF_ENTRY_SMALL;
    MF_NEED(c);

    mf_status st;

    pthread_mutex_lock(&c->lock);
    st = c->failure.status == MF_OK ? MF_OK : mf_error_restore(&c->failure);
    pthread_mutex_unlock(&c->lock);
    return st;
}

void mf_coordinator_clear_stop(mf_coordinator *c)
{
    MF_ENTRY_OR();
    if (!c)
        return;

    pthread_mutex_lock(&c->lock);
    c->failure.status = MF_OK;
    c->joined = false;
    atomic_store(&c->stopping, false);
    pthread_mutex_unlock(&c->lock);
}

/* ---- threads ---- */

static void *run_thread(void *arg)
{
    thread *t = arg;
    mf_coordinator *c = t->owner;
    const mf_status st = t->fn(t->ctx);
    bool alone;

    if (st != MF_OK)
        mf_coordinator_request_stop(c, st);
    pthread_mutex_lock(&c->lock);
    t->ended = true;
    alone = t->let_go;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (alone)
        thread_free(t);
    coordinator_unref(c);
    return NULL;
}

static mf_status thread_new(mf_coordinator *c, const char *name, thread **out)
{
    thread *t = mf_calloc(1, sizeof *t);

    if (!t || !(t->name = mf_strdup(name))) {
        mf_free(t);
        return MF_NOMEM("a thread");
    }
    t->owner = c;
    *out = t;
    return MF_OK;
}

static void add_locked(mf_coordinator *c, thread *t)
{
    t->next = c->threads;
    c->threads = t;
}

mf_status mf_coordinator_start(mf_coordinator *c, const char *name, mf_status (*fn)(void *ctx),
                               void *ctx)
{
    MF_ENTRY_SMALL;
    MF_NEED(c, name);
    MF_NEED_FUNCTION(fn);

    thread *t;
    int result;

    MF_TRY(thread_new(c, name, &t));
    t->fn = fn;
    t->ctx = ctx;
    atomic_fetch_add(&c->refs, 1);
    pthread_mutex_lock(&c->lock); /* the thread cannot end until it is in the list */
    result = mf_thread_start(&t->id, run_thread, t);
    if (result == 0)
        add_locked(c, t);
    pthread_mutex_unlock(&c->lock);
    if (result == 0)
        return MF_OK;
    thread_free(t);
    coordinator_unref(c);
    return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start the thread '%s': %s", name,
                   strerror(result));
}

mf_status mf_coordinator_register_thread(mf_coordinator *c, const char *name, pthread_t id)
{
    MF_ENTRY_SMALL;
    MF_NEED(c, name);

    thread *t;

    MF_TRY(thread_new(c, name, &t));
    t->id = id;
    pthread_mutex_lock(&c->lock);
    add_locked(c, t);
    pthread_mutex_unlock(&c->lock);
    return MF_OK;
}

/* ---- joining ---- */

/* Has it ended? A foreign thread is checked by trying to join it. */
static bool coordinator_has_ended(thread *t)
{
    if (!t->fn && !t->ended && pthread_tryjoin_np(t->id, NULL) == 0)
        t->ended = true;
    return t->ended;
}

/* Under the lock: move the threads that have ended to another list. */
static void take_ended(mf_coordinator *c, thread **ended)
{
    for (thread **at = &c->threads; *at;) {
        thread *t = *at;

        if (coordinator_has_ended(t)) {
            *at = t->next;
            t->next = *ended;
            *ended = t;
        } else {
            at = &t->next;
        }
    }
}

static void coordinator_join_all(thread *list)
{
    while (list) {
        thread *t = list;

        list = t->next;
        if (t->fn) /* it has released everything except its stack */
            pthread_join(t->id, NULL);
        thread_free(t);
    }
}

/* Wait until no thread is left or, after a stop, the time is over. Returns the ended threads. */
static thread *wait_for_all(mf_coordinator *c, int64_t grace_ms)
{
    int64_t until = INT64_MAX;
    thread *ended = NULL;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        if (until == INT64_MAX && atomic_load(&c->stopping))
            until = mf_clock_ns() + grace_ms * 1000000;
        take_ended(c, &ended);
        if (!c->threads || mf_clock_ns() >= until)
            break;
        /* foreign threads end without a signal */
        (void)mf_cond_wait_until(&c->changed, &c->lock, mf_clock_ns() + POLL_MS * 1000000);
    }
    pthread_mutex_unlock(&c->lock);
    return ended;
}

mf_status mf_coordinator_join(mf_coordinator *c, int64_t grace_ms)
{
    MF_ENTRY_SMALL;
    MF_NEED(c);

    mf_buf names = { 0 };
    thread *rest;
    mf_status st;

    coordinator_join_all(wait_for_all(c, grace_ms > 0 ? grace_ms : GRACE_MS));
    pthread_mutex_lock(&c->lock);
    rest = c->threads;
    c->threads = NULL;
    c->joined = true;
    pthread_mutex_unlock(&c->lock);
    for (const thread *t = rest; t; t = t->next)
        mf_buf_printf(&names, "%s%s", t == rest ? "" : ", ", t->name);
    coordinator_let_go(c, rest);
    st = mf_coordinator_failure(c);
    if (st == MF_OK && names.data)
        st = MF_FAIL(MF_DEADLINE_EXCEEDED, "stopped with threads still running: %s", names.data);
    mf_buf_deinit(&names);
    return st;
}
