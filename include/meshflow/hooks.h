/* SPDX-License-Identifier: Apache-2.0 */
/* hooks.h - ready-made hooks, TensorFlow's list of them, for mf_fit() and for monitored sessions.
 *
 *     mf_hook hooks[2];
 *     mf_hook_stop_at_step(1000, 0, &hooks[0]);
 *     mf_hook_logging((const char *[]){ "loss:0" }, 1, (mf_every){ .steps = 100 }, false,
 * &hooks[1]); mf_fit(trainer, data, NULL, &(mf_fit_options){ .hooks = hooks, .n_hooks = 2 });
 *     mf_hook_free(&hooks[0]);
 *     mf_hook_free(&hooks[1]);
 *
 * All constructors copy their strings and fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED; *out is
 * then empty, and may be freed. A hook serves one loop at a time. */
#ifndef MESHFLOW_HOOKS_H
#define MESHFLOW_HOOKS_H

#include <meshflow/coordinator.h>
#include <meshflow/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a hook can do ---- */

MF_API mf_session *mf_hook_loop_session(mf_hook_loop *loop);
/* NULL in a monitored session. */
MF_API mf_trainer *mf_hook_loop_trainer(mf_hook_loop *loop);
/* Of the threads beside a monitored session; NULL in mf_fit(). */
MF_API mf_coordinator *mf_hook_loop_coordinator(mf_hook_loop *loop);
/* Steps done: the variable "global_step". NOT_FOUND: the graph has none. */
MF_API MF_MUST mf_status mf_hook_loop_step(mf_hook_loop *loop, int64_t *step);
/* The loop ends after this step. Thread: any. */
MF_API void mf_hook_loop_stop(mf_hook_loop *loop);

/* ---- ready-made ---- */

/* One of the two: every so many steps, or seconds. The first time is the first step. */
typedef struct mf_every {
    int64_t steps;
    double seconds;
} mf_every;

MF_API void mf_hook_free(mf_hook *hook);

/* Stop after the step last_step; or (last_step 0) after n_steps from the beginning of the loop. */
MF_API MF_MUST mf_status mf_hook_stop_at_step(int64_t last_step, int64_t n_steps, mf_hook *out);

/* Checkpoints DIR/model.ckpt-STEP: at the beginning, so often, and at the end; `keep` are kept (0:
 * 5). mf_fit() saves by itself where it has an `out`: this is for other loops. */
MF_API MF_MUST mf_status mf_hook_checkpoint(const char *dir, mf_every every, int keep,
                                            mf_hook *out);

/* Event files for TensorBoard. */
typedef struct mf_summary_options {
    const char
        *dir; /* made if its parent is there; what concerns validation is in DIR/validation */
    mf_every every; /* scalars (in mf_fit(): results, learning rate, speed) and `summaries`; 10
                       steps unless told */
    const char *const *summaries; /* outputs of summary ops in the graph: "merged:0" */
    int n_summaries;
    bool graph; /* once, when training begins */
    /* In mf_fit() only: */
    bool weights_by_epoch; /* histograms of all weights at the end of every epoch */
    int64_t weight_steps; /* the same every so many steps; 0: not */
    int64_t gradient_steps; /* histograms of the gradients; 0: not */
    int64_t image_steps; /* the first `images` pictures of a batch; 0: not */
    int images; /* 0: 3 */
} mf_summary_options;
MF_API MF_MUST mf_status mf_hook_summary(const mf_summary_options *options, mf_hook *out);

/* Steps per second, into the log and (dir != NULL) as "global_step/sec" into the events of dir. */
MF_API MF_MUST mf_status mf_hook_step_counter(mf_every every, const char *dir, mf_hook *out);

/* When the loss ("node:port") is no number, fail, or just stop. loss NULL: what a CheckNumerics of
 * the graph finds, as that of mf_fit(), which lets nothing be updated. */
MF_API MF_MUST mf_status mf_hook_nan_guard(const char *loss, bool fail, mf_hook *out);

/* For mf_fit(): end training where it has converged or diverged, and say where it stalls or starves
 * (docs/guides/convergence.md). settings: "tolerance=0.005 horizon=0.1 false_stops=0.01 flat=true
 * after=0"; NULL: these. flat=false: a flat loss does not count; after=S: converged is where no
 * step has moved the weights for S seconds. One worker of many is enough: all end with the same
 * step. Groups (strategy local_sgd) are judged one by one, and leave one by one. */
MF_API MF_MUST mf_status mf_hook_converged(const char *settings, mf_hook *out);
/* What such a hook has decided: "converged", "diverged"; or else "improving", "stalled", "starved".
 * *why: one sentence with the rule and its numbers; it is the hook's. May be NULL. */
MF_API const char *mf_hook_converged_state(const mf_hook *hook, const char **why);

/* Write tensors ("node:port") to the log, every so often (all zero: not) and at the end. */
MF_API MF_MUST mf_status mf_hook_logging(const char *const *tensors, int n, mf_every every,
                                         bool at_end, mf_hook *out);

/* Run these fetches when the loop ends without failure. The values stay until the hook is freed. */
MF_API MF_MUST mf_status mf_hook_final_ops(const char *const *fetches, int n, mf_hook *out);
/* One value for each fetch; NULL: the loop has not ended well. */
MF_API mf_tensor *const *mf_hook_final_values(const mf_hook *hook);

/* A Chrome trace of a step every so often, as DIR/timeline-STEP.json; not of the first. */
MF_API MF_MUST mf_status mf_hook_profiler(const char *dir, mf_every every, mf_hook *out);

/* What fn puts into the request is fed to every run. */
typedef mf_status mf_feed_fn(void *ctx, mf_run_request *request);
MF_API MF_MUST mf_status mf_hook_feed(mf_feed_fn *fn, void *ctx, mf_hook *out);

/* Let the first run wait until others have done so many steps, or a stop was asked for. */
MF_API MF_MUST mf_status mf_hook_global_step_waiter(int64_t step, mf_hook *out);

#ifdef __cplusplus
}
#endif
#endif
