/* SPDX-License-Identifier: Apache-2.0 */
/* membership_next_view.c - the next view: the first task to propose one wins, all tasks follow.
 * Suspicions decide which members it has. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/mem.h"
#include "cluster/membership/membership_private.h"
#include "observe/wait_report.h"

#include <stdio.h>
#include <string.h>

static const int64_t PAUSE_NS = 100000000;
static const int64_t LONGEST_EXCLUSION_NS = 60000000000; /* the longest time that suspicion excludes
                                                      a task */

/* ---- views ---- */

/* With the lock held. */
static mf_status membership_next_view_adopt(mf_members *m)
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
    return st == MF_ABORTED ? MF_OK : st; /* another task was first: read again */
}

typedef enum turn { WAIT, PROPOSE, ADOPT, LEFT, OVER } turn;

/* The current view lacks this task. */
static bool membership_next_view_is_outside(const mf_members *m)
{
    return m->at_hand.epoch == 0 ||
           (m->seen.view.epoch > m->at_hand.epoch && mf_view_find(&m->seen.view, &m->self) < 0);
}

/* With the lock held: what to do, given what the store has? PROPOSE: *next. */
static mf_status membership_next_view_decide(mf_members *m, mf_view *next, turn *out,
                                             const char **missing)
{
    const mf_membership_snapshot *s = &m->seen;

    *missing = NULL;
    *out = m->leaving && m->at_hand.epoch > 0 ? LEFT : OVER;
    if (s->over && membership_next_view_is_outside(m)) /* no task joins any more */
        return MF_OK;
    *out = WAIT;
    if (mf_membership_snapshot_find(s, &m->self) < 0) /* the thread sees to that */
        return MF_OK;
    if (s->view.epoch == 0) {
        MF_TRY(mf_membership_snapshot_first(s, m->o.first, m->o.n_first, next, missing));
        *out = *missing ? WAIT : PROPOSE;
        return MF_OK;
    }
    if (s->view.epoch > m->at_hand.epoch && mf_view_find(&s->view, &m->self) >= 0) {
        *out = ADOPT;
        return MF_OK;
    }
    if (s->view.epoch > m->at_hand.epoch) { /* not a member: live members add this task */
        *out = m->leaving ? LEFT : mf_membership_snapshot_anybody_left(s) ? WAIT : PROPOSE;
        *missing = s->view.members[0].name;
    } else {
        *out = PROPOSE;
    }
    return *out == PROPOSE ? mf_membership_snapshot_next(s, next) : MF_OK;
}

/* The task that is waited for; the name is a copy, because the snapshot changes. */
typedef struct join_wait {
    mf_wait_report waiting;
    char whom[MF_MEMBER_NAME];
} join_wait;

/* With the lock held, which is released while waiting. why: details, or NULL. */
static void membership_next_view_wait_for(mf_members *m, join_wait *e, const char *whom,
                                          const char *why)
{
    (void)snprintf(e->whom, sizeof e->whom, "%s", whom ? whom : "the store");
    e->waiting.where = whom ? NULL : m->o.store;
    e->waiting.whom = e->whom;
    e->waiting.why = why;
    if (e->waiting.stall.since == 0)
        mf_wait_report_begin(&e->waiting);
    mf_wait_report_check(&e->waiting);
    (void)mf_cond_wait_until(&m->changed, &m->lock, mf_clock_ns() + PAUSE_NS);
}

/* ---- doubts ---- */

mf_status mf_members_suspect(mf_members *m, int member)
{
    char key[MF_STORE_KEY_MAX], ids[2 * MF_MEMBER_ID];
    mf_member it;

    pthread_mutex_lock(&m->lock);
    it = m->at_hand.members[member];
    pthread_mutex_unlock(&m->lock);
    mf_members_key(key, "doubt", &m->self, &it);
    (void)snprintf(ids, sizeof ids, "%s %s", m->self.id, it.id);
    return mf_store_put(m->store, key, ids, strlen(ids), MF_STORE_ANY, 0, NULL);
}

/* This task's, and those against it. */
static mf_status clear_suspicions(mf_members *m)
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

static void begin_exclusion(mf_members *m, int64_t now)
{
    const bool anew = now - m->adopted_at > LONGEST_EXCLUSION_NS;
    const int64_t longer = anew ? m->o.lease_ns : 2 * m->excluded_ns;

    m->excluded_at = now;
    m->excluded_ns = longer < LONGEST_EXCLUSION_NS ? longer : LONGEST_EXCLUSION_NS;
    if (m->excluded_ns == 0)
        m->excluded_ns = m->o.lease_ns;
    if (m->o.excluded)
        m->o.excluded(m->o.ctx, m->excluded_ns);
}

