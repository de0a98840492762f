/* SPDX-License-Identifier: Apache-2.0 */
/* heartbeat.h - a task's entry in the store, task/NAME, which is there as long as the task keeps
 * the lease that it is under. How long that lease is follows from how well it is kept
 * (adaptive_timeout.h). Thread: one at a time. */
#ifndef MF_CLUSTER_MEMBERSHIP_HEARTBEAT_H
#define MF_CLUSTER_MEMBERSHIP_HEARTBEAT_H

#include "cluster/membership/adaptive_timeout.h"
#include "cluster/membership/membership.h"

typedef struct mf_heartbeat {
    mf_store *store; /* borrowed, as is self */
    const mf_member *self;
    char key[MF_STORE_KEY_MAX]; /* "task/worker-2" */
    mf_adaptive_timeout patience;
    int64_t lease, length_ns; /* 0: none */
    int64_t version; /* of the entry */
    bool unsure; /* it is not known whether it was put as it is said here */
} mf_heartbeat;

/* Owns: mf_heartbeat_end(), if it succeeds. Another process of this name may have died just now: as
 * long as its lease may be in force it is waited for. Fails: ALREADY_EXISTS (it is alive). */
MF_MUST mf_status mf_heartbeat_begin(mf_heartbeat *p, mf_store *store, const mf_member *self,
                                     int64_t usual_ns);
/* Keeps the lease; comes back when it has ended; replaces it when it is too short, or long. A store
 * that does not answer is asked again next time. */
void mf_heartbeat_keep(mf_heartbeat *p);
/* We are not there any more. */
void mf_heartbeat_end(mf_heartbeat *p);

#endif
