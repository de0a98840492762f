/* SPDX-License-Identifier: Apache-2.0 */
/* train_run.h - one run of `meshflow train` in a worker: from the opened data to the result. Setup
 * is in train_setup.c, the run in train_work.c, what is printed in train_report.c. */
#ifndef MF_CLI_TRAIN_RUN_H
#define MF_CLI_TRAIN_RUN_H

#include "cli/job.h"
#include "cli/planning.h"
#include "cli/replan.h"
#include "dist/strategies.h"
#include "train/step/trainer.h"

/* A run, and what is measured of it. */
typedef struct mf_train_run {
    mf_job *job;
    int64_t first_step_ns; /* end of the first step, since the start of the process */
    int64_t steps, samples; /* after the first step */
    int64_t begin_ns; /* of the second step */
    int64_t last_ns; /* end of the last step */
    double loss; /* of the last step */
    bool loss_known; /* at least one step was done */
    int64_t total; /* requested steps */
    const char *out; /* the output directory; NULL: none */
    const mf_args *args;
    bool failed;
    bool works; /* data, model and settings are valid: a later failure is one of the run */
    mf_chosen chosen; /* by --auto */
    mf_replan replan; /* with --auto; else zero */
    mf_buf summary; /* of --auto, for the end */
    mf_result validation[MF_MAX_RESULTS]; /* of the last weights */
    int n_validation;
    mf_hook converged; /* zero: training ends with the last step */
} mf_train_run;

/* The options of `meshflow train` (train_options.c). */
extern const mf_option mf_train_options[];

/* ---- setup (train_setup.c) ---- */

/* Caches, splits and augments the opened data; opens the strategy, with --auto after planning;
 * compiles the model and loads the weights of --init. Fails as invalid usage. */
MF_MUST mf_status mf_train_prepare(mf_train_run *run, mf_args *args, int64_t batch);

/* ---- the run (train_work.c) ---- */

/* Trains, validates, tests and prints the result. run->job is loaded. */
MF_MUST mf_status mf_train_work(mf_train_run *run, mf_args *args);

/* ---- what is printed (train_report.c) ---- */

/* The line of --json. */
MF_MUST mf_status mf_train_print_json(const mf_train_run *run, const mf_result *test, int n_test);
/* The tables of --explain. */
MF_MUST mf_status mf_train_explain(const mf_strategy *strategy);
/* *out: what --auto has chosen and predicted, borrowed from the run; unchanged without --auto. */
MF_MUST mf_status mf_train_summarize_plan(mf_train_run *run, const char **out);
/* "converged" or "diverged", with a sentence; NULL: no rule was given, or it has not decided. */
const char *mf_train_verdict(const mf_train_run *run, const char **why);
/* The run was stopped before its last step. */
bool mf_train_was_stopped(const mf_train_run *run);

/* ---- signals (train_signals.c) ---- */

/* SIGINT and SIGTERM end the run after the current step, SIGTERM only this worker where the
 * strategy can continue without it. Without a trainer both end the process at once. The second
 * signal ends the process. */
void mf_train_handle_signals(mf_trainer *t, mf_strategy *strategy);
/* The next signal has no effect, and the one after it ends the process. */
void mf_train_ignore_next_signal(void);

#endif
