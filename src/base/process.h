/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - state, priority and processor time of a process, from the kernel. */
#ifndef MF_BASE_PROCESS_H
#define MF_BASE_PROCESS_H

#include "base/status.h"

typedef struct mf_process {
    char state; /* as in /proc/PID/stat: R, S, D, T (stopped), t (traced), Z (dead) */
    int nice;
    int64_t session; /* the process that leads its session */
    int64_t start; /* when the kernel started it, in ticks since boot: distinguishes processes
                      with the same number */
    int64_t cpu_ns; /* processor time of all threads */
    int64_t faults; /* major page faults: waits for memory from disk */
} mf_process;

/* Returns false if the process does not exist. */
bool mf_process_read(int64_t pid, mf_process *out);
/* Is one of its threads blocked in the kernel (state D: a disk, a network file system)? where: the
 * kernel function, or "". */
bool mf_process_is_blocked(int64_t pid, char *where, size_t size);

/* Scheduling times, summed over the threads. */
typedef struct mf_process_times {
    int64_t at_ns; /* mf_clock_ns() */
    int64_t ran_ns; /* on a processor */
    int64_t ready_ns; /* runnable but not running; counted when the thread runs again */
    int64_t faults; /* of mf_process */
    int ready; /* threads that run or are runnable now */
} mf_process_times;

/* Since the process began. Returns false if the kernel does not provide it. */
bool mf_process_time(int64_t pid, mf_process_times *out);
/* The difference of two samples: at_ns is the time between them; ready: the smaller value of both.
 */
mf_process_times mf_process_time_between(const mf_process_times *from, const mf_process_times *to);

/* ---- priorities ----
 *
 * A priority is 1 to 10. Contended processors are shared in the ratio of the priorities. Priorities
 * map to levels of niceness, each of which is a factor of 1.25 for the kernel: 10 is niceness 0,
 * and 1 is niceness 10. No process starves; ratios are accurate to 12 %; some neighbouring
 * priorities are equal. */
enum { MF_PRIORITY_MAX = 10 };

int mf_priority_nice(int priority);
/* The nearest priority. */
int mf_priority_of(int nice);
/* For all threads of a process, and for its session if the kernel schedules by session (autogroup)
 * and the process leads it. Fails: PERMISSION_DENIED (an unprivileged user cannot raise a
 * priority). */
MF_MUST mf_status mf_priority_set(int64_t pid, int priority);

#endif
