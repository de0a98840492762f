/* SPDX-License-Identifier: Apache-2.0 */
/* local_sgd.h - groups of workers that train apart and average their variables, inside: local_sgd.c
 * (the team), local_deal.c (which groups are ours), local_step.c (a step of each), local_average.c
 * (they become one again). */
#ifndef MF_JOB_LOCAL_SGD_H
#define MF_JOB_LOCAL_SGD_H

#include "job/groups.h"
#include "job/strategies.h"
#include "parallel/sums.h"

typedef enum mf_local_slots { MF_SLOTS_AVERAGE, MF_SLOTS_KEEP, MF_SLOTS_RESET } mf_local_slots;

/* A group that this worker does, alone or with others. */
typedef struct mf_local_group {
    int group;
    mf_tensor *state; /* its variables, by the trainer's number, while it is not in hand; the first
                         of ours is in the trainer's variables between steps, and has NULL */
    mf_share rows; /* of the batch at hand */
    int64_t samples; /* since the last average */
} mf_local_group;

/* What all had in common after the last average. */
typedef struct mf_local_commit {
    int64_t step; /* -1: there was none */
    int64_t epoch, first;
    mf_standing standing;
    mf_tensor *values; /* by variable; NULL: nobody will ask for them */
} mf_local_commit;

typedef struct mf_local_sgd {
    mf_strategy strategy; /* first */
    mf_team team;
    mf_net *net; /* NULL: there is nobody else, or they come and go: */
    bool changes;
    mf_job_members members;
    mf_segment *alone; /* where one meets itself */
    char *collective;
    int64_t period; /* steps */
    mf_local_slots slots;
    int64_t wanted; /* groups; 0: as many as there are workers at first */
    int first_size; /* workers at first */
    /* of the trainer */
    mf_trainer *trainer; /* NULL: none is here */
    bool *averaged; /* by variable */
    mf_tensor *initial; /* by variable; empty: it is not reset */
    mf_local_commit commit;
    /* what is ours; see mf_local_deal() */
    mf_groups groups;
    uint32_t next_group_id; /* of groups of tasks */
    mf_local_group *own;
    int64_t n_own;
    mf_group *exchange_group; /* those who do our group with us; NULL: nobody */
    mf_sums *sums;
    /* of the step at hand */
    int64_t samples; /* of the whole batch */
    mf_tensor *rows; /* by feed: ours of a group */
    const mf_tensor **feeds;
    mf_tensor clock, inverse; /* that are fed */
    mf_tensor *totals; /* by fetch: over our groups */
    bool wants_stop; /* since the last average */
} mf_local_sgd;

static inline mf_net *mf_local_net(const mf_local_sgd *l)
{
    return l->changes ? l->members.net : l->net;
}

/* ---- local_deal.c ---- */

/* Groups are dealt out to the workers that there are; all of ours have the trainer's variables.
 * Collective. */
MF_MUST mf_status mf_local_deal(mf_local_sgd *l);
/* Nothing is ours any more; the trainer goes on. */
void mf_local_part(mf_local_sgd *l);
/* The same, when its session has gone. */
void mf_local_undeal(mf_local_sgd *l);

/* ---- local_step.c ---- */

MF_MUST mf_status mf_local_init_step(mf_local_sgd *l);
void mf_local_deinit_step(mf_local_sgd *l);
/* Of so many samples, all groups' together. */
MF_MUST mf_status mf_local_begin_step(mf_local_sgd *l, int64_t step, int64_t samples);
/* mf_team_kind.run. */
MF_MUST mf_status mf_local_run(mf_team *team, mf_trainer *t, const mf_run_options *options,
                               const struct mf_call *call);

/* ---- local_average.c ---- */

MF_MUST mf_status mf_local_init_average(mf_local_sgd *l);
void mf_local_deinit_average(mf_local_sgd *l);
/* All groups have the mean of their variables, unless they have it already. *stop: raised where
 * somebody wants to. Collective. */
MF_MUST mf_status mf_local_average(mf_local_sgd *l, bool *stop);
/* What there is now is what all have in common. */
MF_MUST mf_status mf_local_commit_now(mf_local_sgd *l);
/* Steps since the last average are undone. */
void mf_local_go_back(mf_local_sgd *l);

#endif
