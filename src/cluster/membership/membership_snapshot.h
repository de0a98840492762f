/* SPDX-License-Identifier: Apache-2.0 */
/* membership_snapshot.h - what a store holds about a job's members, and the view that follows from
 * it. */
#ifndef MF_CLUSTER_MEMBERSHIP_MEMBERSHIP_SNAPSHOT_H
#define MF_CLUSTER_MEMBERSHIP_MEMBERSHIP_SNAPSHOT_H

#include "cluster/membership/membership.h"

/* The value of "over", of a job that was stopped before its end. */
#define MF_STOPPED "stopped"

/* The contents of the store at one moment. */
typedef struct mf_membership_snapshot {
    mf_view view; /* epoch 0: none */
    int64_t version; /* of the view */
    mf_member *here; /* tasks that are registered, by key */
    bool *leaves; /* by place in here */
    int n_here;
    struct mf_suspicion *suspicions; /* between registered tasks */
    int n_suspicions;
    bool over, stopped; /* stopped: before its end */
    int64_t revision;
} mf_membership_snapshot;

/* Places in `here`. */
typedef struct mf_suspicion {
    int of, in;
} mf_suspicion;

/* Owns: mf_membership_snapshot_deinit(), also after a failure. DATA_LOSS: the contents of the store
 * are invalid. */
MF_MUST mf_status mf_membership_snapshot_read(const mf_store_entries *all,
                                              mf_membership_snapshot *s);
void mf_membership_snapshot_deinit(mf_membership_snapshot *s);

/* Its place; -1: this process is not there. */
int mf_membership_snapshot_find(const mf_membership_snapshot *s, const mf_member *m);
int mf_view_find(const mf_view *v, const mf_member *m);
/* Does this process suspect a member of the view, or a member this process? */
bool mf_membership_snapshot_is_suspected(const mf_membership_snapshot *s, const mf_member *m,
                                         const mf_view *v);
/* Is any member of the view still registered? */
bool mf_membership_snapshot_anybody_left(const mf_membership_snapshot *s);

/* The first view, of tasks of these names, if all are registered. *missing: an absent task, or
 * NULL. Owns: mf_view_deinit(out), also after a failure. */
MF_MUST mf_status mf_membership_snapshot_first(const mf_membership_snapshot *s,
                                               const char *const *names, int n, mf_view *out,
                                               const char **missing);
/* The next view: registered members of the last view, except leaving ones, then all other
 * registered tasks, unless the job is over. As long as two of these suspect each other, the one
 * with the most suspicions (its own and those against it) is excluded; of several with equally
 * many, the last. So a member that no other reaches is excluded by all others, and so is a member
 * without any connection. The same ownership. */
MF_MUST mf_status mf_membership_snapshot_next(const mf_membership_snapshot *s, mf_view *out);

#endif