/* Others continue without this task. If suspicion excludes it, it rejoins after a while. */
static mf_status rejoin_when_due(mf_members *m)
{
    const int64_t now = mf_clock_ns();
    bool suspected;

    pthread_mutex_lock(&m->lock);
    suspected = mf_membership_snapshot_is_suspected(&m->seen, &m->self, &m->seen.view);
    pthread_mutex_unlock(&m->lock);
    if (!suspected) {
        m->excluded_at = 0;
        return MF_OK;
    }
    if (m->excluded_at == 0)
        begin_exclusion(m, now);
    return now < m->excluded_at + m->excluded_ns ? MF_OK : clear_suspicions(m);
}

/* ---- turns ---- */

/* A task that cannot reach the store cannot know which members continue: it waits. */
static mf_status look_or_wait(mf_members *m, join_wait *e, bool *seen)
{
    const mf_status st = mf_members_look(m);

    *seen = st == MF_OK;
    if (st != MF_UNAVAILABLE && st != MF_DEADLINE_EXCEEDED)
        return st;
    pthread_mutex_lock(&m->lock);
    membership_next_view_wait_for(m, e, NULL, mf_error_message());
    pthread_mutex_unlock(&m->lock);
    return MF_OK;
}

/* Read the store and act once. *done: the current view is the next one. */
static mf_status take_turn(mf_members *m, bool *done, join_wait *e)
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
    st = membership_next_view_decide(m, &next, &what, &missing);
    if (st == MF_OK && what == ADOPT)
        st = membership_next_view_adopt(m);
    if (st == MF_OK && what == WAIT)
        membership_next_view_wait_for(m, e, missing, NULL);
    pthread_mutex_unlock(&m->lock);
    *done = st == MF_OK && what == ADOPT;
    if (*done)
        m->adopted_at = mf_clock_ns();
    if (st == MF_OK && what == WAIT)
        st = rejoin_when_due(m);
    if (st == MF_OK && what == PROPOSE && next.n > 0)
        st = propose(m, &next, version);
    if (st == MF_OK && (what == LEFT || (what == PROPOSE && next.n == 0)))
        st = MF_FAIL(MF_CANCELLED, "%s has left the job", m->self.name);
    if (st == MF_OK && what == OVER)
        st = MF_FAIL(MF_OUT_OF_RANGE, "the job %s: %s is not needed any more",
                     mf_members_were_stopped(m) ? "was stopped" : "is over", m->self.name);
    mf_view_deinit(&next);
    return st;
}

mf_status mf_members_check_stop(mf_members *m, const char *meanwhile)
{
    const int64_t now = mf_clock_ns();

    if (!m->o.stops || !m->o.stops(m->o.ctx))
        return MF_OK;
    m->stopped_at = m->stopped_at > 0 ? m->stopped_at : now;
    if (now < m->stopped_at + m->o.lease_ns)
        return MF_OK;
    return MF_FAIL(MF_CANCELLED, "%s was asked to end while %s", m->self.name, meanwhile);
}

mf_status mf_members_next(mf_members *m, const mf_view **view)
{
    const int64_t deadline = mf_clock_ns() + m->o.timeout_ns;
    join_wait e = { .waiting = { .who = m->self.name, .what = "to join", .step = -1 } };
    const char *where;
    bool done = false;
    mf_status st = MF_OK;

    while (st == MF_OK && !done) {
        st = take_turn(m, &done, &e);
        if (st == MF_OK && !done)
            st = mf_members_check_stop(m, "it waited to join");
        where = e.waiting.where;
        if (st == MF_OK && !done && mf_clock_ns() > deadline)
            st = MF_FAIL(m->at_hand.epoch == 0 ? MF_FAILED_PRECONDITION : MF_DEADLINE_EXCEEDED,
                         "%s waited %.0f s without success for %s%s%s", m->self.name,
                         (double)m->o.timeout_ns * 1e-9, e.whom[0] ? e.whom : "a view of the job",
                         where ? " " : "", where ? where : "");
    }
    mf_wait_report_end(&e.waiting, st == MF_OK);
    *view = &m->at_hand;
    return st;
}
