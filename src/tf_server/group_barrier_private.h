/* SPDX-License-Identifier: Apache-2.0 */
/* group_barrier_private.h - the inside of assemblies. */
#ifndef MF_TF_SERVER_GROUP_BARRIER_PRIVATE_H
#define MF_TF_SERVER_GROUP_BARRIER_PRIVATE_H

#include "base/buf.h"
#include "base/waiter.h"
#include "tf_server/group_barrier.h"

/* One who waits. */
typedef struct mf_barrier_waiter {
    mf_waiter pending; /* first */
    mf_group_barriers *assemblies;
    mf_group_barrier *at; /* with a reference */
    const char *device; /* its own; of the assembly */
    int64_t since_ns, deadline_ns; /* INT64_MAX: none */
    mf_rpc_answer_fn *done;
    void *ctx;
    /* guarded by the lock: */
    bool waits; /* is in line */
    struct mf_barrier_waiter *prev, *next;
} mf_barrier_waiter;

/* ---- assemblies (group_barrier.c); with the lock ---- */

void mf_group_barrier_unref(mf_group_barrier *a);
/* Nobody finds it any more. */
void mf_group_barrier_forget(mf_group_barriers *m, mf_group_barrier *a);
/* Who is there, for people. */
void mf_group_barrier_names(const mf_group_barrier *a, mf_buf *out);
/* Without the lock: a reference less. */
void mf_group_barrier_release(mf_group_barriers *m, mf_group_barrier *a);

/* ---- waiting (group_barrier_wait.c) ---- */

/* With the lock: it waits there. */
void mf_barrier_waiter_line_up(mf_barrier_waiter *w, mf_group_barriers *m, mf_group_barrier *a,
                               const mf_coming *c);
/* Without, once: now it can be cancelled, and may be gone. */
void mf_barrier_waiter_begin(mf_barrier_waiter *w);
/* With the lock: a thread looks for those who are late. */
MF_MUST mf_status mf_barrier_waiters_watch(mf_group_barriers *m);
/* Without: all that wait there are told; on failure the thread's error, which stays. */
void mf_barrier_waiters_end(mf_group_barriers *m, mf_group_barrier *a, mf_status st);

#endif
