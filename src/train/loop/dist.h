/* SPDX-License-Identifier: Apache-2.0 */
/* dist.h - distributed training as the training loop sees it. Strategies (dist/) implement it.
 *
 * Every worker runs the same loop over the same batches and computes its shards of each batch.
 * Gradients and weights travel through the step's exchange. All other collectives of the loop use
 * `group`, from the loop's thread only.
 *
 * What the loop asks is split by concern into tables of functions. A table or an entry that is NULL
 * has the default behaviour that the entry's comment states; the functions mf_dist_*() below apply
 * it, also where there is no mf_dist at all (NULL: this process trains alone). */
#ifndef MF_TRAIN_LOOP_DIST_H
#define MF_TRAIN_LOOP_DIST_H

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
typedef struct mf_dist mf_dist;

struct mf_strategy {
    mf_dist *dist; /* NULL: this process trains alone */
    atomic_bool stop; /* mf_strategy_stop() */
    atomic_int refs; /* the caller's, and one for each trainer */
    bool shown; /* there is a status page, closed with the strategy */
    void (*close)(mf_strategy *strategy);
};

/* A trainer holds a reference of its strategy: mf_strategy_close() releases the caller's reference
 * only. The last release closes the strategy. */
void mf_strategy_ref(mf_strategy *strategy);
void mf_strategy_unref(mf_strategy *strategy);

/* ---- what a strategy implements ---- */

/* Required, with join and failed. */
typedef struct mf_dist_lifecycle_ops {
    /* A trainer was made: prepare its exchange. */
    mf_status (*join)(mf_dist *dist, struct mf_trainer *t);
    /* The trainer is being freed; its session is freed already. Also after a failed join. Default:
     * nothing. */
    void (*leave)(mf_dist *dist, struct mf_trainer *t);
    /* This worker has done its last step; all workers call this. Default: nothing. */
    mf_status (*finish)(mf_dist *dist, struct mf_trainer *t);
    /* The result of the job is on disk, or the job writes none. Default: nothing. */
    mf_status (*over)(mf_dist *dist);
    /* Instead of training: serve until the job is over. Default: this task is a worker. */
    mf_status (*serve)(mf_dist *dist, struct mf_trainer *t);
    /* This worker cannot continue: peers need not wait for it. */
    void (*failed)(mf_dist *dist, mf_status why);
} mf_dist_lifecycle_ops;

typedef struct mf_dist_lease {
    int64_t total; /* batches of the training */
    int64_t save_every; /* a checkpoint is wanted every N batches; 0: none */
    /* The answer: */
    int64_t batch; /* counted from 0 */
    bool over; /* no batch is left */
    bool save; /* the chief only: all leased batches are done, and no further batch is leased until
                  the chief has saved; then ask again */
} mf_dist_lease;

/* Required for workers, with begin_step and end_step. */
typedef struct mf_dist_step_ops {
    /* A step of `samples` samples, over all workers, begins. wants_stop: this worker asks that the
     * step be the last one. */
    mf_status (*begin_step)(mf_dist *dist, int64_t step, int64_t samples, bool wants_stop);
    /* Run the step on the samples that this process has. Default: mf_trainer_call(). */
    mf_status (*run)(mf_dist *dist, struct mf_trainer *t, const mf_run_options *options,
                     const struct mf_loop_call *call);
    /* Which samples of a batch of `whole` samples this process needs for this call, a step whose
     * first n feeds hold samples; only types and shapes of the feeds are set. Default: those of its
     * shards. Owns: mf_ranges_deinit(out). */
    mf_status (*rows)(mf_dist *dist, const struct mf_loop_call *call, int n, int64_t whole,
                      mf_ranges *out);
    /* Run an inference on samples that all workers have. Collective. Default: each worker runs it
     * alone, and evaluations run on its part of the batches. */
    mf_status (*infer)(mf_dist *dist, const struct mf_names *names);
    /* The step is done. *stop: a worker asked that it be the last one. From the next step on this
     * worker may have other shards. */
    mf_status (*end_step)(mf_dist *dist, int64_t step, bool *stop);
    /* From here on all workers need equal variables, to evaluate or to write them. Collective.
     * *stop: raised where a worker asks to stop. Default: variables are equal after each step. */
    mf_status (*settle)(mf_dist *dist, bool *stop);
    /* Which batch of the training is next for this worker. Default: all workers share every batch.
     */
    mf_status (*lease)(mf_dist *dist, mf_dist_lease *lease);
    /* How many batches of the training all workers have done, as far as this worker knows. Required
     * with lease. */
    int64_t (*progress)(const mf_dist *dist);
} mf_dist_step_ops;

