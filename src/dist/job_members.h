/* SPDX-License-Identifier: Apache-2.0 */
/* job_members.h - the tasks of an elastic job: registration in the store, the current membership
 * view, and the connections between its members. recovery.h decides when they are rebuilt. */
#ifndef MF_DIST_JOB_MEMBERS_H
#define MF_DIST_JOB_MEMBERS_H

#include "dist/recovery.h"
#include "dist/strategies.h"

#include <pthread.h>

struct mf_job_members {
    mf_members *members; /* NULL: not registered yet */
    char *store, *name, *address, *identity, *collective;
    char **first; /* names of all tasks of the first view */
    int n_first;
    mf_job_way way;
    int64_t timeout_ns;
    const mf_view *view; /* the current view; NULL: none yet */
    int n_workers, n_servers; /* of the view */
    int self; /* among its tasks: workers come first, in the order of the view */
    pthread_mutex_t lock; /* of net */
    mf_net *net; /* of the current view; NULL: not connected */
    mf_recovery recovery;
};

/* Is there a store, and can this transport lose a task? Otherwise no task may be lost. */
bool mf_job_is_elastic(const mf_strategy_options *o, const mf_cluster *cluster);

/* The tasks that train together, and parameter servers. Copies what it needs of the call; hooks:
 * borrowed. Owns: mf_job_members_deinit(), also after a failure. */
MF_MUST mf_status mf_job_members_init(const mf_strategy_call *call, const mf_recovery_hooks *hooks,
                                      mf_job_members *out);
void mf_job_members_deinit(mf_job_members *j);

/* ---- for recovery.c ---- */

/* Register this task in the store. Fails: as mf_members_open(). */
MF_MUST mf_status mf_job_members_register(mf_job_members *j);
/* Connect to all members of the current view. *missing: the task that did not connect, where it
 * fails with DEADLINE_EXCEEDED. */
MF_MUST mf_status mf_job_members_connect(mf_job_members *j, int *missing);
/* Close the connections. Peers that wait for this task get `why` (MF_OK: an ordinary end). */
void mf_job_members_disconnect(mf_job_members *j, mf_status why);
/* Abort the connections if a member of the view is lost, or a later view exists. Thread: any. */
void mf_job_members_check(mf_job_members *j);
/* The place of a task in the view. */
int mf_job_members_place_of(const mf_job_members *j, int task);
/* Agree on the job's id and settings (the first time), and set what mf_dist has of the view. */
MF_MUST mf_status mf_job_members_describe_view(mf_job_members *j, mf_dist *dist);
/* The job is over, as `over` says: was it this job? A new training in a store that was used before
 * would end with status 0 and no result; its settings differ. Returns the status to fail with. */
MF_MUST mf_status mf_job_members_check_end(const mf_job_members *j, mf_status over);

/* ---- for strategies ---- */

/* A group of all workers of the view. */
MF_MUST mf_status mf_job_members_group(mf_job_members *j, uint32_t id, mf_group **out);
/* The flags of this worker's next step (dist/step_flags.h). members may be NULL. */
int mf_job_members_step_flags(mf_job_members *j, mf_dist *dist, bool wants_stop);
/* Apply the flags of all workers: *stop, and whether a rendezvous is due. */
void mf_dist_apply_step_flags(mf_dist *dist, int flags, bool *stop);
/* mf_dist_state_ops.note_saved and mf_dist_lifecycle_ops.over. Without members: nothing. */
MF_MUST mf_status mf_job_note_saved(mf_dist *dist);
MF_MUST mf_status mf_job_note_end(mf_dist *dist);

#endif
