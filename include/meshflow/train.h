/* SPDX-License-Identifier: Apache-2.0 */
/* train.h - compile, fit, evaluate, predict, save.
 *
 *     mf_trainer *t;
 *     mf_model_compile(m, &(mf_compile_options){ .optimizer = "adam", .metrics = "accuracy" }, &t);
 *     mf_fit(t, train, validation, &(mf_fit_options){ .epochs = 5, .batch = 128 });
 *     mf_evaluate(t, test, results, &n);
 *
 * A batch is split into a fixed number of shards, whose gradients are summed in a fixed reduction
 * tree. The trained weights depend on seed, data, settings and number of shards alone.
 *
 * Thread: any, for all functions of a trainer except mf_trainer_free(). Predictions run
 * concurrently (except with the strategy mesh or `ema_eval`); functions that change or save the
 * trainer run exclusively. While mf_fit() runs, calls from other threads run between two steps and
 * see completed steps; mf_fit(), mf_trainer_restore() and the functions that load weights then fail
 * with FAILED_PRECONDITION, and so does mf_evaluate() with several workers. Hooks may call all
 * functions except mf_fit(); they must not wait for another thread that calls one. Functions of a
 * data set (mf_dataset_map) must not call the trainer. */
#ifndef MESHFLOW_TRAIN_H
#define MESHFLOW_TRAIN_H

#include <meshflow/data.h>
#include <meshflow/model.h>
#include <meshflow/session.h>
#include <meshflow/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_trainer mf_trainer;

/* Strings are settings as text. docs/guides/training.md lists them. */
typedef struct mf_compile_options {
    const char *optimizer; /* "momentum momentum=0.9 nesterov=true"; default: "sgd" */
    const char *loss; /* default: sparse_categorical_crossentropy */
    const char *metrics; /* comma-separated names: "accuracy"; NULL: none */
    const char *label; /* the column with the expected output; default: "label" */
    const char *schedule; /* learning rate: "cosine steps=1000 warmup=100"; NULL: constant */
    double learning_rate; /* default: the optimizer's default */
    const char *clip; /* "value=1", "norm=1", "global_norm=1"; NULL: none */
    double weight_decay; /* decoupled, for all weights except biases and normalisation; 0: none */
    double ema; /* decay of an exponential moving average of the weights; 0: none */
    const char *precision; /* fp32, bf16, fp16, "bf16 stored=bf16"; default: fp32 */
    int shards; /* default: 8 */
    int micro_batches; /* micro-batches per batch; default: 1 */
    const char *recompute; /* rematerialisation: "layers", or the number of layers per segment:
                              values
                              inside a segment are recomputed for gradients, with the same bits,
                              instead
                              of kept; NULL: only layers with recompute=true */
    uint64_t seed;
    int threads; /* default: the number of cores */
    const char *disable; /* compiler passes to skip, as for sessions */
    bool ema_eval; /* mf_evaluate() and mf_predict() use the moving average */
    mf_strategy *strategy; /* distributed training, see strategy.h; NULL: this process only */
    bool hogwild; /* lock-free updates by concurrent threads: updates may be lost or mixed, and
                     results are not bitwise reproducible */
    const char *prune; /* set weights to zero during training: "magnitude sparsity=0.9 end=2000",
                          "hold"; NULL: none; docs/guides/model-compression.md */
    const char *offload; /* folder of memory-mapped files for optimizer slots; NULL: keep them in
                            memory; docs/guides/training.md */
    const char *guard; /* NaN/Inf guard: stop, "skip in_row=10", off; default: stop;
                          docs/guides/nan-guards.md */
} mf_compile_options;

/* Adds loss, gradients and updates to the model's graph and creates a session with initialised
 * weights. A model can be compiled once and not extended afterwards. Fails: INVALID_ARGUMENT,
 * NOT_FOUND, naming the setting; FAILED_PRECONDITION (already compiled, or the model has no
 * output). */
MF_API MF_MUST mf_status mf_model_compile(mf_model *model, const mf_compile_options *options,
                                          mf_trainer **out);
MF_API void mf_trainer_free(mf_trainer *trainer);

