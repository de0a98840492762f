/* SPDX-License-Identifier: Apache-2.0 */
/* train.h - compile, fit, evaluate, predict: the last three of the five steps.
 *
 *     mf_trainer *t;
 *     mf_model_compile(m, &(mf_compile_options){ .optimizer = "adam", .metrics = "accuracy" }, &t);
 *     mf_fit(t, train, validation, &(mf_fit_options){ .epochs = 5, .batch = 128 });
 *     mf_evaluate(t, test, results, &n);
 *
 * A batch is cut into a fixed number of shards, whose gradients are summed in a fixed tree: the
 * weights that come out depend on seed, data, settings and number of shards, and on nothing else.
 *
 * Thread: any, for all functions of a trainer but mf_trainer_free(). Predictions run at the same
 * time (but for the strategy mesh and `ema_eval`); what changes or saves the trainer runs alone.
 * While mf_fit() runs, other threads' calls get their turn between two steps and see whole steps;
 * mf_fit(), mf_trainer_restore() and what loads weights fail with FAILED_PRECONDITION then, and so
 * does mf_evaluate() where several workers train. Hooks may call all of them but mf_fit(); they
 * must not wait for another thread that does. Functions of a data set (mf_dataset_map) must not
 * call the trainer. */
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

/* All strings are settings as text; NULL: what is said here. docs/guides/training.md has the
 * tables. */
typedef struct mf_compile_options {
    const char *optimizer; /* "momentum momentum=0.9 nesterov=true"; NULL: "sgd" */
    const char *loss; /* NULL: sparse_categorical_crossentropy */
    const char *metrics; /* names, separated by commas: "accuracy"; NULL: none */
    const char *label; /* the column that the loss compares with; NULL: "label" */
    const char *schedule; /* "cosine steps=1000 warmup=100"; NULL: constant */
    double learning_rate; /* 0: the optimizer's own */
    const char *clip; /* "value=1", "norm=1", "global_norm=1"; NULL: none */
    double weight_decay; /* decoupled, of all weights but biases and normalisations; 0: none */
    double ema; /* decay of a moving average of the weights; 0: none */
    const char *precision; /* fp32, bf16, fp16, "bf16 stored=bf16"; NULL: fp32 */
    int shards; /* 0: 8 */
    int micro_batches; /* a batch is done in so many turns; 0: one */
    const char *recompute; /* "layers", or how many layers are a segment: what lies inside of a
                              segment is not kept for gradients but computed again, with the same
                              bits; NULL: of layers with recompute=true alone */
    uint64_t seed;
    int threads; /* 0: as many as there are cores */
    const char *disable; /* passes to leave out, as for sessions */
    bool ema_eval; /* mf_evaluate() and mf_predict() use the moving average */
    mf_strategy *strategy; /* with whom to train, see strategy.h; NULL: alone */
    bool hogwild; /* updates write without a lock, for threads that train at once: updates may get
                     lost or mixed, and no equal bits are promised */
    const char *prune; /* weights become zero in training and stay so: "magnitude sparsity=0.9
                          end=2000", "hold"; NULL: none; docs/guides/model-compression.md */
    const char *offload; /* a folder: what the optimizer keeps lies in files there, not in memory;
                            docs/guides/training.md; NULL: in memory */
    const char *guard; /* against numbers that are none: stop, "skip in_row=10", off; NULL: stop;
                          docs/guides/nan-guards.md */
} mf_compile_options;

/* Adds loss, gradients and updates to the model's graph, and starts a session with fresh weights.
 * The model must outlive the trainer and can be compiled once; nothing can be added to it
 * afterwards. Fails: INVALID_ARGUMENT, NOT_FOUND, naming the setting; FAILED_PRECONDITION (compiled
 * before, or it has no output). */
MF_API MF_MUST mf_status mf_model_compile(mf_model *model, const mf_compile_options *options,
                                          mf_trainer **out);