typedef struct mf_dist_membership_ops {
    /* Connect the workers: for the first time, because tasks join or leave (why is MF_OK), or
     * because a collective has failed with `why`. On return all workers have equal state; rank,
     * size and shards may have changed. Fails with the thread's error where peers are not the
     * cause. Default, also without `members`: workers are connected when the strategy opens, and
     * none may be lost. */
    mf_status (*rendezvous)(mf_dist *dist, struct mf_trainer *t, mf_status why);
    /* All workers have the chief's variables. Default: nothing. */
    mf_status (*aligned)(mf_dist *dist, struct mf_trainer *t);
    /* A step is complete on this worker. Default: nothing. */
    void (*step_done)(mf_dist *dist, int64_t step);
    /* Before the first step: how much of each shard's data is local to this worker. Shards may be
     * assigned again. Collective. Default: locality is ignored. */
    mf_status (*near)(mf_dist *dist, const double *near);
} mf_dist_membership_ops;

typedef struct mf_dist_state_ops {
    /* The strategy's state besides variables (codec residuals): gather it in the chief's aux.list,
     * by all workers at the same step; and take it from every worker's aux.list. Default: there is
     * none. */
    mf_status (*collect)(mf_dist *dist, int64_t step);
    mf_status (*restore)(mf_dist *dist, int64_t step);
    /* Which task holds which part of the trainer's variable i; *step: the step that the trainer's
     * own copy belongs to. Default: every worker has all of it, up to date. */
    mf_status (*holders)(mf_dist *dist, const struct mf_trainer *t, int64_t i,
                         struct mf_holders *out, int64_t *step);
    /* Call fn for each slice of the trainer's variable i that this process holds besides the
     * trainer's. Between steps. Default: there is none. */
    mf_status (*each_slice)(mf_dist *dist, const struct mf_trainer *t, int64_t i,
                            mf_status (*fn)(void *ctx, struct mf_variable *slice), void *ctx);
    /* The chief is about to save: update its variables to the job's. Default: they are. */
    mf_status (*before_save)(mf_dist *dist, struct mf_trainer *t);
    /* All workers have done their last step, and the chief is about to write PREFIX: let other
     * tasks write the parts that they hold (mf_snapshot_add_part). Without parts before_save is
     * called instead. Default: no parts. */
    mf_status (*save_parts)(mf_dist *dist, struct mf_trainer *t, const char *prefix,
                            struct mf_snapshot *s);
    /* A checkpoint exists from which the training can continue if all workers are lost. Default:
     * nothing. */
    mf_status (*note_saved)(mf_dist *dist);
} mf_dist_state_ops;

typedef struct mf_dist_trace_ops {
    /* The chief: tasks that are not workers begin to trace, `origin` being time 0; then append
     * their events, each after a comma. Default: there are no such tasks. */
    mf_status (*begin)(mf_dist *dist, int64_t origin);
    mf_status (*end)(mf_dist *dist, mf_buf *events);
    /* Default: zeros. */
    void (*traffic)(const mf_dist *dist, mf_traffic *out);
} mf_dist_trace_ops;

/* Where groups of workers have variables of their own. Default: all have the same. */
typedef struct mf_dist_convergence_ops {
    /* Judge the convergence of each group by these rules, from here on. One worker that asks is
     * enough. */
    mf_status (*watch)(mf_dist *dist, const mf_convergence_options *rules);
    /* The state of the job: converged or diverged ends it, for the reason *why. *loss: of the last
     * step before all groups settled, over all groups. */
    mf_progress_state (*verdict)(const mf_dist *dist, const char **why, double *loss);
} mf_dist_convergence_ops;

typedef struct mf_dist_ops {
    const mf_dist_lifecycle_ops *lifecycle;
    const mf_dist_step_ops *step;
    const mf_dist_membership_ops *membership;
    const mf_dist_state_ops *state;
    const mf_dist_trace_ops *trace;
    const mf_dist_convergence_ops *convergence;
} mf_dist_ops;

/* ---- what both sides know ---- */

