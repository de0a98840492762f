/* SPDX-License-Identifier: Apache-2.0 */
/* members.c - see members.h. Keys of the store are in sight.c, but for mark/WHAT. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/presence.h"
#include "cluster/sight.h"
#include "comm/waiting.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t USUAL_LEASE_NS = 3000000000, PAUSE_NS = 100000000;
static const int64_t LONGEST_OUT_NS = 60000000000; /* for which doubts keep somebody out */

struct mf_members {
    mf_members_options o;
    mf_member self;
    mf_store *store;
    mf_presence presence; /* the thread's, while there is one */
    bool leaving; /* the caller's thread, as are the three below */
    int64_t adopted_at; /* the view at hand; 0: none */
    int64_t left_out_at; /* because of doubts; 0: we are not */
    int64_t left_out_ns; /* for how long, the last time */
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed; /* there is another sight */
    mf_sight seen;
    int64_t seen_at; /* when; 0: never */
    int64_t lost_from; /* nobody is taken for lost before */
    mf_view at_hand;
    bool closing;
    pthread_t thread;
    bool started;
};

/* ---- looking ---- */

/* With the lock held. */
static bool is_lost(const mf_members *m, int i)
{
    const mf_view *v = &m->at_hand;

    return i != v->self && mf_sight_find(&m->seen, &v->members[i]) < 0 &&
           mf_clock_ns() >= m->lost_from;
}

/* With the lock held. */
static mf_status check(const mf_members *m)
{
    const mf_view *v = &m->at_hand;

    if (m->seen.view.epoch > v->epoch)
        return MF_FAIL(MF_ABORTED, "epoch %lld has begun", (long long)m->seen.view.epoch);
    for (int i = 0; i < v->n; i++) {
        if (is_lost(m, i))
            return MF_FAIL(MF_UNAVAILABLE, "%s at %s is not there any more", v->members[i].name,
                           v->members[i].address);
    }
    return MF_OK;
}

/* With the lock held: something was seen. Who has not looked for long does not know who is to blame. */
static void note_time(mf_members *m)
{
    const int64_t now = mf_clock_ns();
    const int64_t grace =
        m->seen_at > 0 ? mf_patience_grace(m->o.lease_ns, now - m->seen_at) : 0;

    m->seen_at = now;
    if (grace > 0)
        m->lost_from = now + grace;
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
        note_time(m);
        news = m->at_hand.epoch > 0 && check(m) != MF_OK;
        pthread_cond_broadcast(&m->changed);
        pthread_mutex_unlock(&m->lock);
    }
    mf_sight_deinit(&s);
    if (news && m->o.news)
        m->o.news(m->o.ctx);
    return st;
}

/* ---- the thread ---- */

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

        mf_presence_keep(&m->presence);
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

/* With the lock held, which is let go. why: more on it, or NULL. */
static void wait_for(mf_members *m, entrance *e, const char *whom, const char *why)
{
    (void)snprintf(e->whom, sizeof e->whom, "%s", whom ? whom : "the store");
    e->waiting.whom = e->whom;
    e->waiting.why = why;
    if (e->waiting.stall.since == 0)
        mf_waiting_begin(&e->waiting);
    mf_waiting_look(&e->waiting);
    (void)mf_cond_wait_until(&m->changed, &m->lock, mf_clock_ns() + PAUSE_NS);
}

/* ---- doubts ---- */

static void name_key(char key[MF_STORE_KEY_MAX], const char *what, const mf_member *a,
                     const mf_member *b)
{
    (void)snprintf(key, MF_STORE_KEY_MAX, "%s/%s%s%s", what, a->name, b ? "/" : "",
                   b ? b->name : "");
    for (char *c = key; *c; c++)
        *c = *c == ' ' ? '-' : *c;
}

mf_status mf_members_doubt(mf_members *m, int member)
{
    char key[MF_STORE_KEY_MAX], ids[2 * MF_MEMBER_ID];
    mf_member it;

    pthread_mutex_lock(&m->lock);
    it = m->at_hand.members[member];
    pthread_mutex_unlock(&m->lock);
    name_key(key, "doubt", &m->self, &it);
    (void)snprintf(ids, sizeof ids, "%s %s", m->self.id, it.id);
    return mf_store_put(m->store, key, ids, strlen(ids), MF_STORE_ANY, 0, NULL);
}

/* Ours, and others' in us. */
static mf_status forget_doubts(mf_members *m)
{
    mf_store_entries all;
    mf_status st = mf_store_list(m->store, "doubt/", &all);

    for (int i = 0; st == MF_OK && i < all.n; i++) {
        if (memmem(all.entries[i].value, all.entries[i].size, m->self.id, strlen(m->self.id)))
            st = mf_store_remove(m->store, all.entries[i].key, MF_STORE_ANY);
        if (st == MF_NOT_FOUND)
            st = MF_OK;
    }
    mf_store_entries_deinit(&all);
    return st;
}

