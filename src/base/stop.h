/* SPDX-License-Identifier: Apache-2.0 */
/* stop.h - ends the work of a thread early: because its step was cancelled or is past its deadline.
 *
 * The executor enters the stop of a step before its kernels run, and the pool hands it to the
 * threads that help them. A loop whose length a client decides asks now and then:
 *
 *     for (int64_t row = 0; row < rows; row++) {
 *         MF_TRY(mf_stop_after(cols));
 *         ...
 *     }
 *
 * Once a check has said that the work ends, all later checks of the step say so. */
#ifndef MF_BASE_STOP_H
#define MF_BASE_STOP_H

#include "base/cancel.h"

typedef struct mf_stop {
    const mf_cancel *cancel; /* NULL: nothing ends the work */
    int64_t deadline_ns; /* mf_clock_ns() time; 0: none */
} mf_stop;

/* From now on the checks of this thread ask this one. Returns the one before, to be entered again.
 * Enter { 0 } around work that must be completed, such as writing a variable. */
mf_stop mf_stop_enter(mf_stop stop);
mf_stop mf_stop_here(void);

/* The work of this thread shall end. */
bool mf_stopped(void);
/* Fails: CANCELLED, DEADLINE_EXCEEDED. */
MF_MUST mf_status mf_stop_check(void);

/* The same, cheap enough for inner loops: they look once for about a million units of `work`, of a
 * nanosecond or so each. */
bool mf_stopped_after(int64_t work);
MF_MUST mf_status mf_stop_after(int64_t work);

/* Tests: the n-th check from now says that the work ends, and so do all after it; every unit of
 * work is a check (0: as usual). Affects the whole process. */
void mf_stop_fail_at(int64_t nth);
/* Tests: the n-th check has come. */
bool mf_stop_has_failed(void);

#endif