/* The session, for access to variables by name and to any output of the graph. */
MF_API mf_session *mf_trainer_session(mf_trainer *trainer);
/* Number of steps done. */
MF_API int64_t mf_trainer_step(const mf_trainer *trainer);
/* All variables of training, under TensorFlow's names: weights, slots, global_step. Returns the
 * name of variable i, or NULL beyond the last one. */
MF_API const char *mf_trainer_variable(const mf_trainer *trainer, int64_t i);
/* Owns: the caller frees *value, which later steps do not change. Fails: NOT_FOUND naming the
 * closest name. */
MF_API MF_MUST mf_status mf_trainer_get(const mf_trainer *trainer, const char *name,
                                        mf_tensor **value);
/* Fails: NOT_FOUND, INVALID_ARGUMENT (another type or shape). */
MF_API MF_MUST mf_status mf_trainer_set(mf_trainer *trainer, const char *name,
                                        const mf_tensor *value);
/* SHA-256 of the model's weights: 64 hexadecimal digits and a NUL. */
MF_API MF_MUST mf_status mf_trainer_sha256(mf_trainer *trainer, char digits[65]);

/* Memory of training steps in this process, in bytes. On a mesh each device has its own statistics,
 * see mf_strategy_mesh_counts(). */
typedef struct mf_step_memory {
    int64_t variables; /* weights and optimizer slots */
    int64_t step; /* peak of a step, without variables */
    int64_t planned; /* the same, as planned; without the workspaces of kernels */
} mf_step_memory;
MF_API void mf_trainer_memory(const mf_trainer *trainer, mf_step_memory *out);

/* ---- fit ---- */

typedef struct mf_result {
    const char *name; /* "loss", "accuracy" */
    double value;
} mf_result;

enum { MF_MAX_RESULTS = 16 };

typedef struct mf_step_report {
    int64_t step; /* the first is 1 */
    int64_t epoch; /* the first is 0 */
    int64_t samples; /* in this step */
    double learning_rate;
    const mf_result *results; /* of this step's batch, loss first */
    int n_results;
    int64_t skipped_steps; /* steps skipped by the guard so far, because their loss or gradients
                              had NaN/Inf */
} mf_step_report;

/* The loop that calls hooks: mf_fit() or a monitored session. See hooks.h. */
typedef struct mf_hook_loop mf_hook_loop;

/* What a hook adds to a run. Owns: all of it is borrowed from the hook until after_run. */
typedef struct mf_run_request {
    const char *const *fetches; /* "node:port" */
    int n_fetches;
    const char *const *feed_names;
    const mf_tensor *const *feeds;
    int n_feeds;
    const char *trace_path; /* write a Chrome trace of the run; NULL: none */
} mf_run_request;

/* Callbacks around the steps of a loop. Each may be NULL. The order is:
 *
 *     begin, after_create_session,
 *     (before_run, the step itself, after_run, after_step)*, after_epoch, ...
 *     end
 *
 * Each callback is called for all hooks, in the order of the hooks. hooks.h has ready-made hooks.
 * In a monitored session there are no steps and epochs, and `trainer` is NULL. */
typedef struct mf_hook {
    void *ctx;
    mf_status (*begin)(void *ctx, mf_trainer *trainer);
    mf_status (*after_step)(void *ctx, mf_trainer *trainer, const mf_step_report *report);
    mf_status (*after_epoch)(void *ctx, mf_trainer *trainer, const mf_step_report *report,
                             const mf_result *validation, int n_validation);
    mf_status (*end)(void *ctx, mf_trainer *trainer);
    /* `loop` is valid until `end`. Called again after a lost session was replaced. */
    mf_status (*after_create_session)(void *ctx, mf_hook_loop *loop);
    /* *request is zeroed before the call. */
    mf_status (*before_run)(void *ctx, mf_hook_loop *loop, mf_run_request *request);
    /* results: of the fetches that this hook requested. */
    mf_status (*after_run)(void *ctx, mf_hook_loop *loop, mf_tensor *const *results);
    /* A run has failed with this status and the thread's message. Return true to end the loop
     * without a failure. */
    bool (*forgive)(void *ctx, mf_hook_loop *loop, mf_status why);
    void (*release)(void *ctx); /* called by mf_hook_free() */
    /* Return true to read the trainer's variables after this step. On a mesh they are sharded
     * during steps and gathered only after steps for which a hook of any worker returns true, for a
     * checkpoint, and at the end of an epoch; at other times reading them fails. NULL: false. */
    bool (*looks)(void *ctx, mf_trainer *trainer, int64_t step);
    /* This worker becomes the chief and writes output from here on: mf_fit_options.out is now its
     * own folder, which may be on another machine than that of the lost chief. */
    mf_status (*take_over)(void *ctx, mf_trainer *trainer);
} mf_hook;

