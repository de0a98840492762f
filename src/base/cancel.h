/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.h - one flag that ends waiting work, and the hooks to be called when it is raised. */
#ifndef MF_BASE_CANCEL_H
#define MF_BASE_CANCEL_H

#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>

/* Intrusive; lives in the waiter's memory from add until removed or called. */
typedef struct mf_cancel_hook {
    void (*fn)(struct mf_cancel_hook *hook); /* called once, by the thread that cancels, unlocked */
    struct mf_cancel_hook *prev, *next; /* guarded by the lock of mf_cancel */
    bool queued;
} mf_cancel_hook;

typedef struct mf_cancel {
    pthread_mutex_t lock;
    mf_cancel_hook *hooks; /* guarded by lock */
    struct mf_cancel_call *calls; /* hooks being called right now; guarded by lock */
    pthread_cond_t called; /* one of them has returned */
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
/* True when the hook had not been called and now never will be. False: it was, or is being, called;
 * the call has ended when this returns (unless this is called from within it). */
bool mf_cancel_remove(mf_cancel *cancel, mf_cancel_hook *hook);
/* Raise the flag and call all hooks. Later calls do nothing. */
void mf_cancel_raise(mf_cancel *cancel);

#endif
