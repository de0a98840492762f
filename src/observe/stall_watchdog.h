/* SPDX-License-Identifier: Apache-2.0 */
/* stall_watchdog.h - reports that a thread is blocked: it waits for another task, for input, or for
 * a disk. If that lasts, one line on standard error says which step has stalled for how long, which
 * task is the cause and what that task does, as `meshflow job status` prints it; another line says
 * when the step continues. One task reports for all tasks of the job on this host: the first of the
 * tasks that wait for the same cause. */
#ifndef MF_OBSERVE_STALL_WATCHDOG_H
#define MF_OBSERVE_STALL_WATCHDOG_H

#include "base/process.h"

typedef struct mf_stall {
    int64_t since; /* 0: no wait in progress */
    int64_t next_check_ns; /* time of the next check */
    const char *why; /* details, if known; NULL */
    int64_t step; /* the step reported as stalled; -1: startup */
    bool reported;
    int64_t pid; /* of the cause, at the last check; 0: none, or on another host */
    mf_process_times times; /* its scheduling times at the last check */
} mf_stall;

typedef enum mf_stall_seen {
    MF_STALL_EARLY, /* it is not time for a check */
    MF_STALL_SEEN, /* checked, and reported if necessary */
    MF_STALL_UNSEEN, /* there is no status page: the caller reports what it knows */
} mf_stall_seen;

/* How long a wait may last before it is reported. */
int64_t mf_stall_patience_ns(void);
void mf_stall_begin(mf_stall *s);
/* The wait lasts. May read the status pages of all tasks: hold no contended lock. Does nothing
 * without mf_stall_begin(). */
mf_stall_seen mf_stall_check(mf_stall *s);
/* The wait is over. well: the thread continues, without an error. Does nothing without
 * mf_stall_begin(). */
void mf_stall_end(mf_stall *s, bool well);

#endif
