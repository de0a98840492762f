/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_local_sgd.h - the inside of local_sgd: strategy_local_sgd.c (the strategy),
 * group_assign.c (which groups this worker has), group_step.c (a step of each), group_average.c
 * (averages), group_aggregate.c (other aggregations of weights), group_messages.c (what is
 * exchanged then), group_convergence.c (which groups have converged). */
#ifndef MF_DIST_LOCAL_SGD_STRATEGY_LOCAL_SGD_H
#define MF_DIST_LOCAL_SGD_STRATEGY_LOCAL_SGD_H

#include "dist/data_parallel/gradient_allreduce.h"
#include "dist/job_members.h"
#include "dist/local_sgd/worker_groups.h"
#include "train/loop/convergence.h"

/* A step of a group. */
typedef struct mf_local_step {
    double loss; /* mean over its samples */
    int64_t samples; /* 0: there is no loss */
} mf_local_step;

/* A group that this worker computes, alone or with others. */
typedef struct mf_local_group {
    int group;
    mf_tensor *state; /* its variables, in the trainer's order, while they are not the trainer's;
                         NULL between steps for this worker's first group, whose variables the
                         trainer has */
    mf_share rows; /* of the current batch */
    /* since the last average: */
    int64_t samples;
    mf_local_step *steps;
    int64_t n_steps, cap_steps;
} mf_local_group;

/* The common state after the last average. */
typedef struct mf_local_commit {
    int64_t step; /* -1: there was none */
    int64_t epoch, first;
    mf_train_progress progress;
    mf_tensor *values; /* by variable; NULL: not needed */
    int64_t ns; /* its time, by the local clock */
} mf_local_commit;

/* The convergence of groups, equal on all workers. */
typedef struct mf_local_verdict {
    bool on; /* groups are judged, */
    mf_convergence_options rules; /* by these rules */
    int64_t step; /* up to this one */
    double seconds; /* of training so far: the clock of the state machines */
    double loss; /* of the last step, mean over all groups */
    mf_progress_state state; /* of the job: converged where the last groups are */
    char why[800]; /* a sentence */
} mf_local_verdict;

typedef struct mf_local_sgd {
    mf_strategy strategy; /* first */
    mf_dist dist;
    mf_net *net; /* NULL: one process only, or an elastic job: */
    mf_job_members members; /* dist.members */
    mf_segment *alone; /* memory of a group of one */
    char *collective;
    int64_t period; /* steps */
    mf_local_slots slots;
    mf_aggregation aggregation; /* of the changes of weights by groups */
    double *weights; /* of groups, for it */
    int64_t n_weights;
    int64_t wanted; /* groups; 0: the initial number of workers */
    int first_size; /* workers at first */
    /* of the trainer */
    mf_trainer *trainer; /* NULL: none is here */
    bool *averaged; /* by variable */
    bool *aggregated; /* by variable: weights, where aggregation is not the mean */
    mf_tensor *initial; /* by variable; empty: it is not reset */
    mf_local_commit commit;
    /* this worker's assignment; see mf_local_assign() */
    mf_worker_groups groups;
    uint32_t next_group_id; /* of groups of tasks */
    mf_local_group *own;
    int64_t n_own;
    mf_group *exchange_group; /* the workers that share this worker's group; NULL: none */
    mf_gradient_allreduce *sums;
    /* of the current step */
    mf_tensor *rows; /* by feed: this worker's rows of a group */
    const mf_tensor **feeds;
    mf_tensor clock, inverse; /* that are fed */
    mf_tensor *totals; /* by fetch: over this worker's groups */
    bool wants_stop; /* since the last average */
    mf_local_verdict verdict;
    bool watched; /* mf_dist_convergence_ops.watch was called */
    mf_convergence *machines; /* by group; NULL: groups are not judged */
} mf_local_sgd;

static inline mf_net *mf_local_net(const mf_local_sgd *l)
{
    return l->dist.members ? l->members.net : l->net;
}

/* ---- group_assign.c ---- */

/* Assign groups to the workers of the job; all groups of this worker start from the trainer's
 * variables. Collective. */
