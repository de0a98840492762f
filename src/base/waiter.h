/* SPDX-License-Identifier: Apache-2.0 */
/* waiter.h - one that waits in somebody's line and can be cancelled meanwhile: what is the same
 * whatever it waits for. It is ended once, by whoever takes it off the line: who brings what it
 * waits for, or its on_cancel(). */
#ifndef MF_BASE_WAITER_H
#define MF_BASE_WAITER_H

#include "base/cancel.h"

typedef struct mf_waiter {
    mf_cancel_hook hook; /* first */
    mf_cancel *cancel; /* NULL: nothing cancels it */
    pthread_mutex_t *lock; /* of the line; guards all below */
    bool is_over, is_hooked;
    int refs;
} mf_waiter;

/* It has two references: of whoever ends it, and of whoever begins it.
 * on_cancel: called without the lock, perhaps when it is off the line already. */
mf_waiter mf_waiter_of(pthread_mutex_t *lock, mf_cancel *cancel,
                       void (*on_cancel)(mf_cancel_hook *hook));
/* It is in line, or was: from here on it can be cancelled. */
void mf_waiter_begin(mf_waiter *w);
/* It is off the line: on_cancel() is not called any more, nor being called by another thread. */
void mf_waiter_end(mf_waiter *w);
/* True: that was the last one. */
bool mf_waiter_unref(mf_waiter *w);

#endif
