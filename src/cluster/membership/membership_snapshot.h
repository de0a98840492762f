/* SPDX-License-Identifier: Apache-2.0 */
/* membership_snapshot.h - what a store says of a job's members, and which view is to follow from
 * it. */
#ifndef MF_CLUSTER_MEMBERSHIP_MEMBERSHIP_SNAPSHOT_H
#define MF_CLUSTER_MEMBERSHIP_MEMBERSHIP_SNAPSHOT_H

#include "cluster/membership/membership.h"

/* The value of "over", of a job that was stopped before its end. */
#define MF_STOPPED "stopped"

/* All that the store has, as it was at one moment. */
typedef struct mf_membership_snapshot {
    mf_view view; /* epoch 0: none */
    int64_t version; /* of the view */
    mf_member *here; /* tasks that are registered, by key */
    bool *leaves; /* by place in here */
    int n_here;
    struct mf_doubt *doubts; /* of those who are registered, in others who are */
    int n_doubts;
    bool over, stopped; /* stopped: before its end */
    int64_t revision;
} mf_membership_snapshot;

/* Places in `here`. */
typedef struct mf_doubt {
    int of, in;
} mf_doubt;

/* Owns: mf_membership_snapshot_deinit(), also after a failure. DATA_LOSS: what the store has makes
 * no sense. */
MF_MUST mf_status mf_membership_snapshot_read(const mf_store_entries *all,
                                              mf_membership_snapshot *s);
void mf_membership_snapshot_deinit(mf_membership_snapshot *s);

/* Its place; -1: this process is not there. */
int mf_membership_snapshot_find(const mf_membership_snapshot *s, const mf_member *m);
int mf_view_find(const mf_view *v, const mf_member *m);
/* Does this process doubt one of the view, or one of the view this process? */
bool mf_membership_snapshot_is_doubted(const mf_membership_snapshot *s, const mf_member *m,
                                       const mf_view *v);
/* Is anybody of the view still there? */
bool mf_membership_snapshot_anybody_left(const mf_membership_snapshot *s);

/* The first view, of tasks of these names, if all are there. *missing: one that is not; NULL. Owns:
 * mf_view_deinit(out), also after a failure. */
MF_MUST mf_status mf_membership_snapshot_first(const mf_membership_snapshot *s,
                                               const char *const *names, int n, mf_view *out,
                                               const char **missing);
/* The next one: those of the last that are there and want to stay, then all others, unless the job
 * is over; but of those who doubt each other only some: whoever has the most doubts, its own and
 * others', is left out, and of several who have as many the last; until nobody is doubted any more.
 * So a member that nobody reaches is left out by all others together, and one that reaches nobody
 * is, too. The same. */
MF_MUST mf_status mf_membership_snapshot_next(const mf_membership_snapshot *s, mf_view *out);

#endif
