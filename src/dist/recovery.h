/* SPDX-License-Identifier: Apache-2.0 */
/* recovery.h - what happens when a task is lost, joins or leaves: one state machine, the same for
 * all strategies. recovery.c drives it and prints every message about it.
 *
 *   worker 0            worker 1            worker 2            store
 *      |  step 7: exchange |                   |                  |
 *      |<----------------->|                 killed               |
 *      |   connection ends, or the lease ends: MF_UNAVAILABLE     |
 *   DETECTED            DETECTED                                  |   is a peer the cause?
 *   ABORTING ---------> ABORTING                                  |   release, abort, disconnect
 *   AGREEING            AGREEING                                  |
 *      |-- view of epoch 2: workers 0, 1 (compare-and-set) ------>|   the first proposal counts
 *      |<------------------|--------------- epoch 2 --------------|
 *   CONNECTING <------> CONNECTING                                |   a peer that does not connect
 *      |                   |                                      |   is suspected: AGREEING again
 *   REBUILDING <------> REBUILDING                                |   rank, size, groups
 *   ASSIGNING <-------> ASSIGNING                                 |   shards, exchange
 *   ALIGNING <--------> ALIGNING                                  |   state of the furthest worker
 *   REDOING             REDOING                                   |   the loop repeats step 7
 *      |  step 7: exchange |                                      |
 *      |<----------------->|                                      |
 *   RUNNING             RUNNING                                   |
 *
 * A failure that a peer causes leads from AGREEING and later states to ABORTING, from ALIGNING to
 * DETECTED. WAITING is where a view lacks parameter servers that must be there. A parameter server
 * goes from CONNECTING to SERVING, and from there to ABORTING when its peers change. All other
 * failures lead to ENDED. A first connection and a planned change pass the same states. */
#ifndef MF_DIST_RECOVERY_H
#define MF_DIST_RECOVERY_H

#include "base/status.h"
#include "train/loop/dist.h"
#include "train/step/trainer.h"

typedef struct mf_job_members mf_job_members;

typedef enum mf_recovery_state {
    MF_RECOVERY_RUNNING, /* steps run, or no rendezvous has begun yet */
    MF_RECOVERY_DETECTED, /* a call failed, or a change is planned: decide whether to recover */
    MF_RECOVERY_ABORTING, /* release what belongs to the old epoch; abort its connections */
    MF_RECOVERY_AGREEING, /* wait for the next membership view with this task in it */
    MF_RECOVERY_CONNECTING, /* to all members of the view; suspect a member that does not connect */
    MF_RECOVERY_WAITING, /* for the next view: this one lacks parameter servers */
    MF_RECOVERY_REBUILDING, /* rank, size and groups of the view */
    MF_RECOVERY_ASSIGNING, /* shards, and the exchange that sums over them */
    MF_RECOVERY_ALIGNING, /* all workers get the state of the worker that is furthest */
    MF_RECOVERY_REDOING, /* the loop repeats the step that failed */
    MF_RECOVERY_SERVING, /* a parameter server: until its peers change, or the job ends */
    MF_RECOVERY_ENDED, /* with an error, or because this task has left or the job is over */
    MF_RECOVERY_STATES
} mf_recovery_state;

/* What a strategy does in some of the states. The thread's error is kept by the caller. */
typedef struct mf_recovery_hooks {
    /* DETECTED, before a planned change: a failure of this is the cause of the recovery then. May
     * be NULL. */
    mf_status (*prepare)(mf_dist *dist, mf_trainer *t);
    /* ABORTING: free what uses the connections of the old epoch, but mf_dist.group; undo what not
     * all workers have done. Also when nothing was made yet. */
    void (*release)(mf_dist *dist);
    /* REBUILDING: a view with fewer parameter servers is of no use. NULL: none is needed. */
    int (*servers_needed)(const mf_dist *dist);
    /* ASSIGNING. Collective. May be NULL. */
    mf_status (*assign)(mf_dist *dist, mf_trainer *t);
    /* SERVING: this task is a parameter server, and has no other state after CONNECTING. MF_OK: the
     * job is over. NULL: it is a worker. */
    mf_status (*serve)(mf_dist *dist, mf_trainer *t);
} mf_recovery_hooks;

typedef struct mf_recovery {
    const mf_recovery_hooks *hooks;
    mf_recovery_state state;
    mf_dist *dist; /* NULL: no rendezvous has begun yet */
    mf_trainer *trainer;
    bool may_leave; /* this task may end while it waits for a view */
    mf_error why; /* that led to this state; status MF_OK: none */
    mf_error cause; /* of the recovery; status MF_OK: a planned change */
    int64_t began_ns; /* when the cause was detected, or the change began */
    int64_t detected_ns; /* the first failure since the last complete step; 0: none */
} mf_recovery;

/* Is this failure caused by a peer, which may be absent after a rendezvous? */
bool mf_recovery_is_by_peer(mf_status st);

/* mf_dist_membership_ops.rendezvous: run the machine until RUNNING or REDOING (MF_OK) or ENDED (the
 * reason). Sets mf_dist.state. A parameter server's runs until the job is over. */
MF_MUST mf_status mf_recovery_rendezvous(mf_dist *dist, mf_trainer *t, mf_status why);
/* mf_dist_membership_ops.step_done: REDOING is over. */
void mf_recovery_step_done(mf_dist *dist, int64_t step);
/* Suspicion excludes this task from the view for so long. */
void mf_recovery_log_excluded(const mf_job_members *j, int64_t ns);

/* Wait until a task joins or leaves: then ABORTED. needed: fail with FAILED_PRECONDITION when so
 * many parameter servers have not joined in time; 0: wait without a limit. */
MF_MUST mf_status mf_recovery_await_servers(mf_job_members *j, int needed);

#endif
