/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - the workers that train one model together, as the loop sees them. parallel/ makes teams.
 *
 * Every worker runs the same loop over the same batches and takes its shards of each. Sums go
 * through the exchange. What all have to do at the same time besides steps goes through `group`,
 * which only the loop's thread uses. */
#ifndef MF_TRAIN_LOOP_TEAM_H
#define MF_TRAIN_LOOP_TEAM_H

#include "base/buf.h"
#include "base/int_ranges.h"
#include "collective/group.h"
#include "graph/step_exchange.h"
#include "train/checkpoint/aux_state.h"
#include "train/checkpoint/output_lock.h"
#include "train/loop/convergence.h"

#include <meshflow/session.h>
#include <meshflow/strategy.h>

#include <stdatomic.h>

struct mf_loop_call;
struct mf_holders;
struct mf_job_members;
struct mf_names;
struct mf_snapshot;
struct mf_train_var;
struct mf_trainer;
struct mf_variable;
typedef struct mf_dist_worker mf_dist_worker;

struct mf_strategy {
    mf_dist_worker *team; /* NULL: nobody else */
    atomic_bool stop; /* mf_strategy_stop() */
    atomic_int refs; /* the caller's, and one for each trainer */
    bool shown; /* there is a board, to be closed with it */
    void (*close)(mf_strategy *strategy);
};

/* A trainer keeps its strategy: mf_strategy_close() releases the caller's reference only. The last
 * one closes it. */
void mf_strategy_ref(mf_strategy *strategy);
void mf_strategy_unref(mf_strategy *strategy);

typedef struct mf_dist_worker_lease {
    int64_t total; /* batches of the training */
    int64_t save_every; /* there is to be a checkpoint of every so many; 0: none */
    /* The answer: */
    int64_t batch; /* counted from 0 */
    bool over; /* there is none */
    bool save; /* the chief: all batches so far are done, and those to come wait until they are
                  saved; ask again then */
} mf_dist_worker_lease;

