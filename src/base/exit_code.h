/* SPDX-License-Identifier: Apache-2.0 */
/* exit_code.h - what the exit code of a process of a job says. `meshflow train`, `launch`, `submit`
 * (through `attach` and `queue`) and `server` use the same codes; docs/reference/exit-codes.md
 * explains them.
 */
#ifndef MF_BASE_EXIT_CODE_H
#define MF_BASE_EXIT_CODE_H

#include "base/status.h"

typedef enum mf_exit_code {
    MF_EXIT_DONE = 0, /* finished, and the result is on disk */
    MF_EXIT_FAILED = 1, /* another try may succeed */
    MF_EXIT_USAGE = 2, /* invalid usage or settings: another try fails in the same way */
    MF_EXIT_LOST = 3, /* the state is lost: another try would begin anew */
    MF_EXIT_STALLED = 4, /* `status` and `hang` only: a job makes no progress */
    MF_EXIT_DEAD = 5, /* `status` and `hang` only: a task of a job is dead */
    MF_EXIT_STOPPED = 75, /* stopped or left before the end; --resume continues it */
    /* Of shells, and of our own processes that start others: */
    MF_EXIT_CANNOT_RUN = 126,
    MF_EXIT_NO_PROGRAM = 127,
    MF_EXIT_SIGNAL = 128, /* and the number of the signal that ended it */
} mf_exit_code;

/* Would another try end in the same way, or do harm? */
static inline bool mf_exit_is_permanent(int code)
{
    return code == MF_EXIT_USAGE || code == MF_EXIT_LOST || code == MF_EXIT_CANNOT_RUN ||
           code == MF_EXIT_NO_PROGRAM;
}

/* May a supervisor restart the process? */
static inline bool mf_exit_may_restart(int code)
{
    return code != MF_EXIT_DONE && code != MF_EXIT_STOPPED && !mf_exit_is_permanent(code);
}

/* Of a failure before any work has begun: what was asked for, named or found is wrong (USAGE), or
 * something may be better next time (FAILED). */
static inline int mf_exit_of_setup(mf_status st)
{
    switch (st) {
    case MF_INVALID_ARGUMENT:
    case MF_UNIMPLEMENTED:
    case MF_NOT_FOUND:
    case MF_OUT_OF_RANGE:
    case MF_DATA_LOSS: /* a file that is damaged stays so */
    case MF_FAILED_PRECONDITION:
    case MF_PERMISSION_DENIED:
    case MF_UNAUTHENTICATED:
        return MF_EXIT_USAGE;
    default:
        return MF_EXIT_FAILED;
    }
}

/* The same of a failure while work is under way. Training is deterministic, so a value that is
 * invalid once is invalid in every try. */
static inline int mf_exit_of_work(mf_status st)
{
    return st == MF_INVALID_ARGUMENT || st == MF_UNIMPLEMENTED ? MF_EXIT_USAGE : MF_EXIT_FAILED;
}

#endif
