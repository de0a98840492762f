/* SPDX-License-Identifier: Apache-2.0 */
/* adaptive_timeout.c - the length of leases, and heartbeats that move from one lease to the next.
 */
#include "cluster/membership/adaptive_timeout.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/membership/heartbeat.h"
#include "mf_test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const int64_t MS = 1000000, S = 1000000000;

/* Renews `times` times at a fixed interval, from *now on. */
static void keep_every(mf_adaptive_timeout *p, int64_t *now, int64_t gap_ns, int times)
{
    for (int i = 0; i < times; i++) {
        *now += gap_ns;
        mf_adaptive_timeout_kept(p, *now, *now);
    }
}

MF_TEST(cluster_timeout_is_unchanged_while_leases_are_renewed_in_time)
{
    int64_t now = 5 * S;
    mf_adaptive_timeout p;

    mf_adaptive_timeout_init(&p, 3 * S, now);
    mf_adaptive_timeout_kept(&p, now, now);
    keep_every(&p, &now, S / 2, 1000);
    T_EQ(mf_adaptive_timeout_length(&p, now), 3 * S);
    keep_every(&p, &now, 1499 * MS, 3);
    T_TRUE(!mf_adaptive_timeout_is_unfit(&p, 3 * S, now));
}

MF_TEST(cluster_timeout_grows_with_gaps_and_shrinks_after_a_minute_without_any)
{
    int64_t now = 5 * S;
    mf_adaptive_timeout p;

    mf_adaptive_timeout_init(&p, 3 * S, now);
    mf_adaptive_timeout_kept(&p, now, now);
    keep_every(&p, &now, 3 * S, 1);
    T_TRUE(mf_adaptive_timeout_is_unfit(&p, 3 * S, now));
    T_EQ(mf_adaptive_timeout_length(&p, now), 6 * S);
    T_TRUE(!mf_adaptive_timeout_is_unfit(&p, 6 * S, now));
    keep_every(&p, &now, S / 2, 50);
    T_EQ(mf_adaptive_timeout_length(&p, now), 6 * S);
    keep_every(&p, &now, S / 2, 100);
    T_EQ(mf_adaptive_timeout_length(&p, now), 3 * S);
    T_TRUE(mf_adaptive_timeout_is_unfit(&p, 7 * S, now));
    keep_every(&p, &now, 100 * S, 1);
    T_EQ(mf_adaptive_timeout_length(&p, now), 30 * S); /* no more, whatever happens */
}

/* The gap starts before the call that renewed the lease, because the call may have been slow. */
MF_TEST(cluster_timeout_grows_with_slow_calls_of_the_store)
{
    mf_adaptive_timeout p;

    mf_adaptive_timeout_init(&p, 3 * S, S);
    mf_adaptive_timeout_kept(&p, 1 * S, 2 * S);
    mf_adaptive_timeout_kept(&p, 3 * S, 4 * S);
    T_EQ(mf_adaptive_timeout_length(&p, 4 * S), 6 * S);
}

MF_TEST(cluster_timeout_doubles_after_an_expired_lease_of_a_live_task)
{
    mf_adaptive_timeout p;

    mf_adaptive_timeout_init(&p, 3 * S, S);
    mf_adaptive_timeout_kept(&p, S, S);
    mf_adaptive_timeout_ended(&p, 3 * S, 20 * S);
    mf_adaptive_timeout_kept(&p, 20 * S, 20 * S);
    T_EQ(mf_adaptive_timeout_length(&p, 20 * S), 6 * S);
}

MF_TEST(cluster_timeout_of_a_late_task_delays_its_suspicions)
{
    T_EQ(mf_adaptive_timeout_grace(3 * S, S), 0);
    T_EQ(mf_adaptive_timeout_grace(3 * S, 2 * S), 2 * S);
    T_EQ(mf_adaptive_timeout_grace(3 * S, 60 * S), 3 * S);
}

/* ---- in a store ---- */

static const mf_member SELF = { .name = "worker 2", .address = "here", .id = "abc" };

