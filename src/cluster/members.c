/* SPDX-License-Identifier: Apache-2.0 */
/* members.c - see members.h. Keys of the store are in sight.c, but for mark/WHAT. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/sight.h"
#include "comm/waiting.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t USUAL_LEASE_NS = 3000000000, PAUSE_NS = 100000000;

struct mf_members {
    mf_members_options o;
    mf_member self;
    char key[MF_STORE_KEY_MAX]; /* of our registration */
    mf_store *store;
    bool leaving; /* the caller's thread */
    pthread_mutex_t lock; /* of all below */
    int64_t lease; /* another one, when the first has ended */
    pthread_cond_t changed; /* there is another sight */
    mf_sight seen;
    mf_view at_hand;
    bool closing;
    pthread_t thread;
    bool started;
};

/* ---- looking ---- */

/* With the lock held. */
static mf_status check(const mf_members *m)
{
    const mf_view *v = &m->at_hand;

    if (m->seen.view.epoch > v->epoch)
        return MF_FAIL(MF_ABORTED, "epoch %lld has begun", (long long)m->seen.view.epoch);
    for (int i = 0; i < v->n; i++) {
        if (i != v->self && mf_sight_find(&m->seen, &v->members[i]) < 0)
            return MF_FAIL(MF_UNAVAILABLE, "%s at %s is not there any more", v->members[i].name,
                           v->members[i].address);
    }
    return MF_OK;
}

static mf_status look(mf_members *m)
{
    mf_store_entries all = { 0 };
    mf_sight s = { .view.self = -1 };
    mf_status st = mf_store_list(m->store, "", &all);
    bool news = false;

    if (st == MF_OK)
        st = mf_sight_read(&all, &s);
    mf_store_entries_deinit(&all);
    if (st == MF_OK) {
        mf_sight old;

        pthread_mutex_lock(&m->lock);
        old = m->seen;
        m->seen = s;
        s = old;
        news = m->at_hand.epoch > 0 && check(m) != MF_OK;
        pthread_cond_broadcast(&m->changed);
        pthread_mutex_unlock(&m->lock);
    }
    mf_sight_deinit(&s);
    if (news && m->o.news)
        m->o.news(m->o.ctx);
    return st;
}

/* ---- being there ---- */

static int64_t lease_of(mf_members *m)
{
    int64_t lease;

    pthread_mutex_lock(&m->lock);
    lease = m->lease;
    pthread_mutex_unlock(&m->lock);
    return lease;
}

static mf_status put_self(mf_members *m, int64_t expected)
{
    const mf_view one = { .epoch = 1, .members = &m->self, .n = 1 };
    mf_buf text = { 0 };
    mf_status st = mf_view_print(&one, &text);

    if (st == MF_OK)
        st = mf_store_put(m->store, m->key, text.data, text.len, expected, lease_of(m), NULL);
    mf_buf_deinit(&text);
    return st;
}

static mf_status register_self(mf_members *m)
{
    int64_t lease;

    MF_TRY(mf_store_lease_grant(m->store, m->o.lease_ns, &lease));
    pthread_mutex_lock(&m->lock);
    m->lease = lease;
    pthread_mutex_unlock(&m->lock);
    return put_self(m, MF_STORE_NEW);
}

/* Who was it that was first? */
static mf_status name_other(mf_members *m)
{
    mf_store_entry e = { 0 };
    mf_view one = { .self = -1 };
    mf_status st = mf_store_get(m->store, m->key, &e, NULL);

    if (st == MF_OK)
        st = mf_view_parse(e.value, e.size, &one);
    if (st == MF_OK)
        st = MF_FAIL(MF_ALREADY_EXISTS,
                     "there is a %s already, at %s, and it is alive; give this one another index, "
                     "or end that one",
                     m->self.name, one.members[0].address);
    mf_view_deinit(&one);
    mf_store_entry_deinit(&e);
    return st;
}

/* Another process of this name may have died just now: its lease is worth waiting for. */
static mf_status come_in(mf_members *m)
{
    const int64_t until = mf_clock_ns() + 2 * m->o.lease_ns;
    mf_status st = register_self(m);

    while (st == MF_ABORTED && mf_clock_ns() < until) {
        (void)nanosleep(&(struct timespec){ 0, PAUSE_NS / 5 }, NULL);
        st = put_self(m, MF_STORE_NEW);
        if (mf_store_lease_keep(m->store, lease_of(m)) != MF_OK)
            MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    }
    return st == MF_ABORTED ? name_other(m) : st;
}

