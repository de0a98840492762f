/* SPDX-License-Identifier: Apache-2.0 */
/* wait_report.h - a thread waits for another task: the status page shows the wait, and a long one
 * is reported on standard error (observe/stall_watchdog.h). */
#ifndef MF_OBSERVE_WAIT_REPORT_H
#define MF_OBSERVE_WAIT_REPORT_H

#include "observe/stall_watchdog.h"

typedef struct mf_wait_report {
    const char *who, *whom; /* "worker 0", "worker 2" */
    const char *where; /* address of the task waited for; NULL: unknown */
    const char *what; /* "the gradients" */
    int64_t step; /* -1: no step */
    const char *why; /* if known; NULL */
    int64_t until_ns; /* when the wait fails, by mf_clock_ns(); 0: unknown */
    mf_stall stall;
    int wait;
} mf_wait_report;

/* The command line option that sets the time limit of waits ("--timeout"), for the messages of
 * waits with a limit. NULL, initially: none. Not copied. Thread: before any wait. */
void mf_wait_report_name_option(const char *option);

/* The caller sets the other fields. */
void mf_wait_report_begin(mf_wait_report *w);
/* The wait lasts: report it if it is time to. Does nothing before mf_wait_report_begin(). */
void mf_wait_report_check(mf_wait_report *w);
/* The wait is over; well: with success. Does nothing before mf_wait_report_begin(). */
void mf_wait_report_end(mf_wait_report *w, bool well);

#endif