/* What kind of strategy it is. A strategy may change MF_DIST_LOCKSTEP between steps. */
enum {
    MF_DIST_LOCKSTEP = 1 << 0, /* all workers run the same calls at the same time, so they may share
                                  an evaluation */
    MF_DIST_PULLS_WEIGHTS = 1 << 1, /* the exchange returns weights instead of gradients */
    MF_DIST_OWN_BATCHES = 1 << 2, /* a worker's part of a batch is a batch of its own; workers have
                                     equal variables only when they have settled */
    MF_DIST_STATE_IN_SLICES = 1 << 3, /* the strategy holds the variables while steps run; the
                                         trainer has them after settle, or after a step before whose
                                         end a worker set reads_variables */
    MF_DIST_ONE_UPDATER = 1 << 4, /* only the chief has the optimizer's slots */
    MF_DIST_SAVES_BETWEEN = 1 << 5, /* workers with leased batches wait for checkpoints:
                                       mf_dist_lease.save */
};

/* This worker's part in the job. */
typedef enum mf_dist_state {
    MF_DIST_ACTIVE,
    MF_DIST_LEAVING, /* it has announced that it leaves */
    MF_DIST_LEFT, /* rendezvous failed with CANCELLED: the other workers continue without it */
    MF_DIST_OVER, /* rendezvous failed with OUT_OF_RANGE: the job ended without it */
} mf_dist_state;

/* Of a batch; set by join and by rendezvous. */
typedef struct mf_dist_shards {
    int64_t total;
    int64_t first, n; /* this worker's */
    int64_t part_first, part_n; /* and the part of their samples: see mf_iterator_options */
} mf_dist_shards;

typedef struct mf_dist_samples {
    int64_t total, read; /* of the batches of all steps; of these, read by this process */
    int64_t own; /* MF_DIST_OWN_BATCHES: of the current step, which its results are of; set by
                    begin_step */
} mf_dist_samples;

/* Of mf_dist_step_ops.rows. */
typedef struct mf_dist_rows {
    int64_t version; /* grows when rows() would answer differently than before */
    int n_feeds; /* so many feeds of the current step have only these rows; 0: none */
} mf_dist_rows;

enum { MF_DIST_STREAMS = 64 };

/* How local batches are to a worker that leases them: batch b as near[b % n], 0 to 255. n 0:
 * unknown. */
typedef struct mf_dist_locality {
    uint8_t near[MF_DIST_STREAMS];
    int64_t n;
} mf_dist_locality;

/* Of mf_dist_state_ops.collect and restore. */
typedef struct mf_dist_aux {
    mf_aux_state_list list; /* the chief's, between the strategy and a checkpoint */
    bool collected, restored; /* the list is of the last step; it was read from a checkpoint */
} mf_dist_aux;

/* What happened before this worker joined; set by rendezvous. */
typedef struct mf_dist_history {
    bool trained; /* other workers have trained before: if no worker has the weights, they are
                     lost */
    bool saved; /* a checkpoint of the job exists */
    bool fresh; /* no worker had any state: training begins, or continues from a checkpoint; set by
                   mf_dist_align_state() */
} mf_dist_history;

struct mf_dist {
    mf_dist_ops ops;
    unsigned caps; /* MF_DIST_LOCKSTEP, ... */
    int rank, size;
    int64_t timeout_ns; /* of every collective */
    char job[MF_JOB_ID]; /* id of the job, the same for all tasks; "": each task has its own */
    struct mf_job_members *members; /* dist/job_members.h; NULL: the set of tasks is fixed */
    mf_group *group; /* NULL: there is one process only, or workers are not connected yet */
    mf_dist_state state;
    bool stopped; /* the job was stopped before its end */
    atomic_bool leave_requested; /* mf_strategy_leave() */
    int64_t rendezvous_count; /* completed calls of mf_dist_rendezvous() */
    bool rendezvous_due; /* a task joins or leaves: rendezvous before the next step */
    bool reads_variables; /* this worker reads variables after the current step */
    mf_dist_shards shards;
    mf_dist_samples samples;
    mf_dist_rows rows;
    mf_dist_locality locality;
    mf_dist_aux aux;
    mf_dist_history history;
    /* No worker has any state: the chief makes it. NULL: its variables are good as they are. */
    mf_status (*init_state)(void *ctx);
    void *init_ctx;
};

