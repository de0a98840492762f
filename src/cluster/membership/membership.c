/* SPDX-License-Identifier: Apache-2.0 */
/* membership.c - membership of a job: registration, heartbeats, suspects, the view of each epoch.
 * membership_snapshot.c lists the keys of the store, except mark/WHAT. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cluster/membership/membership_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t USUAL_LEASE_NS = 3000000000, PAUSE_NS = 100000000;

enum { GONE = 3 }; /* after so many reads in a row without a store: it was removed */

/* ---- looking ---- */

/* With the lock held. */
static bool membership_is_lost(const mf_members *m, int i)
{
    const mf_view *v = &m->at_hand;

    return i != v->self && mf_membership_snapshot_find(&m->seen, &v->members[i]) < 0 &&
           mf_clock_ns() >= m->lost_from;
}

/* With the lock held. */
static mf_status membership_check(const mf_members *m)
{
    const mf_view *v = &m->at_hand;

    if (m->gone >= GONE)
        return mf_error_restore(&m->why_gone);
    if (m->seen.view.epoch > v->epoch)
        return MF_FAIL(MF_ABORTED, "epoch %lld has begun", (long long)m->seen.view.epoch);
    for (int i = 0; i < v->n; i++) {
        if (membership_is_lost(m, i))
            return MF_FAIL(MF_UNAVAILABLE, "%s at %s is not there any more", v->members[i].name,
                           v->members[i].address);
    }
    return MF_OK;
}

/* With the lock held: the store was read. A task that has not read it for long cannot tell which
 * task is lost. */
static void note_time(mf_members *m)
{
    const int64_t now = mf_clock_ns();
    const int64_t grace =
        m->seen_at > 0 ? mf_adaptive_timeout_grace(m->o.lease_ns, now - m->seen_at) : 0;

    m->seen_at = now;
    if (grace > 0)
        m->lost_from = now + grace;
}

mf_status mf_members_look(mf_members *m)
{
    mf_store_entries all = { 0 };
    mf_membership_snapshot s = { .view.self = -1 };
    mf_status st = mf_store_list(m->store, "", &all);
    bool news = false;

    if (st == MF_OK)
        st = mf_membership_snapshot_read(&all, &s);
    mf_store_entries_deinit(&all);
    if (st == MF_OK) {
        mf_membership_snapshot old;

        pthread_mutex_lock(&m->lock);
        old = m->seen;
        m->seen = s;
        s = old;
        note_time(m);
        news = m->at_hand.epoch > 0 && membership_check(m) != MF_OK;
        pthread_cond_broadcast(&m->changed);
        pthread_mutex_unlock(&m->lock);
    }
    mf_membership_snapshot_deinit(&s);
    if (news && m->o.news)
        m->o.news(m->o.ctx);
    return st;
}

/* ---- the thread ---- */

static bool membership_is_closing(mf_members *m)
{
    bool closing;

    pthread_mutex_lock(&m->lock);
    closing = m->closing;
    pthread_mutex_unlock(&m->lock);
    return closing;
}

static int64_t revision(mf_members *m)
{
    int64_t r;

    pthread_mutex_lock(&m->lock);
    r = m->seen.revision;
    pthread_mutex_unlock(&m->lock);
    return r;
}

/* A removed store does not return, and without it no task sees losses: all tasks end instead of
 * waiting for each other. */
static void membership_note_gone(mf_members *m, mf_status st)
{
    bool news;

    pthread_mutex_lock(&m->lock);
    m->gone = st == MF_DATA_LOSS ? m->gone + 1 : 0;
    news = m->gone == GONE;
    if (news)
        mf_error_save(st, &m->why_gone);
    pthread_mutex_unlock(&m->lock);
    if (news && m->o.news)
        m->o.news(m->o.ctx);
}