/* The lease has ended: we were stopped, or cut off, and are taken for dead. */
static void come_back(mf_members *m)
{
    MF_WARN("%s was silent for longer than its lease of %.3g s, so others may have gone on without "
            "it; it comes back",
            m->self.name, (double)m->o.lease_ns * 1e-9);
    if (register_self(m) != MF_OK)
        MF_WARN("%s cannot come back yet: %s", m->self.name, mf_error_message());
}

static void keep(mf_members *m)
{
    const mf_status st = mf_store_lease_keep(m->store, lease_of(m));

    if (st == MF_FAILED_PRECONDITION)
        come_back(m);
    else if (st != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
}

static bool is_closing(mf_members *m)
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

/* A store that does not answer changes nothing for those who train. */
static void *watch(void *arg)
{
    mf_members *m = arg;

    while (!is_closing(m)) {
        mf_status st;

        keep(m);
        st = look(m);
        if (st == MF_OK)
            st = mf_store_wait(m->store, "", revision(m), mf_clock_ns() + m->o.lease_ns / 6);
        if (st != MF_OK && st != MF_DEADLINE_EXCEEDED && st != MF_CANCELLED) {
            MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
            (void)nanosleep(&(struct timespec){ 0, PAUSE_NS }, NULL);
        }
    }
    return NULL;
}

/* ---- views ---- */

/* With the lock held. */
static mf_status adopt(mf_members *m)
{
    mf_view *v = &m->at_hand;

    mf_view_deinit(v);
    v->members = mf_calloc(m->seen.view.n, sizeof *v->members);
    if (!v->members)
        return MF_NOMEM("a view");
    memcpy(v->members, m->seen.view.members, (size_t)m->seen.view.n * sizeof *v->members);
    v->n = m->seen.view.n;
    v->epoch = m->seen.view.epoch;
    v->self = mf_view_find(v, &m->self);
    return MF_OK;
}

static mf_status propose(mf_members *m, const mf_view *v, int64_t expected)
{
    mf_buf text = { 0 };
    mf_status st = mf_view_print(v, &text);

    if (st == MF_OK)
        st = mf_store_put(m->store, "view", text.data, text.len, expected, 0, NULL);
    mf_buf_deinit(&text);
    return st == MF_ABORTED ? MF_OK : st; /* somebody was first: look again */
}

typedef enum turn { WAIT, PROPOSE, ADOPT, LEFT, OVER } turn;

/* With the lock held: what is to be done about what the store has? PROPOSE: this. */
static mf_status decide(mf_members *m, mf_view *next, turn *out, const char **missing)
{
    const mf_sight *s = &m->seen;

    *missing = NULL;
    *out = OVER;
    if (s->over && m->at_hand.epoch == 0)
        return MF_OK;
    *out = WAIT;
    if (mf_sight_find(s, &m->self) < 0) /* the thread sees to that */
        return MF_OK;
    if (s->view.epoch == 0) {
        MF_TRY(mf_sight_first(s, m->o.first, m->o.n_first, next, missing));
        *out = *missing ? WAIT : PROPOSE;
        return MF_OK;
    }
    if (s->view.epoch > m->at_hand.epoch && mf_view_find(&s->view, &m->self) >= 0) {
        *out = ADOPT;
        return MF_OK;
    }
    if (s->view.epoch > m->at_hand.epoch) { /* we are not in it: its members let us in, if any */
        *out = m->leaving ? LEFT : mf_sight_anybody_left(s) ? WAIT : PROPOSE;
        *missing = s->view.members[0].name;
    } else {
        *out = PROPOSE;
    }
    return *out == PROPOSE ? mf_sight_next(s, next) : MF_OK;
}

/* Whom we wait for; the name is ours, for what the store has changes. */
typedef struct entrance {
    mf_waiting waiting;
    char whom[MF_MEMBER_NAME];
} entrance;

/* With the lock held, which is let go. */
static void wait_for(mf_members *m, entrance *e, const char *whom)
{
    (void)snprintf(e->whom, sizeof e->whom, "%s", whom ? whom : "the store");
    e->waiting.whom = e->whom;
    if (e->waiting.stall.since == 0)
        mf_waiting_begin(&e->waiting);
    mf_waiting_look(&e->waiting);
    (void)mf_cond_wait_until(&m->changed, &m->lock, mf_clock_ns() + PAUSE_NS);
}

/* One turn: look, and do what is to be done. *done: the view at hand is the next one. */
static mf_status take_turn(mf_members *m, bool *done, entrance *e)
{
    mf_view next = { .self = -1 };
    const char *missing;
    int64_t version;
    turn what;
    mf_status st;

    MF_TRY(look(m));
    pthread_mutex_lock(&m->lock);
    version = m->seen.view.epoch > 0 ? m->seen.version : MF_STORE_NEW;
    st = decide(m, &next, &what, &missing);
    if (st == MF_OK && what == ADOPT)
        st = adopt(m);
    if (st == MF_OK && what == WAIT)
        wait_for(m, e, missing);
    pthread_mutex_unlock(&m->lock);
    *done = st == MF_OK && what == ADOPT;
    if (st == MF_OK && what == PROPOSE && next.n > 0)
        st = propose(m, &next, version);
    if (st == MF_OK && (what == LEFT || (what == PROPOSE && next.n == 0)))
        st = MF_FAIL(MF_CANCELLED, "%s has left the job", m->self.name);
    if (st == MF_OK && what == OVER)
        st = MF_FAIL(MF_OUT_OF_RANGE, "the job is over: %s is not needed any more", m->self.name);
    mf_view_deinit(&next);
    return st;
}

mf_status mf_members_next(mf_members *m, const mf_view **view)
{
    const int64_t deadline = mf_clock_ns() + m->o.timeout_ns;
    entrance e = { .waiting = { .who = m->self.name, .what = "to be let in", .step = -1 } };
    bool done = false;
    mf_status st = MF_OK;

    while (st == MF_OK && !done) {
        st = take_turn(m, &done, &e);
        if (st == MF_OK && !done && mf_clock_ns() > deadline)
            st = MF_FAIL(MF_DEADLINE_EXCEEDED, "%s waited %.0f s in vain for %s", m->self.name,
                         (double)m->o.timeout_ns * 1e-9, e.whom[0] ? e.whom : "a view of the job");
    }
    mf_waiting_end(&e.waiting, st == MF_OK);
    *view = &m->at_hand;
    return st;
}

mf_status mf_members_check(mf_members *m)
{
    mf_status st;

    pthread_mutex_lock(&m->lock);
    st = check(m);
    pthread_mutex_unlock(&m->lock);
    return st;
}

bool mf_members_wait_for_next(mf_members *m)
{
    bool wait = false;

    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < m->seen.n_here; i++)
        wait |= m->seen.leaves[i] != (mf_view_find(&m->at_hand, &m->seen.here[i]) < 0);
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

/* ---- notes ---- */

mf_status mf_members_leave(mf_members *m)
{
    char key[MF_STORE_KEY_MAX];

    m->leaving = true;
    (void)snprintf(key, sizeof key, "leave/%s", m->key + strlen("task/"));
    return mf_store_put(m->store, key, m->self.id, strlen(m->self.id), MF_STORE_ANY, lease_of(m),
                        NULL);
}

mf_status mf_members_end(mf_members *m)
{
    return mf_store_put(m->store, "over", "", 0, MF_STORE_ANY, 0, NULL);
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

/* ---- opening and closing ---- */

static mf_status name_self(mf_members *m)
{
    if (snprintf(m->self.name, sizeof m->self.name, "%s", m->o.name) >= (int)sizeof m->self.name ||
        snprintf(m->self.address, sizeof m->self.address, "%s", m->o.address) >=
            (int)sizeof m->self.address)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the address %s is too long", m->o.address);
    (void)snprintf(m->self.id, sizeof m->self.id, "%016llx", (unsigned long long)mf_random_seed());
    (void)snprintf(m->key, sizeof m->key, "task/%s", m->self.name);
    for (char *c = m->key; *c; c++)
        *c = *c == ' ' ? '-' : *c;
    return MF_OK;
}

static mf_status open_all(mf_members *m)
{
    MF_TRY(name_self(m));
    MF_TRY(mf_store_open(m->o.store, &(mf_store_options){ .security = m->o.security }, &m->store));
    MF_TRY(come_in(m));
    MF_TRY(look(m));
    if (pthread_create(&m->thread, NULL, watch, m) != 0)
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
    st = open_all(m);
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
    if (m->lease != 0 && mf_store_lease_end(m->store, m->lease) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    if (m->store)
        mf_store_close(m->store);
    mf_sight_deinit(&m->seen);
    mf_view_deinit(&m->at_hand);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    mf_free(m);
}
