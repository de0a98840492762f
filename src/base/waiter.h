/* SPDX-License-Identifier: Apache-2.0 */
/* waiter.h - a cancellable waiter in a queue, independent of what it waits for. It is completed
 * once, by the thread that removes it from the queue: the thread that provides the result, or its
 * on_cancel(). */
#ifndef MF_BASE_WAITER_H
#define MF_BASE_WAITER_H

#include "base/cancel.h"

typedef struct mf_waiter {
    mf_cancel_hook hook; /* first */
    mf_cancel *cancel; /* NULL: nothing cancels it */
    pthread_mutex_t *lock; /* the lock of the queue; guards all fields below */
    bool is_over, is_hooked;
    int refs;
} mf_waiter;

/* Starts with two references: of the thread that completes it, and of the thread that begins it.
 * on_cancel: called without the lock, possibly when the waiter is already out of the queue. */
mf_waiter mf_waiter_of(pthread_mutex_t *lock, mf_cancel *cancel,
                       void (*on_cancel)(mf_cancel_hook *hook));
/* The waiter is in the queue, or was: it can be cancelled from here on. */
void mf_waiter_begin(mf_waiter *w);
/* The waiter is out of the queue: on_cancel() will not be called any more, and is not running in
 * another thread. */
void mf_waiter_end(mf_waiter *w);
/* True: that was the last reference. */
bool mf_waiter_unref(mf_waiter *w);

#endif
