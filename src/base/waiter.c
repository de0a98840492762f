/* SPDX-License-Identifier: Apache-2.0 */
/* waiter.c - a waiter in a queue that is completed or cancelled exactly once. */
#include "base/waiter.h"

mf_waiter mf_waiter_of(pthread_mutex_t *lock, mf_cancel *cancel,
                       void (*on_cancel)(mf_cancel_hook *hook))
{
    return (mf_waiter){ .hook.fn = on_cancel, .cancel = cancel, .lock = lock, .refs = 2 };
}

void mf_waiter_begin(mf_waiter *w)
{
    bool late = false;

    pthread_mutex_lock(w->lock);
    if (w->cancel && !w->is_over) {
        w->is_hooked = mf_cancel_add(w->cancel, &w->hook);
        late = !w->is_hooked;
    }
    pthread_mutex_unlock(w->lock);
    if (late)
        w->hook.fn(&w->hook);
}

void mf_waiter_end(mf_waiter *w)
{
    bool hooked;

    pthread_mutex_lock(w->lock);
    w->is_over = true;
    hooked = w->is_hooked;
    pthread_mutex_unlock(w->lock);
    if (hooked)
        (void)mf_cancel_remove(w->cancel, &w->hook);
}

bool mf_waiter_unref(mf_waiter *w)
{
    bool last;

    pthread_mutex_lock(w->lock);
    last = --w->refs == 0;
    pthread_mutex_unlock(w->lock);
    return last;
}