static void begin_left_out(mf_members *m, int64_t now)
{
    const bool anew = now - m->adopted_at > LONGEST_OUT_NS;
    const int64_t longer = anew ? m->o.lease_ns : 2 * m->left_out_ns;

    m->left_out_at = now;
    m->left_out_ns = longer < LONGEST_OUT_NS ? longer : LONGEST_OUT_NS;
    if (m->left_out_ns == 0)
        m->left_out_ns = m->o.lease_ns;
    MF_WARN("%s is left out: it and others were there, but could not meet; it comes again in %.3g s",
            m->self.name, (double)m->left_out_ns * 1e-9);
}

/* The others go on without us. If doubts keep us out, we come again after a while. */
static mf_status come_again(mf_members *m)
{
    const int64_t now = mf_clock_ns();
    bool doubted;

    pthread_mutex_lock(&m->lock);
    doubted = mf_sight_is_doubted(&m->seen, &m->self, &m->seen.view);
    pthread_mutex_unlock(&m->lock);
    if (!doubted) {
        m->left_out_at = 0;
        return MF_OK;
    }
    if (m->left_out_at == 0)
        begin_left_out(m, now);
    return now < m->left_out_at + m->left_out_ns ? MF_OK : forget_doubts(m);
}

/* ---- turns ---- */

/* Whoever is cut off from the store cannot know who goes on: it waits. */
static mf_status look_or_wait(mf_members *m, entrance *e, bool *seen)
{
    const mf_status st = look(m);

    *seen = st == MF_OK;
    if (st != MF_UNAVAILABLE && st != MF_DEADLINE_EXCEEDED)
        return st;
    pthread_mutex_lock(&m->lock);
    wait_for(m, e, NULL, mf_error_message());
    pthread_mutex_unlock(&m->lock);
    return MF_OK;
}

/* One turn: look, and do what is to be done. *done: the view at hand is the next one. */
static mf_status take_turn(mf_members *m, bool *done, entrance *e)
{
    mf_view next = { .self = -1 };
    const char *missing;
    int64_t version;
    bool seen;
    turn what;
    mf_status st;

    MF_TRY(look_or_wait(m, e, &seen));
    if (!seen)
        return MF_OK;
    pthread_mutex_lock(&m->lock);
    version = m->seen.view.epoch > 0 ? m->seen.version : MF_STORE_NEW;
    st = decide(m, &next, &what, &missing);
    if (st == MF_OK && what == ADOPT)
        st = adopt(m);
    if (st == MF_OK && what == WAIT)
        wait_for(m, e, missing, NULL);
    pthread_mutex_unlock(&m->lock);
    *done = st == MF_OK && what == ADOPT;
    if (*done)
        m->adopted_at = mf_clock_ns();
    if (st == MF_OK && what == WAIT)
        st = come_again(m);
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

mf_status mf_members_look(mf_members *m)
{
    return look(m);
}

mf_status mf_members_check(mf_members *m)
{
    mf_status st;

    pthread_mutex_lock(&m->lock);
    st = check(m);
    pthread_mutex_unlock(&m->lock);
    return st;
}

/* With the lock held: does the i-th who is there wait to be let in? Leaving, it may as well. */
static bool is_outside(const mf_members *m, int i)
{
    const mf_member *it = &m->seen.here[i];

    return mf_view_find(&m->at_hand, it) < 0 &&
           (m->seen.leaves[i] || !mf_sight_is_doubted(&m->seen, it, &m->at_hand));
}

bool mf_members_is_lost(mf_members *m, int member)
{
    bool lost;

    pthread_mutex_lock(&m->lock);
    lost = is_lost(m, member);
    pthread_mutex_unlock(&m->lock);
    return lost;
}

bool mf_members_wait_for_next(mf_members *m)
{
    bool wait = false;

    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < m->seen.n_here; i++)
        wait |= m->seen.leaves[i] != is_outside(m, i);
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
    name_key(key, "leave", &m->self, NULL);
    return mf_store_put(m->store, key, m->self.id, strlen(m->self.id), MF_STORE_ANY, 0, NULL);
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
    return MF_OK;
}

static mf_status open_all(mf_members *m)
{
    MF_TRY(name_self(m));
    MF_TRY(mf_store_open(m->o.store, &(mf_store_options){ .security = m->o.security }, &m->store));
    MF_TRY(mf_presence_begin(&m->presence, m->store, &m->self, m->o.lease_ns));
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
    if (m->presence.lease != 0)
        mf_presence_end(&m->presence);
    if (m->store)
        mf_store_close(m->store);
    mf_sight_deinit(&m->seen);
    mf_view_deinit(&m->at_hand);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    mf_free(m);
}
