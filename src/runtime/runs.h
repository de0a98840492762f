/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h - the runs of a session that are in progress, and ending them. */
#ifndef MF_RUNTIME_RUNS_H
#define MF_RUNTIME_RUNS_H

#include "base/cancel.h"

/* What ends the runs that began under it. */
typedef struct mf_runs_flag {
    mf_cancel cancel;
    int runs; /* that refer to it; guarded by the lock of mf_runs */
} mf_runs_flag;

typedef struct mf_runs {
    pthread_mutex_t lock; /* all below */
    pthread_cond_t ended; /* some run has */
    mf_runs_flag *flag; /* replaced when raised */
    int running;
} mf_runs;

/* One of them, in the caller's memory. */
typedef struct mf_run {
    mf_cancel_hook hook; /* first */
    mf_cancel *cancel; /* ends this run when it is raised */
    mf_runs_flag *flag;
} mf_run;

MF_MUST mf_status mf_runs_init(mf_runs *r);
/* Nothing runs any more. */
void mf_runs_deinit(mf_runs *r);

/* until: ends this run alone when it is raised; NULL: nothing does. */
void mf_runs_begin(mf_runs *r, mf_cancel *until, mf_run *run);
void mf_runs_end(mf_runs *r, mf_run *run);

/* Ends those in progress and waits for them; not for later ones, which may wait for ever. */
void mf_runs_cancel(mf_runs *r);
/* The same, and waits until nothing runs. */
void mf_runs_drain(mf_runs *r);

#endif
