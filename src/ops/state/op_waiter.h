/* SPDX-License-Identifier: Apache-2.0 */
/* op_waiter.h - ops that wait in line at an object (queue, accumulator): their places in line.
 *
 * An object keeps lines of mf_wait under its lock. Whoever changes the object takes those that can
 * end off their lines, unlocks, and calls mf_wait_end() for each. A step that is cancelled calls
 * the hook, which locks the object and ends the wait unless somebody else already is at it. */
#ifndef MF_OPS_STATE_OP_WAITER_H
#define MF_OPS_STATE_OP_WAITER_H

#include "graph/op.h"

typedef struct mf_wait mf_wait;
typedef struct mf_wait_line mf_wait_line;

struct mf_wait_line {
    mf_wait *first, *last;
};

struct mf_wait {
    mf_cancel_hook hook;
    mf_kernel *kernel;
    mf_object *at; /* a reference: the object outlives those who wait there */
    mf_wait_line *line; /* NULL: taken off */
    mf_wait *prev, *next;
    bool hooked;
    mf_status status; /* how the wait ended */
    char message[256];
};

/* All under the object's lock, except end(). */
void mf_wait_append(mf_wait_line *line, mf_wait *w);
void mf_wait_unlink(mf_wait *w);
/* Say how it ended; the first failure stays. */
void mf_wait_fail(mf_wait *w, mf_status code, const char *fmt, ...) MF_PRINTF(3, 4);
/* From now on cancelling the step calls `cancelled`, which must return when w->line is NULL. False:
 * the step is cancelled already. */
bool mf_wait_hook(mf_wait *w, void (*cancelled)(mf_cancel_hook *hook));
/* After this the hook will not be called (any more); then the op may end. Not from the hook itself,
 * which clears `hooked` instead. */
void mf_wait_unhook(mf_wait *w);
/* The thread's error record set to how the wait ended. */
MF_MUST mf_status mf_wait_status(const mf_wait *w);

#endif
