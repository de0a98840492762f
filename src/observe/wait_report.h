/* SPDX-License-Identifier: Apache-2.0 */
/* wait_report.h - a thread waits for another task: that stands on the board while it lasts, and is
 * said on standard error once it is long (observe/stall_watchdog.h). */
#ifndef MF_OBSERVE_WAIT_REPORT_H
#define MF_OBSERVE_WAIT_REPORT_H

#include "observe/stall_watchdog.h"

typedef struct mf_wait_report {
    const char *who, *whom; /* "worker 0", "worker 2" */
    const char *where; /* whom's address; NULL: not known */
    const char *what; /* "the gradients" */
    int64_t step; /* -1: of none */
    const char *why; /* if it is known; NULL */
    int64_t until_ns; /* the wait fails then, by mf_clock_ns(); 0: not known */
    mf_stall stall;
    int board;
} mf_wait_report;

/* The option of this program that changes how long it waits for others ("--timeout"), for the
 * sentences of waits that have an end. NULL, at first: there is none. Not copied. Thread: before
 * any wait. */
void mf_wait_report_name_option(const char *option);

/* The others are set. */
void mf_wait_report_begin(mf_wait_report *w);
/* It lasts: say so if it is time to. Nothing happens before it has begun. */
void mf_wait_report_look(mf_wait_report *w);
/* It is over; well: it has come. Nothing happens if it has not begun. */
void mf_wait_report_end(mf_wait_report *w, bool well);

#endif
