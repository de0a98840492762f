/* SPDX-License-Identifier: Apache-2.0 */
/* exit_code.h - exit codes of the processes of a job. `meshflow train`, `launch`, `queue submit`
 * (through `queue attach` and `queue list`) and `server` use the same codes;
 * docs/reference/exit-codes.md explains them. */
#ifndef MF_BASE_EXIT_CODE_H
#define MF_BASE_EXIT_CODE_H

#include "base/status.h"

typedef enum mf_exit_code {
    MF_EXIT_DONE = 0, /* finished; the result is on disk */
    MF_EXIT_FAILED = 1, /* a retry may succeed */
    MF_EXIT_USAGE = 2, /* invalid usage or settings: a retry fails in the same way */
    MF_EXIT_LOST = 3, /* the state is lost: a retry would start from the beginning */
    MF_EXIT_STALLED = 4, /* `job status` and `job hang` only: a job makes no progress */
    MF_EXIT_DEAD = 5, /* `job status` and `job hang` only: a task of a job is dead */
    MF_EXIT_STOPPED = 75, /* stopped or left before the end; --resume continues it */
    /* As in shells, and in our processes that start others: */
    MF_EXIT_CANNOT_RUN = 126,
    MF_EXIT_NO_PROGRAM = 127,
    MF_EXIT_SIGNAL = 128, /* plus the number of the signal that ended the process */
} mf_exit_code;

/* Would a retry fail in the same way, or do harm? */
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

/* Exit code for a failure before work has begun: invalid settings, names or files (USAGE), or a
 * condition that may change (FAILED). */
static inline int mf_exit_of_setup(mf_status st)
{
    switch (st) {
    case MF_INVALID_ARGUMENT:
    case MF_UNIMPLEMENTED:
    case MF_NOT_FOUND:
    case MF_OUT_OF_RANGE:
    case MF_DATA_LOSS: /* a damaged file stays damaged */
    case MF_FAILED_PRECONDITION:
    case MF_PERMISSION_DENIED:
    case MF_UNAUTHENTICATED:
        return MF_EXIT_USAGE;
    default:
        return MF_EXIT_FAILED;
    }
}

/* Exit code for a failure during work. Training is deterministic: an invalid value recurs in every
 * retry. */
static inline int mf_exit_of_work(mf_status st)
{
    return st == MF_INVALID_ARGUMENT || st == MF_UNIMPLEMENTED ? MF_EXIT_USAGE : MF_EXIT_FAILED;
}

#endif
