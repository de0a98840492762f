/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cancel.h"

static _Thread_local const mf_cancel_hook *in_hook; /* the hook this thread is calling */

void mf_cancel_init(mf_cancel *cancel)
{
    *cancel = (mf_cancel){ 0 };
    pthread_mutex_init(&cancel->lock, NULL);
    pthread_cond_init(&cancel->idle, NULL);
}

void mf_cancel_deinit(mf_cancel *cancel)
{
    pthread_cond_destroy(&cancel->idle);
    pthread_mutex_destroy(&cancel->lock);
}

bool mf_cancel_add(mf_cancel *cancel, mf_cancel_hook *hook)
{
    bool added = false;

    pthread_mutex_lock(&cancel->lock);
    if (!atomic_load(&cancel->raised)) {
        hook->prev = NULL;
        hook->next = cancel->hooks;
        if (hook->next)
            hook->next->prev = hook;
        cancel->hooks = hook;
        hook->queued = true;
        added = true;
    }
    pthread_mutex_unlock(&cancel->lock);
    return added;
}

/* Under the lock. */
static void unlink_hook(mf_cancel *cancel, mf_cancel_hook *hook)
{
    if (hook->prev)
        hook->prev->next = hook->next;
    else
        cancel->hooks = hook->next;
    if (hook->next)
        hook->next->prev = hook->prev;
    hook->queued = false;
}

bool mf_cancel_remove(mf_cancel *cancel, mf_cancel_hook *hook)
{
    bool removed;

    pthread_mutex_lock(&cancel->lock);
    removed = hook->queued;
    if (removed) {
        unlink_hook(cancel, hook);
    } else if (in_hook != hook) {
        while (cancel->calling > 0)
            pthread_cond_wait(&cancel->idle, &cancel->lock);
    }
    pthread_mutex_unlock(&cancel->lock);
    return removed;
}

void mf_cancel_raise(mf_cancel *cancel)
{
    pthread_mutex_lock(&cancel->lock);
    atomic_store(&cancel->raised, true);
    while (cancel->hooks) {
        mf_cancel_hook *hook = cancel->hooks;
        const mf_cancel_hook *outer = in_hook;

        unlink_hook(cancel, hook);
        cancel->calling++;
        pthread_mutex_unlock(&cancel->lock);
        in_hook = hook;
        hook->fn(hook); /* may free the hook */
        in_hook = outer;
        pthread_mutex_lock(&cancel->lock);
        cancel->calling--;
        if (cancel->calling == 0)
            pthread_cond_broadcast(&cancel->idle);
    }
    pthread_mutex_unlock(&cancel->lock);
}
