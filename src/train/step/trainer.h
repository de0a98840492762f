/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - the inside of a compiled model: its session, its variables, its progress. */
#ifndef MF_TRAIN_STEP_TRAINER_H
#define MF_TRAIN_STEP_TRAINER_H

#include "graph/shard.h"
#include "runtime/session.h"
#include "train/checkpoint/output_lock.h"
#include "train/loop/trainer_lock.h"
#include "train/optim/lr_schedule.h"
#include "train/step/step.h"

#include <stdatomic.h>

/* Everything that training changes, by TensorFlow's names. */
typedef struct mf_train_var {
    const char *name;
    mf_variable *variable; /* a reference */
    bool is_weight; /* of the model; otherwise a slot, a counter */
} mf_train_var;

/* The strings of a call of mf_session_run(). */
typedef struct mf_names {
    const char **feeds, **fetches;
    const mf_tensor **values; /* of the feeds */
    mf_tensor **results;
    int n_feeds, n_fetches;
} mf_names;

struct mf_loop_call;

/* What determines the order of samples, besides seed and shards. All 0: sliced by element. */
typedef struct mf_sliced {
    int64_t by; /* mf_slicing */
    int64_t batch, files; /* by file: samples of a batch; which samples are in which files */
} mf_sliced;

enum { MF_MOST_GROUPS = 256 }; /* of workers, that average their variables */

/* The progress of training. Workers in lockstep do the same sequence of steps, roll-backs and
 * evaluations, so three numbers give a worker's position in it; a worker that is behind gets the
 * results that it has missed from a worker that is not. */
typedef struct mf_train_progress {
    int64_t steps; /* steps done; -1: there is no state here for other workers */
    int64_t rolled_back; /* the last step after which weights were rolled back; 0: none */
    int64_t evaluations; /* done together */
    int64_t epoch, first; /* where the next batch begins */
    mf_sliced sliced;
    int64_t traced; /* the step whose trace is written; 0: none */
    int64_t stop; /* the last step was to be the last one */
    int64_t restarted; /* the tasks were started again and training began at this step, plus 1 */
    int64_t step_epoch, samples; /* of the last step */
    double learning_rate, results[MF_MAX_RESULTS];
    double evaluation[MF_MAX_RESULTS]; /* results of the last one */
    int64_t groups; /* of workers with variables of their own; 0: all have the same */
    int64_t left_at[MF_MOST_GROUPS]; /* the step after which a group ended; 0: it trains */
} mf_train_progress;

/* The progress, with its position in the data. */
mf_train_progress mf_trainer_progress(const mf_trainer *t);
/* Set the progress: the variables are those of that step. */
void mf_trainer_set_progress(mf_trainer *t, const mf_train_progress *s);

/* Was mf_trainer_stop() or mf_strategy_stop() called? Thread: any. */
bool mf_trainer_wants_stop(const mf_trainer *t);

struct mf_trainer {
    mf_model *model;
    mf_arena *arena;
    mf_compile_options options;
    mf_step_graph graph;
    mf_schedule schedule;
    mf_resources *resources;
    mf_pool *pool;
    mf_session *session;
    mf_train_var *trained;
    int64_t n_trained;
    bool bf16; /* its matrix products take bfloat16 */
    mf_dtype stored; /* of weights in checkpoints: see ckpt_dtype.h */
    mf_names step_names, eval_names, predict_names;
    int64_t step; /* steps done */
    int64_t epoch, first; /* where the next batch begins */
    mf_sliced sliced; /* the order in which that is the place */
    mf_train_progress
        progress; /* for other workers; steps, epoch and so on are set by mf_trainer_progress() */
    mf_tensor judged; /* of a checkpoint, by group: mf_convergence_encode(); empty: unknown */
    bool has_state; /* its state may be given to other workers */
    char run[MF_RUN_ID]; /* the run that it writes; "": nothing was written yet */
    bool decided; /* it was stopped because it has converged or diverged */
    bool lost; /* training cannot continue: its state is neither here nor in a checkpoint */
    atomic_bool stop;
    atomic_bool fitting; /* mf_fit() runs */
    mf_trainer_lock turns; /* of threads that call the public functions; mf_fit() has it alone */
    const char *trace; /* where the next step's trace goes; NULL: nowhere */
    struct mf_dist *dist; /* NULL: it trains alone */
    struct mf_hook_loop *loop; /* whose hooks run around steps; NULL: none */
};

/* FAILED_PRECONDITION while mf_fit() runs in another thread. */
MF_MUST mf_status mf_trainer_need_no_fit(mf_trainer *t);

/* Group g has the samples of a batch from this one on, up to the next group's: complete shards. */
static inline int64_t mf_group_begin(const mf_trainer *t, int64_t g, int64_t samples)
{
    const int64_t shards = t->options.shards;

    return mf_shard_begin(samples, shards, mf_shard_of_group(shards, t->progress.groups, g));
}

/* Run one step on this batch, or on this worker's part of it; results of all reports, over the
 * complete batch. Advances the position. */
MF_MUST mf_status mf_trainer_run_step(mf_trainer *t, const mf_dataset *set, const mf_batch *batch,
                                      mf_result *results);
/* A step without samples counts: global_step increases by one. */
MF_MUST mf_status mf_trainer_count_step(mf_trainer *t);
/* Run the trainer's session, with the additions of hooks. */
MF_MUST mf_status mf_trainer_call(mf_trainer *t, const mf_run_options *options,
                                  const struct mf_loop_call *call);
/* The same on another session, with the trace of `options` and this timeout. */
MF_MUST mf_status mf_trainer_call_at(mf_trainer *t, struct mf_session *session, int64_t timeout_ms,
                                     const mf_run_options *options,
                                     const struct mf_loop_call *call);
/* The next batch. Damaged samples give INVALID_ARGUMENT: a repetition would find them again, while
 * DATA_LOSS of a training may be a peer's. */
MF_MUST mf_status mf_trainer_next(mf_iterator *it, const mf_batch **out);
/* Fill names->values with the model's columns, and the label. *converted: to be freed after the run
 * (usually NULL). Fails: INVALID_ARGUMENT naming the column. */
MF_MUST mf_status mf_trainer_feed(mf_trainer *t, mf_names *names, const mf_dataset *set,
                                  const mf_batch *batch, bool with_label, mf_tensor **converted);
/* Separate arrays for a concurrent call; the names are shared. */
MF_MUST mf_status mf_names_copy(const mf_names *names, mf_names *out);
void mf_names_copy_deinit(mf_names *names);
/* The model's output for its inputs, given in their order. Owns: *out is the trainer's until the
 * next run. Thread: one at a time. */
MF_MUST mf_status mf_trainer_infer(mf_trainer *t, const mf_tensor *const *inputs,
                                   const mf_tensor **out);
/* How results are made of sums. */
double mf_report_value(const mf_report *r, const float *sums, int64_t n_sums, int64_t samples);
/* Is it state of the optimizer: not of the model, not a moving average of its weights, not a
 * counter or scale that steps need before updates? */
bool mf_train_var_is_slot(const mf_train_var *v);
/* Its current value. FAILED_PRECONDITION: it is in slices on a mesh, see MF_DIST_STATE_IN_SLICES.
 */
MF_MUST mf_status mf_trainer_read(const mf_trainer *t, const mf_train_var *v, mf_tensor *out);
/* Does the trainer have all variables? Otherwise some are in slices on a mesh. */
bool mf_trainer_has_variables(const mf_trainer *t);
/* NULL: no such variable. */
mf_train_var *mf_trainer_find(const mf_trainer *t, const char *name);

#endif