/* A store that does not answer does not stop training. */
static void *membership_watch(void *arg)
{
    mf_members *m = arg;

    while (!membership_is_closing(m)) {
        mf_status st;

        mf_heartbeat_keep(&m->presence);
        st = mf_members_look(m);
        membership_note_gone(m, st);
        if (st == MF_OK)
            st = mf_store_wait(m->store, "", revision(m), mf_clock_ns() + m->o.lease_ns / 6);
        if (st != MF_OK && st != MF_DEADLINE_EXCEEDED && st != MF_CANCELLED) {
            MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
            (void)nanosleep(&(struct timespec){ 0, PAUSE_NS }, NULL);
        }
    }
    return NULL;
}

/* ---- asking ---- */

mf_status mf_members_check(mf_members *m)
{
    mf_status st;

    pthread_mutex_lock(&m->lock);
    st = membership_check(m);
    pthread_mutex_unlock(&m->lock);
    return st;
}

/* With the lock held: does the i-th registered task wait to join? A leaving task may be outside,
 * too. */
static bool membership_is_outside(const mf_members *m, int i)
{
    const mf_member *it = &m->seen.here[i];

    return mf_view_find(&m->at_hand, it) < 0 &&
           (m->seen.leaves[i] || !mf_membership_snapshot_is_suspected(&m->seen, it, &m->at_hand));
}

bool mf_members_is_lost(mf_members *m, int member)
{
    bool lost;

    pthread_mutex_lock(&m->lock);
    lost = membership_is_lost(m, member);
    pthread_mutex_unlock(&m->lock);
    return lost;
}

bool mf_members_wait_for_next(mf_members *m)
{
    bool wait = false;

    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < m->seen.n_here; i++)
        wait |= m->seen.leaves[i] != membership_is_outside(m, i);
    wait &= !m->seen.over;
    pthread_mutex_unlock(&m->lock);
    return wait;
}

bool mf_members_are_done(mf_members *m)
{
    bool over;

    pthread_mutex_lock(&m->lock);
    over = m->seen.over;
    pthread_mutex_unlock(&m->lock);
    return over;
}

bool mf_members_were_stopped(mf_members *m)
{
    bool stopped;

    pthread_mutex_lock(&m->lock);
    stopped = m->seen.stopped;
    pthread_mutex_unlock(&m->lock);
    return stopped;
}

/* ---- notes ---- */

void mf_members_key(char key[MF_STORE_KEY_MAX], const char *what, const mf_member *a,
                    const mf_member *b)
{
    (void)snprintf(key, MF_STORE_KEY_MAX, "%s/%s%s%s", what, a->name, b ? "/" : "",
                   b ? b->name : "");
    for (char *c = key; *c; c++)
        *c = *c == ' ' ? '-' : *c;
}

mf_status mf_members_leave(mf_members *m)
{
    char key[MF_STORE_KEY_MAX];

    m->leaving = true;
    mf_members_key(key, "leave", &m->self, NULL);
    return mf_store_put(m->store, key, m->self.id, strlen(m->self.id), MF_STORE_ANY, 0, NULL);
}

mf_status mf_members_end(mf_members *m, bool stopped)
{
    const char *how = stopped ? MF_STOPPED : "";

    return mf_store_put(m->store, "over", how, strlen(how), MF_STORE_ANY, 0, NULL);
}

mf_status mf_members_mark(mf_members *m, const char *what)
{
    char key[MF_STORE_KEY_MAX];

    (void)snprintf(key, sizeof key, "mark/%s", what);
    return mf_store_put(m->store, key, "", 0, MF_STORE_ANY, 0, NULL);
}

mf_status mf_members_marked(mf_members *m, const char *what, bool *out)
{
    mf_store_entry e = { 0 };
    char key[MF_STORE_KEY_MAX];
    mf_status st;

    (void)snprintf(key, sizeof key, "mark/%s", what);
    st = mf_store_get(m->store, key, &e, NULL);
    mf_store_entry_deinit(&e);
    *out = st == MF_OK;
    return st == MF_NOT_FOUND ? MF_OK : st;
}