typedef struct mf_dist_worker_kind {
    /* The trainer is there: let it exchange. */
    mf_status (*join)(mf_dist_worker *team, struct mf_trainer *t);
    /* The trainer goes; its session has gone already. Also after a join that has failed. May be
     * NULL. */
    void (*leave)(mf_dist_worker *team, struct mf_trainer *t);
    /* Before the first step: how much of each shard's data this worker has near. It may have other
     * shards then. Collective. NULL: that makes no difference. */
    mf_status (*near)(mf_dist_worker *team, const double *near);
    /* A step of so many samples, all workers' together, begins. wants_stop: this worker would like
     * the step to be the last one. */
    mf_status (*begin_step)(mf_dist_worker *team, int64_t step, int64_t samples, bool wants_stop);
    /* Run the step on the samples that this process has. NULL: mf_trainer_call() does it. */
    mf_status (*run)(mf_dist_worker *team, struct mf_trainer *t, const mf_run_options *options,
                     const struct mf_loop_call *call);
    /* Which samples of a batch of so many this process needs for this call, a step of which the
     * first n feeds are such samples; of the feeds only types and shapes are there. NULL: those of
     * its shards. Owns: mf_ranges_deinit(out). */
    mf_status (*rows)(mf_dist_worker *team, const struct mf_loop_call *call, int n, int64_t whole,
                      mf_ranges *out);
    /* Run these, which are no step, on samples that all workers have: tests, predictions.
     * Collective. NULL: each worker runs them for itself, and tests on its part of the batches. */
    mf_status (*infer)(mf_dist_worker *team, const struct mf_names *names);
    /* The step was done. *stop: somebody wanted it to be the last one. From the next one on this
     * worker may have other shards. */
    mf_status (*end_step)(mf_dist_worker *team, int64_t step, bool *stop);
    /* From here on all need the same variables, to be evaluated or written. Collective. *stop:
     * raised where somebody wants to. NULL: they are the same after each step. */
    mf_status (*settle)(mf_dist_worker *team, bool *stop);
    /* Where groups have variables of their own: judge the convergence of each by these rules, from
     * here on. One worker that asks is enough. NULL: all have the same. */
    mf_status (*watch)(mf_dist_worker *team, const mf_convergence_options *rules);
    /* What has become of them: converged or diverged is the job's end, for *why. *loss: of the last
     * step before all have settled, over all groups. */
    mf_progress_state (*verdict)(const mf_dist_worker *team, const char **why, double *loss);
    /* This worker cannot go on: others need not wait. */
    void (*failed)(mf_dist_worker *team, mf_status why);
    /* Come together: for the first time (why is MF_OK), because somebody comes or leaves (the
     * same), or because something that all do together has failed with `why`. Afterwards rank, size
     * and shards may be others, and nobody knows yet how far the others are. Fails with the
     * thread's error where that is no matter of others. NULL, or without `members`: all have met
     * already, and nobody may be missing. */
    mf_status (*meet)(mf_dist_worker *team, struct mf_trainer *t, mf_status why);
    /* What the team keeps besides variables: brought together in the chief's list `extra`, by all
     * at the same step; and taken from everybody's. NULL: it keeps nothing. */
    mf_status (*collect)(mf_dist_worker *team, int64_t step);
    mf_status (*restore)(mf_dist_worker *team, int64_t step);
    void (*traffic)(const mf_dist_worker *team, mf_traffic *out);
    /* Who holds what of the trainer's variable i; *step: after which the trainer's own copy is so.
     * NULL: every worker has all of it, as it is now. */
    mf_status (*holders)(mf_dist_worker *team, const struct mf_trainer *t, int64_t i,
                         struct mf_holders *out, int64_t *step);
    /* What this process holds of the trainer's variable i besides the trainer: fn for each piece of
     * it. Between steps. NULL: nothing. */
    mf_status (*each_slice)(mf_dist_worker *team, const struct mf_trainer *t, int64_t i,
                            mf_status (*fn)(void *ctx, struct mf_variable *slice), void *ctx);
    /* The chief: let others that are no workers note what they do, `origin` being time 0; and their
     * events, each behind a comma. NULL: there are no others. */
    mf_status (*trace_begin)(mf_dist_worker *team, int64_t origin);
    mf_status (*trace_end)(mf_dist_worker *team, mf_buf *events);
    /* There is a checkpoint that the training can go on from, should all workers be lost. May be
     * NULL. */
    mf_status (*note_saved)(mf_dist_worker *team);
    /* All workers have the chief's variables. May be NULL. */
    mf_status (*aligned)(mf_dist_worker *team, struct mf_trainer *t);
    /* The chief is about to save: let its variables be those of the job. May be NULL. */
    mf_status (*before_save)(mf_dist_worker *team, struct mf_trainer *t);
    /* All have done their last step, and the chief is about to write PREFIX: let others write what
     * they hold of it (mf_snapshot_add_part). Without parts before_save is asked instead. May be
     * NULL. */
    mf_status (*save_parts)(mf_dist_worker *team, struct mf_trainer *t, const char *prefix,
                            struct mf_snapshot *s);
    /* Which batch of the training is next for this worker. NULL: all workers share every batch. */
    mf_status (*lease)(mf_dist_worker *team, mf_dist_worker_lease *lease);
    /* How many batches of the training all workers together have done, as far as this one knows.
     * With lease() only. */
    int64_t (*progress)(const mf_dist_worker *team);
    /* This worker has done its last step. All of them do the same from here on. May be NULL. */
    mf_status (*finish)(mf_dist_worker *team, struct mf_trainer *t);
    /* The result of the job is on disk, or there was to be none. May be NULL. */
    mf_status (*over)(mf_dist_worker *team);
    /* Instead of training: serve until it is over. NULL: this is a worker. */
    mf_status (*serve)(mf_dist_worker *team, struct mf_trainer *t);
} mf_dist_worker_kind;

enum { MF_DIST_WORKER_STREAMS = 64 };

