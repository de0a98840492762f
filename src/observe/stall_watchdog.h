/* SPDX-License-Identifier: Apache-2.0 */
/* stall_watchdog.h - a thread cannot go on: it waits for another task, for input, for a disk. Once
 * that lasts, one line on standard error says which step stands still since when, which task is the
 * reason and what that one does, as `meshflow job status` says it; and another one when it goes on.
 * One task says it for all of the job on this host: the first of those that wait for the same one.
 */
#ifndef MF_OBSERVE_STALL_WATCHDOG_H
#define MF_OBSERVE_STALL_WATCHDOG_H

#include "base/process.h"

typedef struct mf_stall {
    int64_t since; /* 0: not begun */
    int64_t look_at; /* when to look next */
    const char *why; /* more on it, if it is known; NULL */
    int64_t step; /* which we have said stands still; -1: none, the start */
    bool said;
    int64_t pid; /* of the reason, when we looked last; 0: none, or not of this host */
    mf_process_times times; /* and how it fared */
} mf_stall;

typedef enum mf_stall_seen {
    MF_STALL_EARLY, /* it is not time to look */
    MF_STALL_SEEN, /* it was looked at, and said if it was to be */
    MF_STALL_UNSEEN, /* there is no board to look at: whoever calls says what it knows */
} mf_stall_seen;

/* How long a wait may last before it is reported. */
int64_t mf_stall_patience_ns(void);
void mf_stall_begin(mf_stall *s);
/* It lasts. May read the boards of all tasks: hold no lock that others are in a hurry for. Nothing
 * happens before it has begun. */
mf_stall_seen mf_stall_look(mf_stall *s);
/* It is over. well: it goes on, and not because of an error. Nothing happens if it has not begun.
 */
void mf_stall_end(mf_stall *s, bool well);

#endif
