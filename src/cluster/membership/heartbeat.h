/* SPDX-License-Identifier: Apache-2.0 */
/* heartbeat.h - a task's entry in the store, task/NAME. It exists as long as the task renews the
 * entry's lease. The length of the lease follows from how late renewals are (adaptive_timeout.h).
 * Thread: one at a time. */
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
    bool unsure; /* it is unknown whether the entry was written as recorded here */
} mf_heartbeat;

/* Owns: mf_heartbeat_end(), if it succeeds. Waits as long as the lease of another process of this
 * name may be in force, which may have died just now. Fails: ALREADY_EXISTS (that process is
 * alive). */
MF_MUST mf_status mf_heartbeat_begin(mf_heartbeat *p, mf_store *store, const mf_member *self,
                                     int64_t usual_ns);
/* Renew the lease; register again when it has expired; replace it when it is too short or too long.
 * If the store does not answer, the next call tries again. */
void mf_heartbeat_keep(mf_heartbeat *p);
/* Remove the entry. */
void mf_heartbeat_end(mf_heartbeat *p);

#endif
