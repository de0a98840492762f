/* SPDX-License-Identifier: Apache-2.0 */
/* op_waiter.h - ops that wait in a queue of an object (queue, accumulator).
 *
 * An object has lists of mf_wait, guarded by its lock. A thread that changes the object removes
 * waits that can end from the lists, unlocks, and calls mf_wait_end() for each. Cancelling a step
 * calls the hook, which locks the object and ends the wait unless another thread is already doing
 * so. */
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
    mf_object *at; /* a reference: the object outlives its waiters */
    mf_wait_line *line; /* NULL: removed */
    mf_wait *prev, *next;
    bool hooked;
    mf_status status; /* result of the wait */
    char message[256];
};

/* All functions except end() require the object's lock. */
void mf_wait_append(mf_wait_line *line, mf_wait *w);
void mf_wait_unlink(mf_wait *w);
/* Sets the result; the first failure is kept. */
void mf_wait_fail(mf_wait *w, mf_status code, const char *fmt, ...) MF_PRINTF(3, 4);
/* From now on cancelling the step calls `cancelled`, which must return at once if w->line is NULL.
 * False: the step is cancelled already. */
bool mf_wait_hook(mf_wait *w, void (*cancelled)(mf_cancel_hook *hook));
/* Afterwards the hook is not called any more, and the op may end. Not for the hook itself, which
 * clears `hooked` instead. */
void mf_wait_unhook(mf_wait *w);
/* Sets the thread's error to the result of the wait. */
MF_MUST mf_status mf_wait_status(const mf_wait *w);

#endif