/* ---- questions ---- */

#define MF_DIST_HAS(dist, table, op) ((dist) && (dist)->ops.table && (dist)->ops.table->op)

static inline bool mf_dist_can(const mf_dist *dist, unsigned cap)
{
    return dist && (dist->caps & cap);
}

static inline void mf_dist_set_cap(mf_dist *dist, unsigned cap, bool on)
{
    dist->caps = on ? dist->caps | cap : dist->caps & ~cap;
}

static inline bool mf_dist_is_chief(const mf_dist *dist)
{
    return !dist || dist->rank == 0;
}

/* May a call that failed because of a peer be tried again with the remaining workers? */
static inline bool mf_dist_may_recover(const mf_dist *dist)
{
    return dist && dist->members && MF_DIST_HAS(dist, membership, rendezvous);
}

static inline bool mf_dist_leases_batches(const mf_dist *dist)
{
    return MF_DIST_HAS(dist, step, lease);
}

static inline bool mf_dist_serves(const mf_dist *dist)
{
    return MF_DIST_HAS(dist, lifecycle, serve);
}

/* Does the strategy have state besides variables? */
static inline bool mf_dist_has_aux_state(const mf_dist *dist)
{
    return MF_DIST_HAS(dist, state, collect);
}

/* Does the strategy judge the convergence of groups? */
static inline bool mf_dist_judges_groups(const mf_dist *dist)
{
    return MF_DIST_HAS(dist, convergence, watch);
}

/* ---- calls, with their defaults: dist.c ---- */

/* May be NULL: MF_OK. */
MF_MUST mf_status mf_dist_begin_step(mf_dist *dist, int64_t step, int64_t samples, bool wants_stop);
MF_MUST mf_status mf_dist_end_step(mf_dist *dist, int64_t step, bool *stop);
MF_MUST mf_status mf_dist_settle(mf_dist *dist, bool *stop);
MF_MUST mf_status mf_dist_finish(mf_dist *dist, struct mf_trainer *t);
MF_MUST mf_status mf_dist_over(mf_dist *dist);
void mf_dist_failed(mf_dist *dist, mf_status why);
void mf_dist_step_done(mf_dist *dist, int64_t step);
void mf_dist_traffic(const mf_dist *dist, mf_traffic *out);

/* See mf_dist_membership_ops.rendezvous. Needs mf_dist_may_recover(). */
MF_MUST mf_status mf_dist_rendezvous(mf_dist *dist, struct mf_trainer *t, mf_status why);

/* ---- shards ---- */

/* Shards are assigned evenly, neighbours to one worker: the first shard of this rank. */
static inline int64_t mf_dist_first_shard(const mf_dist *dist, int rank)
{
    return dist->shards.total * rank / dist->size;
}

static inline void mf_dist_assign_shards(mf_dist *dist, int64_t shards)
{
    dist->shards.total = shards;
    dist->shards.first = mf_dist_first_shard(dist, dist->rank);
    dist->shards.n = mf_dist_first_shard(dist, dist->rank + 1) - dist->shards.first;
}

/* ---- collectives of the loop; need `group` ---- */

/* Step, deadline and subject of a collective. */
mf_collective mf_dist_collective(const mf_dist *dist, int64_t step, const char *what);
/* `size` bytes of every worker, by rank. */
MF_MUST mf_status mf_dist_all_gather(mf_dist *dist, int64_t step, const char *what,
                                     const void *mine, int64_t size, void *all);
MF_MUST mf_status mf_dist_barrier(mf_dist *dist, int64_t step, const char *what);
/* All workers get this variable of `root`. */
MF_MUST mf_status mf_dist_broadcast_variable(mf_dist *dist, int root, const struct mf_train_var *v,
                                             int64_t step);

/* ---- equal state: align_state.c ---- */

/* All workers get the state of the worker that has done the most steps (the lowest rank of those):
 * variables, auxiliary state, position in the data, progress. Without a group: nothing.
 * Collective. */
MF_MUST mf_status mf_dist_align_state(mf_dist *dist, struct mf_trainer *t);
/* All variables that every worker has. After a failure each worker has the values that it had
 * before. */
MF_MUST mf_status mf_dist_broadcast_state(mf_dist *dist, int root, struct mf_trainer *t,
                                          int64_t step);

#endif
