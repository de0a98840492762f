/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.h - a flag that ends waiting work, and the hooks that are called when it is raised.
 * Kernels poll cancellation and deadline of their step through stop.h. */
#ifndef MF_BASE_CANCEL_H
#define MF_BASE_CANCEL_H

#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>

/* Intrusive: stays in the waiter's memory until it is removed or called. */
typedef struct mf_cancel_hook {
    void (*fn)(struct mf_cancel_hook *hook); /* called once, by the thread that cancels, unlocked */
    struct mf_cancel_hook *prev, *next; /* guarded by the lock of mf_cancel */
    bool queued;
} mf_cancel_hook;

typedef struct mf_cancel {
    pthread_mutex_t lock;
    mf_cancel_hook *hooks; /* guarded by lock */
    struct mf_cancel_call *calls; /* hooks in progress; guarded by lock */
    pthread_cond_t called; /* a hook has returned */
    atomic_bool raised;
} mf_cancel;

void mf_cancel_init(mf_cancel *cancel);
void mf_cancel_deinit(mf_cancel *cancel);
static inline bool mf_cancel_is_raised(const mf_cancel *cancel)
{
    return atomic_load_explicit(&cancel->raised, memory_order_acquire);
}
/* False when already raised: the hook is not added and will not be called. */
bool mf_cancel_add(mf_cancel *cancel, mf_cancel_hook *hook);
/* True: the hook has not been called and never will be. False: it was called or is being called;
 * that call has ended on return, unless the caller is the hook itself. */
bool mf_cancel_remove(mf_cancel *cancel, mf_cancel_hook *hook);
/* Raise the flag and call all hooks. Later calls do nothing. */
void mf_cancel_raise(mf_cancel *cancel);

#endif
