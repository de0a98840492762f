/* SPDX-License-Identifier: Apache-2.0 */
/* heartbeat.c - registers a task in the store, and renews its lease. */
#include "cluster/membership/heartbeat.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const int64_t PAUSE_NS = 20000000;

enum { RENEWALS = 10 }; /* of a lease that ends before the entry is written */

/* ---- the entry ---- */

/* The text of a view of one. */
static mf_status heartbeat_put(mf_heartbeat *p, int64_t lease, int64_t length_ns, int64_t expected)
{
    mf_member self = *p->self;
    const mf_view one = { .epoch = 1, .members = &self, .n = 1 };
    mf_buf text = { 0 };
    mf_status st;

    self.lease_ns = length_ns;
    st = mf_view_print(&one, &text);
    if (st == MF_OK)
        st = mf_store_put(p->store, p->key, text.data, text.len, expected, lease, &p->version);
    mf_buf_deinit(&text);
    p->unsure = st != MF_OK;
    return st;
}

static mf_status grant(mf_heartbeat *p, int64_t *lease, int64_t *length_ns)
{
    const int64_t began = mf_clock_ns();

    *length_ns = mf_adaptive_timeout_length(&p->patience, began);
    MF_TRY(mf_store_lease_grant(p->store, *length_ns, lease));
    mf_adaptive_timeout_kept(&p->patience, began, mf_clock_ns());
    return MF_OK;
}