/* This task's entry in the store; false: there is none. */
static bool find_entry(mf_store *s, mf_member *out, int64_t *version)
{
    mf_store_entry e;
    mf_view one;
    const mf_status st = mf_store_get(s, "task/worker-2", &e, NULL);

    if (st == MF_OK) {
        T_OK(mf_view_parse(e.value, e.size, &one));
        *out = one.members[0];
        *version = e.version;
        mf_view_deinit(&one);
    }
    mf_store_entry_deinit(&e);
    T_TRUE(st == MF_OK || st == MF_NOT_FOUND);
    return st == MF_OK;
}

static int64_t simulated_now(void *arg)
{
    return *(int64_t *)arg;
}

static void pause_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * MS }, NULL);
}

/* The test sets the clock of the store: no lease expires because the machine is slow. */
MF_TEST(cluster_heartbeat_moves_to_a_longer_lease_without_a_gap)
{
    int64_t now = S, first, version;
    mf_heartbeat p;
    mf_member m;
    mf_store *s;

    T_OK(mf_store_open("memory:late", &(mf_store_options){ .now = simulated_now, .now_arg = &now },
                       &s));
    T_OK(mf_heartbeat_begin(&p, s, &SELF, 30 * MS));
    T_TRUE(find_entry(s, &m, &first) && m.lease_ns == 30 * MS);
    pause_ms(40); /* late, by the clock of the task that renews it */
    mf_heartbeat_keep(&p);
    T_TRUE(find_entry(s, &m, &version) && m.lease_ns >= 80 * MS && m.lease_ns <= 300 * MS);
    T_TRUE(version > first && strcmp(m.id, "abc") == 0);
    now += 70 * MS; /* longer than the first lease */
    T_TRUE(find_entry(s, &m, &version));
    now += 300 * MS;
    T_TRUE(!find_entry(s, &m, &version));
    mf_heartbeat_keep(&p); /* registers again */
    T_TRUE(find_entry(s, &m, &version) && m.lease_ns > 80 * MS);
    mf_heartbeat_end(&p);
    T_TRUE(!find_entry(s, &m, &version));
    mf_store_close(s);
}

typedef struct slow_start {
    int64_t now;
    int calls; /* that still take longer than the first lease */
} slow_start;

static int64_t slow_now(void *arg)
{
    slow_start *s = arg;

    if (s->calls > 0) {
        s->calls--;
        s->now += 50 * MS;
    }
    return s->now;
}

/* Simulates a machine that is so busy that a lease expires before it is used. */
MF_TEST(cluster_heartbeat_takes_a_longer_lease_if_the_first_expires_unused)
{
    slow_start start = { S, 6 };
    int64_t version;
    mf_heartbeat p;
    mf_member m;
    mf_store *s;

    T_OK(mf_store_open("memory:slow", &(mf_store_options){ .now = slow_now, .now_arg = &start },
                       &s));
    start.calls = 6;
    T_OK(mf_heartbeat_begin(&p, s, &SELF, 30 * MS));
    T_TRUE(find_entry(s, &m, &version) && m.lease_ns > 30 * MS);
    mf_heartbeat_end(&p);
    mf_store_close(s);
}

/* A put without an answer of the store may have been done, or not. */
MF_TEST(cluster_heartbeat_resolves_a_put_with_an_unknown_outcome)
{
    int64_t version;
    mf_heartbeat p;
    mf_member m;
    mf_store *s;

    T_OK(mf_store_open("memory:sure", NULL, &s));
    T_OK(mf_heartbeat_begin(&p, s, &SELF, 3 * S));
    p.unsure = true;
    p.version = 0; /* the put was done */
    mf_heartbeat_keep(&p);
    T_TRUE(find_entry(s, &m, &version) && p.version == version && !p.unsure);
    T_OK(mf_store_remove(s, "task/worker-2", MF_STORE_ANY));
    p.unsure = true; /* the put was not done */
    mf_heartbeat_keep(&p);
    T_TRUE(find_entry(s, &m, &version) && p.version == version && !p.unsure);
    mf_heartbeat_end(&p);
    mf_store_close(s);
}
