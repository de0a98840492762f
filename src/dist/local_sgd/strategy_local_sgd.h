/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_local_sgd.h - groups of workers that train apart and average their variables, inside:
 * strategy_local_sgd.c (the team), group_assign.c (which groups are ours), group_step.c (a step of
 * each), group_average.c (they become one again), group_aggregate.c (weights that are aggregated in
 * another way), group_messages.c (what is told then), group_convergence.c (which have converged).
 */
#ifndef MF_DIST_LOCAL_SGD_STRATEGY_LOCAL_SGD_H
#define MF_DIST_LOCAL_SGD_STRATEGY_LOCAL_SGD_H

#include "dist/data_parallel/gradient_allreduce.h"
#include "dist/job_members.h"
#include "dist/local_sgd/worker_groups.h"
#include "train/loop/convergence.h"

typedef enum mf_local_slots { MF_SLOTS_AVERAGE, MF_SLOTS_KEEP, MF_SLOTS_RESET } mf_local_slots;

/* A step of a group. */
typedef struct mf_local_step {
    double loss; /* mean over its samples */
    int64_t samples; /* 0: there is no loss */
} mf_local_step;

/* A group that this worker does, alone or with others. */
typedef struct mf_local_group {
    int group;
    mf_tensor *state; /* its variables, by the trainer's number, while it is not in hand; the first
                         of ours is in the trainer's variables between steps, and has NULL */
    mf_share rows; /* of the batch at hand */
    /* since the last average: */
    int64_t samples;
    mf_local_step *steps;
    int64_t n_steps, cap_steps;
} mf_local_group;

/* What all had in common after the last average. */
typedef struct mf_local_commit {
    int64_t step; /* -1: there was none */
    int64_t epoch, first;
    mf_train_progress standing;
    mf_tensor *values; /* by variable; NULL: nobody will ask for them */
    int64_t ns; /* when it was, by our clock */
} mf_local_commit;

/* What is known of the convergence of groups, the same for all workers. */
typedef struct mf_local_verdict {
    bool on; /* something is known, */
    mf_convergence_options rules; /* by these rules */
    int64_t step; /* up to this one */
    double seconds; /* of training so far: the clock of the machines */
    double loss; /* of the last step, mean over all groups */
    mf_progress_state state; /* of the job: converged where the last groups are */
    char why[800]; /* a sentence */
} mf_local_verdict;

typedef struct mf_local_sgd {
    mf_strategy strategy; /* first */
    mf_dist dist;
    mf_net *net; /* NULL: there is nobody else, or they come and go: */
    mf_job_members members; /* the team's */
    mf_segment *alone; /* where one meets itself */
    char *collective;
    int64_t period; /* steps */
    mf_local_slots slots;
    mf_aggregation aggregation; /* of what groups have changed of the weights */
    double *weights; /* of groups, for it */
    int64_t n_weights;
    int64_t wanted; /* groups; 0: as many as there are workers at first */
    int first_size; /* workers at first */
    /* of the trainer */
    mf_trainer *trainer; /* NULL: none is here */
    bool *averaged; /* by variable */
    bool *aggregated; /* by variable: weights, where aggregation is not the mean */
    mf_tensor *initial; /* by variable; empty: it is not reset */
    mf_local_commit commit;
    /* what is ours; see mf_local_assign() */
    mf_worker_groups groups;
    uint32_t next_group_id; /* of groups of tasks */
    mf_local_group *own;
    int64_t n_own;
    mf_group *exchange_group; /* those who do our group with us; NULL: nobody */
    mf_gradient_allreduce *sums;
    /* of the step at hand */
    mf_tensor *rows; /* by feed: ours of a group */
    const mf_tensor **feeds;
    mf_tensor clock, inverse; /* that are fed */
    mf_tensor *totals; /* by fetch: over our groups */
    bool wants_stop; /* since the last average */
    mf_local_verdict verdict;
    bool watched; /* somebody has asked us to judge */
    mf_convergence *machines; /* by group; NULL: nothing is known */
} mf_local_sgd;

static inline mf_net *mf_local_net(const mf_local_sgd *l)
{
    return l->dist.members ? l->members.net : l->net;
}