struct mf_dist_worker {
    const mf_dist_worker_kind *kind;
    int rank, size;
    bool lockstep; /* all workers do the same at the same time: they may share an evaluation */
    bool saves_between; /* workers with batches of their own wait for checkpoints:
                           mf_dist_worker_lease.save */
    bool pulls; /* weights come back from the exchange instead of gradients */
    bool apart; /* a worker's part of a batch is a batch of its own; all know the same only when
                   they have settled */
    int64_t own_samples; /* then: of the step at hand, that results are about; by begin_step */
    bool in_slices; /* variables are the team's while steps run; the trainer has them when it has
                       settled, or somebody has said before end_step that it looks at them */
    bool looks; /* this worker does, after the step at hand */
    bool one_updates; /* only the chief has the optimizer's slots */
    int64_t shards, first_shard, n_shards; /* of a batch, and which are ours; set by join */
    int64_t part_first, part_n; /* and of what these have: see mf_iterator_options */
    int64_t cuts; /* counts up when rows() would answer otherwise than before */
    int n_rows; /* of the step at hand: so many feeds have only what rows() said; 0: none */
    int64_t samples, samples_read; /* of the batches of all steps; and by this process */
    /* How near batches are to this worker, where it leases them: batch b as near[b % n_near], 0 to
     * 255. n_near 0: nothing is known. */
    uint8_t near[MF_DIST_WORKER_STREAMS];
    int64_t n_near;
    char job[MF_JOB_ID]; /* id of the job, the same for all tasks; "": each task has its own */
    struct mf_job_members *members; /* job/ knows: tasks come and go; NULL: all must stay */
    mf_group *group; /* NULL: there is one process only, or we have not met */
    int64_t meetings; /* how often we have met; by mf_dist_worker_gather_round() */
    /* Nobody has any state: the first worker shall make it. NULL: what is there is good enough. */
    mf_status (*begin)(void *ctx);
    void *begin_ctx;
    bool lost; /* by meet(): others have trained before us; if nobody has the weights, they are lost
                */
    bool saved; /* by meet(): and have written a checkpoint */
    bool stopped; /* the job was stopped before its end */
    bool over; /* by meet(), which has failed: all has been done without us */
    bool anew; /* by mf_dist_worker_align(): nobody had anything, so training begins, or goes on
                  from a checkpoint */
    atomic_bool leaves; /* this worker wants to leave: mf_strategy_leave() */
    bool leaving; /* and has said so */
    bool left; /* by meet(), which has failed with CANCELLED: the others go on without us */
    bool changes; /* somebody wants to come or leave: meet again before the next step */
    int64_t timeout_ns; /* of everything that is done together */
    mf_aux_state_list extra; /* the chief's, on the way from or to a checkpoint */
    bool collected, restored; /* it is what there is after the last step; what a checkpoint had */
};

static inline bool mf_dist_worker_is_chief(const mf_dist_worker *team)
{
    return !team || team->rank == 0;
}

/* Shards are dealt out evenly, neighbours to one worker: the first of this rank. */
static inline int64_t mf_dist_worker_first_shard(const mf_dist_worker *team, int rank)
{
    return team->shards * rank / team->size;
}

static inline void mf_dist_worker_deal_shards(mf_dist_worker *team, int64_t shards)
{
    team->shards = shards;
    team->first_shard = mf_dist_worker_first_shard(team, team->rank);
    team->n_shards = mf_dist_worker_first_shard(team, team->rank + 1) - team->first_shard;
}

/* Are there groups, whose convergence is the team's business? */
static inline bool mf_dist_worker_judges(const mf_dist_worker *team)
{
    return team && team->kind->watch;
}

/* What a collective of the loop carries. */
mf_collective mf_dist_worker_call(const mf_dist_worker *team, int64_t step, const char *what);

/* Everybody gets what the one has that is furthest, the first of these: variables, what it keeps
 * for the team, place in the data and trainer's standing. Collective. */
MF_MUST mf_status mf_dist_worker_align(mf_dist_worker *team, struct mf_trainer *t);
/* May something that has failed be tried again with those who are there? */
static inline bool mf_dist_worker_meets(const mf_dist_worker *team)
{
    return team && team->members && team->kind->meet;
}
/* Meet and align, until both have worked: see mf_dist_worker_kind.meet. */
MF_MUST mf_status mf_dist_worker_gather_round(mf_dist_worker *team, struct mf_trainer *t,
                                              mf_status why);
/* Is there something to be kept besides variables? */
static inline bool mf_dist_worker_keeps(const mf_dist_worker *team)
{
    return team && team->kind->collect;
}
/* Everybody gets this variable of `root`'s. */
MF_MUST mf_status mf_dist_worker_give(mf_dist_worker *team, int root, const struct mf_train_var *v,
                                      int64_t step);
/* All variables that everybody has, or none: after a failure all have what they had. */
MF_MUST mf_status mf_dist_worker_give_all(mf_dist_worker *team, int root, struct mf_trainer *t,
                                          int64_t step);
/* Everybody's bytes, `size` of each, by rank: there is a group. */
MF_MUST mf_status mf_dist_worker_gather(mf_dist_worker *team, int64_t step, const char *what,
                                        const void *mine, int64_t size, void *all);
/* Wait for all: there is a group. */
MF_MUST mf_status mf_dist_worker_meet(mf_dist_worker *team, int64_t step, const char *what);

#endif