typedef struct mf_fit_options {
    int64_t epochs; /* default: 1 */
    int64_t steps; /* total, counted from the beginning of training; overrides epochs. 0: none */
    int64_t batch; /* default: 32 */
    int input_threads; /* that prepare batches; default: one, and more while steps wait for
                          batches */
    bool in_order; /* no shuffling */
    mf_slicing slice; /* assignment of samples to the shards of a batch, see data.h */
    const char *near; /* with slicing by file: ':'-separated patterns of the paths that are local to
                         this worker, which reads their shards first; NULL: detected */
    const mf_hook *hooks;
    int n_hooks;
    const char *out; /* folder for checkpoints, events, ledger; NULL: no output */
    int64_t save_steps; /* checkpoint interval in steps; 0: at the end of each epoch */
    int keep; /* checkpoints kept; default: 5 */
    const char *trace; /* file for a Chrome trace of one step; NULL: none */
    int64_t trace_step; /* that step; default: 10 */
    bool resume; /* continue from the newest complete checkpoint in `out`, if there is one */
    bool overwrite; /* remove an existing training in `out`. With neither `resume` nor
                       `overwrite` such a folder is refused: INVALID_ARGUMENT */
    int64_t check_steps; /* interval in steps at which workers compare their weights; default: 100;
                            negative: never; docs/guides/nan-guards.md */
    int64_t summary_steps; /* interval in steps of loss, metrics and speed events; default: 10 */
} mf_fit_options;

/* validation may be NULL. */
MF_API MF_MUST mf_status mf_fit(mf_trainer *trainer, mf_dataset *train, mf_dataset *validation,
                                const mf_fit_options *options);
/* End mf_fit() after the current step, with MF_OK; before it begins: after its first step. Thread:
 * any; also from a signal handler. */
MF_API void mf_trainer_stop(mf_trainer *trainer);

/* ---- evaluate, predict ---- */

/* Loss and metrics over the whole set. results: room for MF_MAX_RESULTS. */
MF_API MF_MUST mf_status mf_evaluate(mf_trainer *trainer, mf_dataset *data, mf_result *results,
                                     int *n_results);
/* The model's output for every sample, in order. With the strategy mesh all workers must call it,
 * and all get the result. Owns: the caller frees *out. */
MF_API MF_MUST mf_status mf_predict(mf_trainer *trainer, mf_dataset *data, mf_tensor **out);

/* ---- checkpoints: TensorFlow's format, under its names ---- */

/* Write PREFIX.index and PREFIX.data-00000-of-00001: the complete state, from which training
 * continues with the same bits. */
MF_API MF_MUST mf_status mf_trainer_save(mf_trainer *trainer, const char *prefix);
/* Restore the weights and all other training state that the checkpoint has. */
MF_API MF_MUST mf_status mf_trainer_restore(mf_trainer *trainer, const char *prefix);
/* Restore all weights and nothing else: for evaluation and prediction. `where` is a prefix, or a
 * folder, whose newest checkpoint is used. Fails: NOT_FOUND naming a weight that the checkpoint
 * lacks. */
MF_API MF_MUST mf_status mf_trainer_use(mf_trainer *trainer, const char *where);
/* Fine-tuning: restore the weights that the checkpoint has under the same name and shape; the
 * others keep their values. *loaded: their number. Fails: NOT_FOUND (none). */
MF_API MF_MUST mf_status mf_trainer_load_weights(mf_trainer *trainer, const char *prefix,
                                                 int64_t *loaded);

#ifdef __cplusplus
}
#endif
#endif
