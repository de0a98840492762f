/* SPDX-License-Identifier: Apache-2.0 */
/* stop.h - ends the work of a thread early, because its step was cancelled or is past its deadline.
 * The executor enters the stop of a step before its kernels run, and the pool passes it to helper
 * threads. A loop whose length a client controls checks periodically:
 *
 *     for (int64_t row = 0; row < rows; row++) {
 *         MF_TRY(mf_stop_after(cols));
 *         ...
 *     }
 *
 * Once a check has failed, all later checks of the step fail. */
#ifndef MF_BASE_STOP_H
#define MF_BASE_STOP_H

#include "base/cancel.h"

typedef struct mf_stop {
    const mf_cancel *cancel; /* NULL: not cancellable */
    int64_t deadline_ns; /* mf_clock_ns() time; 0: none */
} mf_stop;

/* From now on the checks of this thread use this stop. Returns the previous one, which the caller
 * enters again later. Enter { 0 } around work that must complete, such as writing a variable. */
mf_stop mf_stop_enter(mf_stop stop);
mf_stop mf_stop_here(void);

/* True: the work of this thread must end. */
bool mf_stopped(void);
/* Fails: CANCELLED, DEADLINE_EXCEEDED. */
MF_MUST mf_status mf_stop_check(void);

/* The same, cheap enough for inner loops: checks once per about a million units of `work`, of about
 * a nanosecond each. */
bool mf_stopped_after(int64_t work);
MF_MUST mf_status mf_stop_after(int64_t work);

/* Tests: the n-th check from now fails, and so do all after it; every unit of work is a check (0:
 * normal operation). Affects the whole process. */
void mf_stop_fail_at(int64_t nth);
/* Tests: the n-th check was reached. */
bool mf_stop_has_failed(void);

#endif