MF_MUST mf_status mf_local_assign(mf_local_sgd *l);
/* End the assignment; the trainer remains. */
void mf_local_release(mf_local_sgd *l);
/* The same, after the trainer's session was freed. */
void mf_local_unassign(mf_local_sgd *l);

/* ---- group_step.c ---- */

MF_MUST mf_status mf_local_init_step(mf_local_sgd *l);
void mf_local_deinit_step(mf_local_sgd *l);
/* Of so many samples, over all groups. */
MF_MUST mf_status mf_local_begin_step(mf_local_sgd *l, int64_t step, int64_t samples);
/* mf_dist_step_ops.run. */
MF_MUST mf_status mf_local_run(mf_dist *dist, mf_trainer *t, const mf_run_options *options,
                               const struct mf_loop_call *call);

/* ---- group_messages.c ---- */

/* Of a group; its steps follow. */
typedef struct mf_local_group_note {
    int64_t samples;
    double moved, norm; /* of its weights, since the last average; NAN: not measured */
    mf_local_step steps[];
} mf_local_group_note;

/* The messages of all workers since the last average. */
typedef struct mf_local_notes {
    char *all;
    int step_flags;
    double seconds; /* since then, by the first worker's clock */
    bool judged; /* a worker asks that groups be judged, */
    mf_convergence_options rules; /* by these */
    int64_t n_steps;
    const mf_local_group_note *groups[MF_MOST_GROUPS]; /* by place */
    int64_t samples[MF_MOST_GROUPS]; /* by place */
} mf_local_notes;

/* How many of its groups a worker represents: all or none. */
int64_t mf_local_spoken_for(const mf_local_sgd *l, int rank);
/* Collective. Owns: mf_local_notes_deinit(), also after a failure. */
MF_MUST mf_status mf_local_compare_notes(mf_local_sgd *l, const mf_collective *c,
                                         mf_local_notes *out);
void mf_local_notes_deinit(mf_local_notes *n);

/* ---- group_convergence.c ---- */

/* mf_dist_convergence_ops.watch and .verdict. */
MF_MUST mf_status mf_local_watch(mf_dist *dist, const mf_convergence_options *rules);
mf_progress_state mf_local_get_verdict(const mf_dist *dist, const char **why, double *loss);
/* All workers get the convergence state that is furthest. Collective. */
MF_MUST mf_status mf_local_align_verdict(mf_local_sgd *l);
/* mf_dist_state_ops.before_save: the convergence state goes into the checkpoint. */
MF_MUST mf_status mf_local_before_save(mf_dist *dist, mf_trainer *t);
/* Judge the groups. *ends: raised if all have converged. *leave: some have, and are marked as
 * ended. */
MF_MUST mf_status mf_local_judge(mf_local_sgd *l, const mf_local_notes *notes, bool *ends,
                                 bool *leave);

/* ---- group_average.c ---- */

MF_MUST mf_status mf_local_init_average(mf_local_sgd *l);
void mf_local_deinit_average(mf_local_sgd *l);
/* All groups get the mean of their variables, unless they have it already. *stop: raised if a
 * worker asks to stop. Collective. */
MF_MUST mf_status mf_local_average(mf_local_sgd *l, bool *stop);
/* Assign this value to the variable in all groups of this worker. Ownership of the value is
 * transferred. */
void mf_local_give(mf_local_sgd *l, int64_t variable, mf_tensor *value);
/* Record the current state as the common one. */
MF_MUST mf_status mf_local_commit_now(mf_local_sgd *l);
/* Steps since the last average are undone. */
void mf_local_go_back(mf_local_sgd *l);

/* ---- group_aggregate.c ---- */

/* Does the aggregation apply to this variable? Others are averaged, if at all. */
bool mf_local_aggregates(const mf_local_sgd *l, int64_t variable);
/* Such weights become those of the last average plus the aggregate of the groups' changes since.
 * samples: by place. Groups without samples do not count. Collective. */
MF_MUST mf_status mf_local_aggregate(mf_local_sgd *l, const mf_collective *c,
                                     const int64_t *samples);

#endif