MF_API void mf_trainer_free(mf_trainer *trainer);

/* The session: variables by name and any output of the graph are within reach. */
MF_API mf_session *mf_trainer_session(mf_trainer *trainer);
/* Steps done so far. */
MF_API int64_t mf_trainer_step(const mf_trainer *trainer);
/* Everything that training changes, by TensorFlow's names: weights, slots, global_step. Name i, or
 * NULL behind the last one. */
MF_API const char *mf_trainer_variable(const mf_trainer *trainer, int64_t i);
/* Owns: the caller frees *value, which later steps do not change. NOT_FOUND naming the closest. */
MF_API MF_MUST mf_status mf_trainer_get(const mf_trainer *trainer, const char *name,
                                        mf_tensor **value);
/* Fails: NOT_FOUND, INVALID_ARGUMENT (another type or shape). */
MF_API MF_MUST mf_status mf_trainer_set(mf_trainer *trainer, const char *name,
                                        const mf_tensor *value);
/* Over the model's weights: 64 hexadecimal digits and a zero. */
MF_API MF_MUST mf_status mf_trainer_sha256(mf_trainer *trainer, char digits[65]);

/* Bytes of memory for training steps here. On a mesh every processor has its own, see
 * mf_strategy_mesh_counts(). */
typedef struct mf_step_memory {
    int64_t variables; /* weights, and what the optimizer keeps */
    int64_t step; /* that a step has held at most, besides */
    int64_t planned; /* the same, as it was planned; without what kernels need for themselves */
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
    int64_t samples; /* of this step */
    double learning_rate;
    const mf_result *results; /* of this step's batch, loss first */
    int n_results;
    int64_t skipped_steps; /* so far, left out by the guard; this one: its loss is no number, or its
                              gradients are none */
} mf_step_report;

/* Where hooks are called: in mf_fit(), or in a monitored session. See hooks.h. */
typedef struct mf_hook_loop mf_hook_loop;

/* What a hook adds to a run. Owns: all of it stays the hook's, until after_run. */
typedef struct mf_run_request {
    const char *const *fetches; /* "node:port" */
    int n_fetches;
    const char *const *feed_names;
    const mf_tensor *const *feeds;
    int n_feeds;
    const char *trace_path; /* write a Chrome trace of the run; NULL: none */
} mf_run_request;

/* What wants to know of the steps. Each call may be NULL. They come in this order:
 *
 *     begin, after_create_session,
 *     before_run, the step itself, after_run, after_step  again and again, and after_epoch,
 *     end
 *
 * and each for all hooks, in the order of the hooks. hooks.h has ready-made ones. In a monitored
 * session there are no steps and epochs, and `trainer` is NULL. */
typedef struct mf_hook {
    void *ctx;
    mf_status (*begin)(void *ctx, mf_trainer *trainer);
    mf_status (*after_step)(void *ctx, mf_trainer *trainer, const mf_step_report *report);
    mf_status (*after_epoch)(void *ctx, mf_trainer *trainer, const mf_step_report *report,
                             const mf_result *validation, int n_validation);
    mf_status (*end)(void *ctx, mf_trainer *trainer);
    /* `loop` stays until `end`. Called again when a lost session was replaced. */
    mf_status (*after_create_session)(void *ctx, mf_hook_loop *loop);
    /* *request is all zero before. */
    mf_status (*before_run)(void *ctx, mf_hook_loop *loop, mf_run_request *request);
    /* results: of the fetches that the hook asked for. */
    mf_status (*after_run)(void *ctx, mf_hook_loop *loop, mf_tensor *const *results);
    /* A run has failed so, with the thread's message. True: the loop ends here, and that is well.
     */
    bool (*forgive)(void *ctx, mf_hook_loop *loop, mf_status why);
    void (*release)(void *ctx); /* see mf_hook_free() */
    /* Will it look at the trainer's variables after this step? On a mesh they are in slices while
     * steps run, and are brought together for who says so here, for a save, and at the end of an
     * epoch; else reading them fails. One worker that says so is enough. NULL: it will not. */
    bool (*looks)(void *ctx, mf_trainer *trainer, int64_t step);
    /* This worker is the chief from here on, and writes: mf_fit_options.out is its own by now, a
     * folder that may be on another machine than that of the chief that was lost. */
    mf_status (*take_over)(void *ctx, mf_trainer *trainer);
} mf_hook;