static void heartbeat_end_lease(mf_heartbeat *p, int64_t lease)
{
    if (lease != 0 && mf_store_lease_end(p->store, lease) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
}

static mf_status heartbeat_enter(mf_heartbeat *p)
{
    if (p->lease == 0)
        MF_TRY(grant(p, &p->lease, &p->length_ns));
    return heartbeat_put(p, p->lease, p->length_ns, MF_STORE_NEW);
}

/* The store's entry under this name (of this process or another), its lease and its version. */
static mf_status heartbeat_find(mf_heartbeat *p, mf_member *who, mf_store_entry *entry)
{
    mf_view one = { .self = -1 };

    MF_TRY(mf_store_get(p->store, p->key, entry, NULL));
    MF_TRY(mf_view_parse(entry->value, entry->size, &one));
    *who = one.members[0];
    mf_view_deinit(&one);
    return MF_OK;
}

/* ---- beginning ---- */

/* A short pause. Since then another process holds this name. */
static mf_status wait_for_other(mf_heartbeat *p, int64_t since)
{
    mf_store_entry e = { 0 };
    mf_member other;
    mf_status st = heartbeat_find(p, &other, &e);

    mf_store_entry_deinit(&e);
    if (st == MF_OK && mf_clock_ns() > since + 2 * other.lease_ns)
        return MF_FAIL(MF_ALREADY_EXISTS,
                       "%s exists already, at %s, and is alive; give this task another index, or "
                       "end that one",
                       p->self->name, other.address);
    if (st == MF_NOT_FOUND)
        return MF_OK;
    MF_TRY(st);
    (void)nanosleep(&(struct timespec){ 0, PAUSE_NS }, NULL);
    mf_adaptive_timeout_kept(&p->patience, mf_clock_ns(), mf_clock_ns());
    return mf_store_lease_keep(p->store, p->lease);
}

/* The machine was too busy to use the lease in time: the next one is longer. */
static void drop_ended_lease(mf_heartbeat *p)
{
    mf_adaptive_timeout_ended(&p->patience, p->length_ns, mf_clock_ns());
    p->lease = 0;
}

static mf_status enter_again(mf_heartbeat *p, mf_status why, int64_t since)
{
    if (why == MF_ABORTED)
        MF_TRY(wait_for_other(p, since));
    else
        drop_ended_lease(p);
    return heartbeat_enter(p);
}

mf_status mf_heartbeat_begin(mf_heartbeat *p, mf_store *store, const mf_member *self,
                             int64_t usual_ns)
{
    const int64_t since = mf_clock_ns();
    int renewals = 0;
    mf_status st;

    *p = (mf_heartbeat){ .store = store, .self = self };
    mf_adaptive_timeout_init(&p->patience, usual_ns, since);
    (void)snprintf(p->key, sizeof p->key, "task/%s", self->name);
    for (char *c = p->key; *c; c++)
        *c = *c == ' ' ? '-' : *c;
    st = heartbeat_enter(p);
    while (st == MF_ABORTED || (st == MF_FAILED_PRECONDITION && renewals++ < RENEWALS))
        st = enter_again(p, st, since);
    if (st == MF_OK)
        return MF_OK;
    mf_error why;

    mf_error_save(st, &why);
    mf_heartbeat_end(p);
    return mf_error_restore(&why);
}

void mf_heartbeat_end(mf_heartbeat *p)
{
    heartbeat_end_lease(p, p->lease);
    p->lease = 0;
}

/* ---- keeping ---- */

/* This task was stopped or cut off, and others consider it lost. */
static void come_back(mf_heartbeat *p)
{
    if (p->lease != 0) {
        MF_WARN("%s was silent for longer than its lease of %.3g s, so others may have continued "
                "without it; it rejoins",
                p->self->name, (double)p->length_ns * 1e-9);
        mf_adaptive_timeout_ended(&p->patience, p->length_ns, mf_clock_ns());
    }
    p->lease = 0;
    if (heartbeat_enter(p) != MF_OK)
        MF_WARN("%s cannot rejoin yet: %s", p->self->name, mf_error_message());
}

/* Move the entry to another lease without removing it. */
static mf_status heartbeat_replace(mf_heartbeat *p)
{
    int64_t lease, length_ns;

    MF_TRY(grant(p, &lease, &length_ns));
    MF_TRY(heartbeat_put(p, lease, length_ns, p->version)); /* an unused new lease expires */
    MF_INFO("%s holds a lease of %.3g s from now on, instead of %.3g s: renewals were up to %.3g "
            "s late",
            p->self->name, (double)length_ns * 1e-9, (double)p->length_ns * 1e-9,
            (double)mf_adaptive_timeout_gap(&p->patience) * 1e-9);
    heartbeat_end_lease(p, p->lease);
    p->lease = lease;
    p->length_ns = length_ns;
    return MF_OK;
}

/* The store did not report the result of the last put: read the entry. */
static mf_status make_sure(mf_heartbeat *p)
{
    mf_store_entry e = { 0 };
    mf_member who;
    mf_status st = heartbeat_find(p, &who, &e);

    if (st == MF_NOT_FOUND) {
        st = heartbeat_enter(p);
    } else if (st == MF_OK && strcmp(who.id, p->self->id) == 0) {
        p->lease = e.lease;
        p->length_ns = who.lease_ns;
        p->version = e.version;
        p->unsure = false;
    } else if (st == MF_OK) {
        st = MF_FAIL(MF_ABORTED, "another %s exists now, at %s", p->self->name, who.address);
    }
    mf_store_entry_deinit(&e);
    return st;
}

static mf_status heartbeat_keep(mf_heartbeat *p)
{
    if (p->unsure)
        MF_TRY(make_sure(p));
    return p->lease != 0 ? mf_store_lease_keep(p->store, p->lease) : MF_FAILED_PRECONDITION;
}

void mf_heartbeat_keep(mf_heartbeat *p)
{
    const int64_t began = mf_clock_ns();
    mf_status st = heartbeat_keep(p);

    if (st == MF_FAILED_PRECONDITION) {
        come_back(p);
        return;
    }
    if (st == MF_OK) {
        const int64_t now = mf_clock_ns();

        mf_adaptive_timeout_kept(&p->patience, began, now);
        if (mf_adaptive_timeout_is_unfit(&p->patience, p->length_ns, now))
            st = heartbeat_replace(p);
    }
    if (st != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
}
