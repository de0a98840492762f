/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - what the kernel says of a process, and how much of the processors it is given. */
#ifndef MF_BASE_PROCESS_H
#define MF_BASE_PROCESS_H

#include "base/status.h"

typedef struct mf_process {
    char state; /* as in /proc/PID/stat: R, S, D, T (stopped), t (traced), Z (dead) */
    int nice;
    int64_t session; /* the process that began it */
    int64_t start; /* when the kernel started it, in ticks since the machine began: with it, a
                      number that is used again is not the same process */
    int64_t cpu_ns; /* processor time of all its threads */
    int64_t faults; /* how often it waited for memory from a disk */
} mf_process;

/* False: there is no such process. */
bool mf_process_look(int64_t pid, mf_process *out);
/* Is one of its threads blocked in the kernel (state D: a disk, a file system of the net)? where:
 * in which function of it, or "". */
bool mf_process_is_blocked(int64_t pid, char *where, size_t size);

/* How its threads fare, all together. */
typedef struct mf_process_times {
    int64_t at_ns; /* mf_clock_ns() */
    int64_t ran_ns; /* on a processor */
    int64_t ready_ns; /* they could have run, but others did; counted when one runs again */
    int64_t faults; /* of mf_process */
    int ready; /* threads that run or could run now */
} mf_process_times;

/* Since it began. False: the kernel does not say. */
bool mf_process_time(int64_t pid, mf_process_times *out);
/* In between: at_ns is how long that was; ready, if it was both times. */
mf_process_times mf_process_time_between(const mf_process_times *from, const mf_process_times *to);

/* ---- priorities ----
 *
 * 1 to 10; processors that several want are shared in the ratio of their priorities. They are
 * levels of niceness, each of which is a factor of 1.25 to the kernel: 10 is niceness 0, and 1 is
 * niceness 10. So nobody starves, and ratios are kept to 12 %; some neighbours are the same. */
enum { MF_PRIORITY_MAX = 10 };

int mf_priority_nice(int priority);
/* The nearest. */
int mf_priority_of(int nice);
/* For all threads of a process, and for its session where that is what the kernel weighs (groups by
 * terminal) and the process leads it. PERMISSION_DENIED: raising is not for ordinary users. */
MF_MUST mf_status mf_priority_set(int64_t pid, int priority);

#endif