typedef struct mf_fit_options {
    int64_t epochs; /* 0: 1 */
    int64_t steps; /* in all, counted from the beginning of training; wins over epochs. 0: none */
    int64_t batch; /* 0: 32 */
    int input_threads; /* that make batches; 0: one, and more while steps wait for batches */
    bool in_order; /* no shuffling */
    mf_slicing slice; /* what the shards of a batch take samples from, see data.h */
    const char *near; /* sliced by file: patterns of paths that this worker has near, with ':'
                         between them, so it gets their shards first; NULL: it looks for itself */
    const mf_hook *hooks;
    int n_hooks;
    const char *out; /* folder for checkpoints, events, ledger; NULL: nothing is written */
    int64_t save_steps; /* a checkpoint every so many steps; 0: at the end of an epoch */
    int keep; /* checkpoints kept; 0: 5 */
    const char *trace; /* file for a Chrome trace of one step; NULL: none */
    int64_t trace_step; /* which; 0: the tenth */
    bool resume; /* go on from the newest whole checkpoint in `out`, if there is one */
    bool overwrite; /* remove the training that is in `out`. Without either such a folder is
                       refused: INVALID_ARGUMENT */
    int64_t check_steps; /* workers compare their weights every so many steps; 0: 100, below 0:
                            never; docs/guides/nan-guards.md */
    int64_t summary_steps; /* events of loss, metrics and speed every so many steps; 0: 10 */
} mf_fit_options;

/* validation may be NULL. */
MF_API MF_MUST mf_status mf_fit(mf_trainer *trainer, mf_dataset *train, mf_dataset *validation,
                                const mf_fit_options *options);
/* Ends mf_fit() after the step at hand, with MF_OK. Thread: any; also from a signal handler. */
MF_API void mf_trainer_stop(mf_trainer *trainer);

/* ---- evaluate, predict ---- */

/* Loss and metrics over the whole set. results: room for MF_MAX_RESULTS. */
MF_API MF_MUST mf_status mf_evaluate(mf_trainer *trainer, mf_dataset *data, mf_result *results,
                                     int *n_results);
/* The model's output for every sample, in order. With the strategy mesh all workers call it, and
 * all get it. Owns: the caller frees *out. */
MF_API MF_MUST mf_status mf_predict(mf_trainer *trainer, mf_dataset *data, mf_tensor **out);

/* ---- checkpoints: TensorFlow's, under its names ---- */

/* Write PREFIX.index and PREFIX.data-00000-of-00001: all that is needed to go on exactly. */
MF_API MF_MUST mf_status mf_trainer_save(mf_trainer *trainer, const char *prefix);
/* Weights and, where the checkpoint has it, everything else of training. */
MF_API MF_MUST mf_status mf_trainer_restore(mf_trainer *trainer, const char *prefix);
/* All weights, and nothing else: for evaluating and predicting. NOT_FOUND naming one that is not
 * there. `where` is a prefix, or a folder whose newest checkpoint is meant. */
MF_API MF_MUST mf_status mf_trainer_use(mf_trainer *trainer, const char *where);
/* For fine-tuning: weights that the checkpoint has under the same name and shape; the others keep
 * their values. *loaded: how many. NOT_FOUND: none. */
MF_API MF_MUST mf_status mf_trainer_load_weights(mf_trainer *trainer, const char *prefix,
                                                 int64_t *loaded);

#ifdef __cplusplus
}
#endif
#endif
