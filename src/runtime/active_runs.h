/* SPDX-License-Identifier: Apache-2.0 */
/* active_runs.h - the runs of a session that are in progress, and ending them. */
#ifndef MF_RUNTIME_ACTIVE_RUNS_H
#define MF_RUNTIME_ACTIVE_RUNS_H

#include "base/cancel.h"

/* What ends the runs that began under it. */
typedef struct mf_active_runs_flag {
    mf_cancel cancel;
    int runs; /* that refer to it; guarded by the lock of mf_active_runs */
} mf_active_runs_flag;

typedef struct mf_active_runs {
    pthread_mutex_t lock; /* all below */
    pthread_cond_t ended; /* some run has */
    mf_active_runs_flag *flag; /* replaced when raised */
    int running;
} mf_active_runs;

/* One of them, in the caller's memory. */
typedef struct mf_run {
    mf_cancel_hook hook; /* first */
    mf_cancel *cancel; /* ends this run when it is raised */
    mf_active_runs_flag *flag;
} mf_run;

MF_MUST mf_status mf_active_runs_init(mf_active_runs *r);
/* Nothing runs any more. */
void mf_active_runs_deinit(mf_active_runs *r);

/* until: ends this run alone when it is raised; NULL: nothing does. */
void mf_active_runs_begin(mf_active_runs *r, mf_cancel *until, mf_run *run);
void mf_active_runs_end(mf_active_runs *r, mf_run *run);

/* Ends those in progress and waits for them; not for later ones, which may wait for ever. */
void mf_active_runs_cancel(mf_active_runs *r);
/* The same, and waits until nothing runs. */
void mf_active_runs_drain(mf_active_runs *r);

#endif
