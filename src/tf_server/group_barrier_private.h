/* SPDX-License-Identifier: Apache-2.0 */
/* group_barrier_private.h - internals of group barriers. */
#ifndef MF_TF_SERVER_GROUP_BARRIER_PRIVATE_H
#define MF_TF_SERVER_GROUP_BARRIER_PRIVATE_H

#include "base/buf.h"
#include "base/waiter.h"
#include "tf_server/group_barrier.h"

/* A waiting member. */
typedef struct mf_barrier_waiter {
    mf_waiter pending; /* first */
    mf_group_barriers *barriers;
    mf_group_barrier *at; /* with a reference */
    const char *device; /* owned by the waiter, or by the barrier */
    int64_t since_ns, deadline_ns; /* INT64_MAX: none */
    mf_rpc_answer_fn *done;
    void *ctx;
    /* guarded by the lock: */
    bool waits; /* is queued */
    struct mf_barrier_waiter *prev, *next;
} mf_barrier_waiter;

/* ---- barriers (group_barrier.c); the caller holds the lock ---- */

void mf_group_barrier_unref(mf_group_barrier *a);
/* Removes it from the map. */
void mf_group_barrier_forget(mf_group_barriers *m, mf_group_barrier *a);
/* The members present, for messages. */
void mf_group_barrier_names(const mf_group_barrier *a, mf_buf *out);
/* Drops a reference. The caller does not hold the lock. */
void mf_group_barrier_release(mf_group_barriers *m, mf_group_barrier *a);

/* ---- waiting (group_barrier_wait.c) ---- */

/* Queues the waiter. The caller holds the lock. */
void mf_barrier_waiter_enqueue(mf_barrier_waiter *w, mf_group_barriers *m, mf_group_barrier *a,
                               const mf_barrier_request *c);
/* Called once, without the lock: from here on the waiter can be cancelled and freed. */
void mf_barrier_waiter_begin(mf_barrier_waiter *w);
/* Starts the thread that checks deadlines. The caller holds the lock. */
MF_MUST mf_status mf_barrier_waiters_watch(mf_group_barriers *m);
/* Notifies all waiters, without the lock; on failure with the thread's error, which is kept. */
void mf_barrier_waiters_end(mf_group_barriers *m, mf_group_barrier *a, mf_status st);

#endif
