/* SPDX-License-Identifier: Apache-2.0 */
/* assembly_private.h - the inside of assemblies. */
#ifndef MF_SERVER_ASSEMBLY_PRIVATE_H
#define MF_SERVER_ASSEMBLY_PRIVATE_H

#include "base/buf.h"
#include "base/pending.h"
#include "server/assembly.h"

/* One who waits. */
typedef struct mf_waiter {
    mf_pending pending; /* first */
    mf_assemblies *assemblies;
    mf_assembly *at; /* with a reference */
    const char *device; /* its own; of the assembly */
    int64_t since_ns, deadline_ns; /* INT64_MAX: none */
    mf_answer_fn *done;
    void *ctx;
    /* guarded by the lock: */
    bool waits; /* is in line */
    struct mf_waiter *prev, *next;
} mf_waiter;

/* ---- assemblies (assembly.c); with the lock ---- */

void mf_assembly_unref(mf_assembly *a);
/* Nobody finds it any more. */
void mf_assembly_forget(mf_assemblies *m, mf_assembly *a);
/* Who is there, for people. */
void mf_assembly_names(const mf_assembly *a, mf_buf *out);
/* Without the lock: a reference less. */
void mf_assembly_release(mf_assemblies *m, mf_assembly *a);

/* ---- waiting (assembly_wait.c) ---- */

/* With the lock: it waits there. */
void mf_waiter_line_up(mf_waiter *w, mf_assemblies *m, mf_assembly *a, const mf_coming *c);
/* Without, once: now it can be cancelled, and may be gone. */
void mf_waiter_begin(mf_waiter *w);
/* With the lock: a thread looks for those who are late. */
MF_MUST mf_status mf_waiters_watch(mf_assemblies *m);
/* Without: all that wait there are told; on failure the thread's error, which stays. */
void mf_waiters_end(mf_assemblies *m, mf_assembly *a, mf_status st);

#endif
