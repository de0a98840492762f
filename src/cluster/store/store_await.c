/* SPDX-License-Identifier: Apache-2.0 */
/* store_await.c - a store that is not there yet is waited for. */
#include "base/clock.h"
#include "cluster/store/store.h"
#include "observe/wait_report.h"

#include <stdio.h>
#include <time.h>

static const int64_t PAUSE_NS = 100000000;
static const int64_t FIRST_NS = 500000000, LONGEST_NS = 5000000000; /* of one try */

/* Any other reply is an answer. */
static mf_status ask_once(const mf_store_wanted *w, int64_t timeout_ns)
{
    mf_store_entry e = { 0 };
    mf_store *s;
    mf_status st;

    MF_TRY(mf_store_open(
        w->url, &(mf_store_options){ .timeout_ns = timeout_ns, .security = w->security }, &s));
    st = mf_store_get(s, "over", &e, NULL);
    mf_store_entry_deinit(&e);
    mf_store_close(s);
    return st == MF_NOT_FOUND ? MF_OK : st;
}

static int64_t store_await_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Tries get longer: the store may be slow. */
static mf_status store_await_ask_until(const mf_store_wanted *w, int64_t until_ns,
                                       mf_wait_report *waiting)
{
    char why[200];

    for (int64_t patience = FIRST_NS;; patience = store_await_smaller(2 * patience, LONGEST_NS)) {
        const int64_t left = until_ns - mf_clock_ns();
        const mf_status st =
            ask_once(w, store_await_smaller(patience, left > PAUSE_NS ? left : PAUSE_NS));

        if (st != MF_UNAVAILABLE && st != MF_DEADLINE_EXCEEDED)
            return st;
        (void)snprintf(why, sizeof why, "%s", mf_error_message());
        waiting->why = why;
        if (w->stops && w->stops(w->ctx))
            return MF_FAIL(MF_CANCELLED, "%s was asked to end while it waited for the store %s",
                           w->who, w->url);
        if (mf_clock_ns() + PAUSE_NS >= until_ns)
            return MF_FAIL(MF_UNAVAILABLE, "%s waited %.0f s without success for the store %s: %s",
                           w->who, (double)w->timeout_ns * 1e-9, w->url, why);
        mf_wait_report_check(waiting);
        (void)nanosleep(&(struct timespec){ 0, PAUSE_NS }, NULL);
    }
}

mf_status mf_store_await(const mf_store_wanted *w)
{
    const int64_t until = mf_clock_ns() + w->timeout_ns;
    mf_wait_report waiting = { .who = w->who,
                               .whom = "the store",
                               .where = w->url,
                               .what = "an answer",
                               .step = -1,
                               .until_ns = until };
    mf_status st;

    mf_wait_report_begin(&waiting);
    st = store_await_ask_until(w, until, &waiting);
    mf_wait_report_end(&waiting, st == MF_OK);
    return st;
}
