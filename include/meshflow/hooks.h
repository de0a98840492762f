/* SPDX-License-Identifier: Apache-2.0 */
/* hooks.h - ready-made hooks for mf_fit() and for monitored sessions: the set that TensorFlow has.
 *
 *     mf_hook hooks[2];
 *     mf_hook_stop_at_step(1000, 0, &hooks[0]);
 *     mf_hook_logging(names, n, (mf_every){ .steps = 100 }, false, &hooks[1]);
 *     mf_fit(trainer, data, NULL, &(mf_fit_options){ .hooks = hooks, .n_hooks = 2 });
 *     mf_hook_free(&hooks[0]);
 *     mf_hook_free(&hooks[1]);
 *
 * All constructors copy their strings. They fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED; *out
 * is then empty and may be freed. A hook serves one loop at a time. */
#ifndef MESHFLOW_HOOKS_H
#define MESHFLOW_HOOKS_H

#include <meshflow/coordinator.h>
#include <meshflow/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- for use inside hooks ---- */

MF_API mf_session *mf_hook_loop_session(mf_hook_loop *loop);
/* Returns NULL in a monitored session. */
MF_API mf_trainer *mf_hook_loop_trainer(mf_hook_loop *loop);
/* The coordinator of the threads of a monitored session; NULL in mf_fit(). */
MF_API mf_coordinator *mf_hook_loop_coordinator(mf_hook_loop *loop);
/* Steps done: the variable "global_step". Fails: NOT_FOUND (the graph has none). */
MF_API MF_MUST mf_status mf_hook_loop_step(mf_hook_loop *loop, int64_t *step);
/* End the loop after this step. Thread: any. */
MF_API void mf_hook_loop_stop(mf_hook_loop *loop);

/* ---- ready-made ---- */

/* Set one of the two: every N steps, or every N seconds. The first time is the first step. */
typedef struct mf_every {
    int64_t steps;
    double seconds;
} mf_every;

MF_API void mf_hook_free(mf_hook *hook);

/* Stop after the step last_step; or, with last_step 0, n_steps after the beginning of the loop. */
MF_API MF_MUST mf_status mf_hook_stop_at_step(int64_t last_step, int64_t n_steps, mf_hook *out);

/* Checkpoints DIR/model.ckpt-STEP: at the beginning, at this interval, and at the end. The last
 * `keep` are kept (default: 5). For loops other than mf_fit(), which saves by itself when `out` is
 * set. */
MF_API MF_MUST mf_status mf_hook_checkpoint(const char *dir, mf_every every, int keep,
                                            mf_hook *out);

/* Event files for TensorBoard. */
typedef struct mf_summary_options {
    const char *dir; /* created if its parent exists; validation events go to DIR/validation */
    mf_every every; /* scalars (in mf_fit(): results, learning rate, speed) and `summaries`;
                       default: 10 steps */
    const char *const *summaries; /* outputs of summary ops in the graph: "merged:0" */
    int n_summaries;
    bool graph; /* write the graph once, when training begins */
    /* Only in mf_fit(): */
    bool weights_by_epoch; /* histograms of all weights at the end of every epoch */
    int64_t weight_steps; /* the same every N steps; 0: never */
    int64_t gradient_steps; /* histograms of the gradients every N steps; 0: never */
    int64_t image_steps; /* the first `images` images of a batch every N steps; 0: never */
    int images; /* default: 3 */
} mf_summary_options;
MF_API MF_MUST mf_status mf_hook_summary(const mf_summary_options *options, mf_hook *out);

/* Steps per second, in the log and (dir != NULL) as "global_step/sec" in the event files of dir. */
MF_API MF_MUST mf_status mf_hook_step_counter(mf_every every, const char *dir, mf_hook *out);

/* Fail, or just stop, when the loss ("node:port") is NaN or Inf. loss NULL: react to a failed
 * CheckNumerics op of the graph, such as that of mf_fit(), which prevents the update. */
MF_API MF_MUST mf_status mf_hook_nan_guard(const char *loss, bool fail, mf_hook *out);

/* For mf_fit(): end training when it has converged or diverged, and report when it stalls or waits
 * for input (docs/guides/convergence.md). settings: "tolerance=0.005 horizon=0.1 false_stops=0.01
 * flat=true after=0"; NULL: these defaults. flat=false: a flat loss does not count as converged;
 * after=S: training has converged when no step has moved the weights for S seconds. The decision of
 * one worker is enough: all workers end with the same step. With the strategy local_sgd each group
 * is judged, and leaves, separately. */
MF_API MF_MUST mf_status mf_hook_converged(const char *settings, mf_hook *out);
/* The state of such a hook: "converged" or "diverged" once decided, else "improving", "stalled" or
 * "starved". *why (may be NULL): one sentence with the rule and its values; borrowed from the hook.
 */
MF_API const char *mf_hook_converged_state(const mf_hook *hook, const char **why);

/* Log tensors ("node:port") at this interval (all zero: never) and at the end. */
MF_API MF_MUST mf_status mf_hook_logging(const char *const *tensors, int n, mf_every every,
                                         bool at_end, mf_hook *out);

/* Run these fetches when the loop ends without failure. The values are valid until the hook is
 * freed. */
MF_API MF_MUST mf_status mf_hook_final_ops(const char *const *fetches, int n, mf_hook *out);
/* One value per fetch; NULL if the loop has not ended without failure. */
MF_API mf_tensor *const *mf_hook_final_values(const mf_hook *hook);

/* A Chrome trace of a step at this interval, as DIR/timeline-STEP.json; never of the first step. */
MF_API MF_MUST mf_status mf_hook_profiler(const char *dir, mf_every every, mf_hook *out);

/* The feeds that fn puts into the request are used for every run. */
typedef mf_status mf_feed_fn(void *ctx, mf_run_request *request);
MF_API MF_MUST mf_status mf_hook_feed(mf_feed_fn *fn, void *ctx, mf_hook *out);

/* Delay the first run until the global step has reached this value or a stop is requested. */
MF_API MF_MUST mf_status mf_hook_global_step_waiter(int64_t step, mf_hook *out);

#ifdef __cplusplus
}
#endif
#endif
