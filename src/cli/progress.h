/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - what a training shows: on the way a bar on a terminal, or lines elsewhere; at the
 * end a table and the learning curve, which also go to DIR/curve.csv and DIR/curve.svg. */
#ifndef MF_CLI_PROGRESS_H
#define MF_CLI_PROGRESS_H

#include "cli/job.h"
#include "report/learning_curve.h"

typedef struct mf_progress {
    bool quiet; /* show nothing; files are written all the same */
    bool json; /* standard output is for a program: the table goes to standard error */
    bool terminal, utf8;
    const mf_job *job;
    const char *out; /* the folder; NULL: none */
    int64_t batch, per_epoch, epochs, total; /* steps */
    mf_curve *curve;
    bool unwritten; /* the learning curve could not be written, and that was said */
    bool begun; /* the first step is done: times count from its end */
    int64_t first_step, step; /* the one before this process's first; the last that is done */
    int64_t begin_ns, step_ns, paused_ns; /* paused: validation, since begin */
    int64_t shown_ns, epoch_shown_ns;
    int64_t samples; /* since begin_ns */
    int64_t skipped; /* steps that the guard has left out */
    double recent[MF_MAX_RESULTS]; /* means that forget: of about the last fifty steps */
    double epoch_sum[MF_MAX_RESULTS];
    int64_t epoch_steps;
    int64_t n_recent;
    const char *planned; /* by --auto, and what became of it; NULL: nothing was */
    const char *ended; /* why, where it was not the last step; NULL: nobody knows */
} mf_progress;

/* quiet and json are set before. Owns: mf_progress_deinit(). */
MF_MUST mf_status mf_progress_init(mf_progress *p, const mf_job *job, const mf_fit_options *fit);
void mf_progress_deinit(mf_progress *p);
mf_hook mf_progress_hook(mf_progress *p);
/* What the validation of the final weights has come to. */
void mf_progress_validated(mf_progress *p, const mf_result *validation, int n);
/* After the test, which may have been left out. */
MF_MUST mf_status mf_progress_end(mf_progress *p, const mf_result *test, int n_test);

/* ---- the parts ---- */

/* Seconds since the first step's end; samples in a second of training. */
double mf_progress_seconds(const mf_progress *p);
double mf_progress_rate(const mf_progress *p);
/* The line of now, for a terminal that has so many columns, or to be printed with others. */
void mf_progress_bar(const mf_progress *p, const mf_step_report *r, int columns, mf_buf *out);
void mf_progress_line(const mf_progress *p, const mf_step_report *r, mf_buf *out);
void mf_progress_epoch(const mf_progress *p, const mf_step_report *r, const mf_result *validation,
                       int n_validation, mf_buf *out);
void mf_progress_table(const mf_progress *p, const mf_result *test, int n_test, mf_buf *out);

#endif
