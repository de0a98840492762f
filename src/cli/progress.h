/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - output of a training: a progress bar on a terminal, lines elsewhere; at the end a
 * table and the learning curve, which are also written to DIR/curve.csv and DIR/curve.svg. */
#ifndef MF_CLI_PROGRESS_H
#define MF_CLI_PROGRESS_H

#include "cli/job.h"
#include "report/learning_curve.h"

typedef struct mf_progress {
    bool quiet; /* print nothing; files are written */
    bool json; /* standard output is JSON: the table goes to standard error */
    bool terminal, utf8;
    const mf_job *job;
    const char *out; /* the output directory; NULL: none */
    int64_t batch, per_epoch, epochs, total; /* counts of steps */
    mf_curve *curve;
    bool unwritten; /* writing the learning curve has failed, and this was reported */
    bool begun; /* the first step is done: times are measured from its end */
    int64_t first_step, step; /* first_step: the last step before this process; step: the last
                                 finished step */
    int64_t begin_ns, step_ns, paused_ns; /* paused: time of validation since begin */
    int64_t shown_ns, epoch_shown_ns;
    int64_t samples; /* since begin_ns */
    int64_t skipped; /* steps that the guard has skipped */
    double recent[MF_MAX_RESULTS]; /* exponential means over about fifty steps */
    double epoch_sum[MF_MAX_RESULTS];
    int64_t epoch_steps;
    int64_t n_recent;
    const char *planned; /* summary of --auto; NULL: none */
    const char *ended; /* why training ended before the last step; NULL: unknown */
} mf_progress;

/* The caller sets quiet and json before. Owns: mf_progress_deinit(). */
MF_MUST mf_status mf_progress_init(mf_progress *p, const mf_job *job, const mf_fit_options *fit);
void mf_progress_deinit(mf_progress *p);
mf_hook mf_progress_hook(mf_progress *p);
/* Results of the validation of the last weights. */
void mf_progress_validated(mf_progress *p, const mf_result *validation, int n);
/* Call after the test, also if it was skipped. */
MF_MUST mf_status mf_progress_end(mf_progress *p, const mf_result *test, int n_test);

/* ---- internal ---- */

/* Seconds since the end of the first step; samples per second of training. */
double mf_progress_seconds(const mf_progress *p);
double mf_progress_rate(const mf_progress *p);
/* The current progress line, for a terminal of this width, or for output among others. */
void mf_progress_bar(const mf_progress *p, const mf_step_report *r, int columns, mf_buf *out);
void mf_progress_line(const mf_progress *p, const mf_step_report *r, mf_buf *out);
void mf_progress_epoch(const mf_progress *p, const mf_step_report *r, const mf_result *validation,
                       int n_validation, mf_buf *out);
void mf_progress_table(const mf_progress *p, const mf_result *test, int n_test, mf_buf *out);

#endif
