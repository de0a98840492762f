/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.c - a cancellation flag with hooks that wake waiting threads. Kernels poll the
 * cancellation and the deadline of their step through stop.h. */
#include "base/cancel.h"

/* A hook call in progress; on the stack of the thread that makes it. */
typedef struct mf_cancel_call {
    const mf_cancel_hook *hook; /* may be freed already */
    struct mf_cancel_call *next;
} mf_cancel_call;

static _Thread_local const mf_cancel_hook *in_hook; /* the hook this thread is calling */

void mf_cancel_init(mf_cancel *cancel)
{
    *cancel = (mf_cancel){ 0 };
    pthread_mutex_init(&cancel->lock, NULL);
    pthread_cond_init(&cancel->called, NULL);
}

void mf_cancel_deinit(mf_cancel *cancel)
{
    pthread_cond_destroy(&cancel->called);
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

/* The caller holds the lock. */
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

/* The caller holds the lock. */
static bool is_called(const mf_cancel *cancel, const mf_cancel_hook *hook)
{
    const mf_cancel_call *call = cancel->calls;

    while (call && call->hook != hook)
        call = call->next;
    return call != NULL;
}

static void link_call(mf_cancel *cancel, mf_cancel_call *call)
{
    call->next = cancel->calls;
    cancel->calls = call;
}

static void unlink_call(mf_cancel *cancel, const mf_cancel_call *call)
{
    mf_cancel_call **at = &cancel->calls;

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
}

/* Waits for the call of this hook alone: a hook that waited for all calls would wait for itself. */
bool mf_cancel_remove(mf_cancel *cancel, mf_cancel_hook *hook)
{
    bool removed;

    pthread_mutex_lock(&cancel->lock);
    removed = hook->queued;
    if (removed) {
        unlink_hook(cancel, hook);
    } else if (in_hook != hook) {
        while (is_called(cancel, hook))
            pthread_cond_wait(&cancel->called, &cancel->lock);
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
        mf_cancel_call call = { .hook = hook };

        unlink_hook(cancel, hook);
        link_call(cancel, &call);
        pthread_mutex_unlock(&cancel->lock);
        in_hook = hook;
        hook->fn(hook); /* may free the hook */
        in_hook = outer;
        pthread_mutex_lock(&cancel->lock);
        unlink_call(cancel, &call);
        pthread_cond_broadcast(&cancel->called);
    }
    pthread_mutex_unlock(&cancel->lock);
}
