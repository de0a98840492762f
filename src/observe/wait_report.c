/* SPDX-License-Identifier: Apache-2.0 */
/* wait_report.c - marks a wait for another task on the status page, and for the stall watchdog. */
#include "observe/wait_report.h"

#include "base/clock.h"
#include "base/log.h"
#include "observe/status_page.h"

#include <stdio.h>

static const char *the_option;

void mf_wait_report_name_option(const char *option)
{
    the_option = option;
}

/* The reason of the wait, and the time left. */
static void put_reason(const mf_wait_report *w, char *text, size_t size)
{
    const int64_t left = w->until_ns - mf_clock_ns();
    int n = snprintf(text, size, "%s", w->why ? w->why : "");

    if (w->until_ns == 0 || left <= 0 || n < 0 || (size_t)n >= size)
        return;
    n += snprintf(text + n, size - (size_t)n, "%sfails in %.0f s", n > 0 ? "; " : "",
                  (double)left * 1e-9);
    if (the_option && (size_t)n < size)
        (void)snprintf(text + n, size - (size_t)n, " (change with %s)", the_option);
}

void mf_wait_report_begin(mf_wait_report *w)
{
    mf_stall_begin(&w->stall);
    w->wait = mf_status_page_wait_begin(w->whom, w->where, w->what, w->step);
}

/* Used when there is no status page. */
static void wait_report_say(mf_wait_report *w, const char *why)
{
    const int64_t now = mf_clock_ns(), time = now - w->stall.since;
    char step[40] = "";

    w->stall.next_check_ns = now + 2 * time;
    if (w->step >= 0)
        (void)snprintf(step, sizeof step, " of step %lld", (long long)w->step);
    MF_WARN("%s has been waiting for %s%s%s for %.1f s: %s%s%s%s", w->who, w->whom,
            w->where ? " at " : "", w->where ? w->where : "", (double)time * 1e-9, w->what, step,
            *why ? ": " : "", why);
}

void mf_wait_report_check(mf_wait_report *w)
{
    char why[400]; /* the error record may be overwritten by calls below */

    put_reason(w, why, sizeof why);
    w->stall.why = *why ? why : NULL;
    if (mf_stall_check(&w->stall) == MF_STALL_UNSEEN)
        wait_report_say(w, why);
}

void mf_wait_report_end(mf_wait_report *w, bool well)
{
    if (w->stall.since != 0)
        mf_status_page_wait_end(w->wait);
    mf_stall_end(&w->stall, well);
}