mf_status mf_members_agree(mf_members *m, const char *what, char *text, size_t size)
{
    mf_store_entry e = { 0 };
    char key[MF_STORE_KEY_MAX];
    mf_status st;

    (void)snprintf(key, sizeof key, "mark/%s", what);
    st = mf_store_put(m->store, key, text, strlen(text), MF_STORE_NEW, 0, NULL);
    if (st != MF_ABORTED) /* the key exists already */
        return st;
    MF_TRY(mf_store_get(m->store, key, &e, NULL));
    (void)snprintf(text, size, "%.*s", (int)e.size, e.value);
    mf_store_entry_deinit(&e);
    return MF_OK;
}

mf_status mf_members_agreed(mf_members *m, const char *what, char **text)
{
    mf_store_entry e = { 0 };
    char key[MF_STORE_KEY_MAX];
    mf_status st;

    *text = NULL;
    (void)snprintf(key, sizeof key, "mark/%s", what);
    st = mf_store_get(m->store, key, &e, NULL);
    if (st == MF_OK)
        *text = mf_strndup(e.value, e.size);
    mf_store_entry_deinit(&e);
    if (st == MF_OK && !*text)
        return MF_NOMEM("a note");
    return st == MF_NOT_FOUND ? MF_OK : st;
}

/* ---- opening and closing ---- */

static mf_status name_self(mf_members *m)
{
    if (snprintf(m->self.name, sizeof m->self.name, "%s", m->o.name) >= (int)sizeof m->self.name ||
        snprintf(m->self.address, sizeof m->self.address, "%s", m->o.address) >=
            (int)sizeof m->self.address)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the address %s is too long", m->o.address);
    (void)snprintf(m->self.id, sizeof m->self.id, "%016llx", (unsigned long long)mf_random_seed());
    return MF_OK;
}

/* With UNAVAILABLE the caller would try again without end. */
static mf_status await_store(mf_members *m)
{
    const mf_members_options *o = &m->o;
    const mf_status st = mf_store_await(&(mf_store_wanted){ .url = o->store,
                                                            .security = o->security,
                                                            .who = m->self.name,
                                                            .timeout_ns = o->timeout_ns,
                                                            .stops = o->stops,
                                                            .ctx = o->ctx });

    return st == MF_UNAVAILABLE ? mf_error_wrap(MF_FAILED_PRECONDITION, "", "") : st;
}

static mf_status membership_open_all(mf_members *m)
{
    MF_TRY(name_self(m));
    MF_TRY(await_store(m));
    MF_TRY(mf_store_open(m->o.store, &(mf_store_options){ .security = m->o.security }, &m->store));
    MF_TRY(mf_heartbeat_begin(&m->presence, m->store, &m->self, m->o.lease_ns));
    MF_TRY(mf_members_look(m));
    if (mf_thread_start(&m->thread, membership_watch, m) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no more threads");
    m->started = true;
    return MF_OK;
}

mf_status mf_members_open(const mf_members_options *o, mf_members **out)
{
    mf_members *m = mf_calloc(1, sizeof *m);
    mf_status st;

    *out = NULL;
    if (!m)
        return MF_NOMEM("members");
    m->o = *o;
    m->o.lease_ns = o->lease_ns > 0 ? o->lease_ns : USUAL_LEASE_NS;
    m->seen.view.self = m->at_hand.self = -1;
    pthread_mutex_init(&m->lock, NULL);
    mf_cond_init(&m->changed);
    st = membership_open_all(m);
    if (st != MF_OK) {
        mf_error why;

        mf_error_save(st, &why);
        mf_members_close(m);
        return mf_error_restore(&why);
    }
    *out = m;
    return MF_OK;
}

void mf_members_close(mf_members *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->closing = true;
    pthread_mutex_unlock(&m->lock);
    if (m->store)
        mf_store_cancel(m->store);
    if (m->started)
        pthread_join(m->thread, NULL);
    if (m->presence.lease != 0)
        mf_heartbeat_end(&m->presence);
    if (m->store)
        mf_store_close(m->store);
    mf_membership_snapshot_deinit(&m->seen);
    mf_view_deinit(&m->at_hand);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    mf_free(m);
}