/* ---- group_assign.c ---- */

/* Groups are dealt out to the workers that there are; all of ours have the trainer's variables.
 * Collective. */
MF_MUST mf_status mf_local_assign(mf_local_sgd *l);
/* Nothing is ours any more; the trainer goes on. */
void mf_local_release(mf_local_sgd *l);
/* The same, when its session has gone. */
void mf_local_unassign(mf_local_sgd *l);

/* ---- group_step.c ---- */

MF_MUST mf_status mf_local_init_step(mf_local_sgd *l);
void mf_local_deinit_step(mf_local_sgd *l);
/* Of so many samples, all groups' together. */
MF_MUST mf_status mf_local_begin_step(mf_local_sgd *l, int64_t step, int64_t samples);
/* mf_dist_step_ops.run. */
MF_MUST mf_status mf_local_run(mf_dist *dist, mf_trainer *t, const mf_run_options *options,
                               const struct mf_loop_call *call);

/* ---- group_messages.c ---- */

/* Of a group; then come its steps. */
typedef struct mf_local_group_note {
    int64_t samples;
    double moved, norm; /* of its weights, since the last average; NAN: nobody has looked */
    mf_local_step steps[];
} mf_local_group_note;

/* What everybody has to say since the last average. */
typedef struct mf_local_notes {
    char *all;
    int step_flags;
    double seconds; /* since then, by the first worker's clock */
    bool judged; /* somebody wants groups to be, */
    mf_convergence_options rules; /* by these */
    int64_t n_steps;
    const mf_local_group_note *groups[MF_MOST_GROUPS]; /* by place */
    int64_t samples[MF_MOST_GROUPS]; /* by place */
} mf_local_notes;

/* How many of its groups a worker speaks for: all or none. */
int64_t mf_uds_spoken_for(const mf_local_sgd *l, int rank);
/* Collective. Owns: mf_local_notes_deinit(), also after a failure. */
MF_MUST mf_status mf_local_compare_notes(mf_local_sgd *l, const mf_collective *c,
                                         mf_local_notes *out);
void mf_local_notes_deinit(mf_local_notes *n);

/* ---- group_convergence.c ---- */

/* mf_dist_convergence_ops.watch and .verdict. */
MF_MUST mf_status mf_local_watch(mf_dist *dist, const mf_convergence_options *rules);
mf_progress_state mf_local_tell(const mf_dist *dist, const char **why, double *loss);
/* Everybody knows what the furthest knows. Collective. */
MF_MUST mf_status mf_local_align_verdict(mf_local_sgd *l);
/* mf_dist_state_ops.before_save: what is known goes into the checkpoint. */
MF_MUST mf_status mf_local_before_save(mf_dist *dist, mf_trainer *t);
/* Who has converged? *ends: raised where all have. *leave: some have, and are marked as gone. */
MF_MUST mf_status mf_local_judge(mf_local_sgd *l, const mf_local_notes *notes, bool *ends,
                                 bool *leave);

/* ---- group_average.c ---- */

MF_MUST mf_status mf_local_init_average(mf_local_sgd *l);
void mf_local_deinit_average(mf_local_sgd *l);
/* All groups have the mean of their variables, unless they have it already. *stop: raised where
 * somebody wants to. Collective. */
MF_MUST mf_status mf_local_average(mf_local_sgd *l, bool *stop);
/* The variable has this value in all groups that are ours. The value moves. */
void mf_local_give(mf_local_sgd *l, int64_t variable, mf_tensor *value);
/* What there is now is what all have in common. */
MF_MUST mf_status mf_local_commit_now(mf_local_sgd *l);
/* Steps since the last average are undone. */
void mf_local_go_back(mf_local_sgd *l);

/* ---- group_aggregate.c ---- */

/* Does the aggregation treat this variable? The others are averaged, if at all. */
bool mf_local_aggregates(const mf_local_sgd *l, int64_t variable);
/* Such weights become what they were after the last average, plus the aggregate of what each group
 * has changed of them since. samples: by place. Groups without samples have no part in it.
 * Collective. */
MF_MUST mf_status mf_local_aggregate(mf_local_sgd *l, const mf_collective *c,
                                     const int64_t *samples);

#endif
