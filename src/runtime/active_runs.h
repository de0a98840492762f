/* SPDX-License-Identifier: Apache-2.0 */
/* active_runs.h - tracks and cancels the runs of a session. */
#ifndef MF_RUNTIME_ACTIVE_RUNS_H
#define MF_RUNTIME_ACTIVE_RUNS_H

#include "base/cancel.h"

/* The flag that ends the runs started under it. */
typedef struct mf_active_runs_flag {
    mf_cancel cancel;
    int runs; /* number of runs that refer to it; guarded by the lock of mf_active_runs */
} mf_active_runs_flag;

typedef struct mf_active_runs {
    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t ended; /* a run has ended */
    mf_active_runs_flag *flag; /* replaced when raised */
    int running;
} mf_active_runs;

/* A run, in the caller's memory. */
typedef struct mf_run {
    mf_cancel_hook hook; /* must be the first field */
    mf_cancel *cancel; /* ends this run when it is raised */
    mf_active_runs_flag *flag;
} mf_run;

MF_MUST mf_status mf_active_runs_init(mf_active_runs *r);
/* Call it when no run is in progress. */
void mf_active_runs_deinit(mf_active_runs *r);

/* until: ends this run alone when it is raised; may be NULL. */
void mf_active_runs_begin(mf_active_runs *r, mf_cancel *until, mf_run *run);
void mf_active_runs_end(mf_active_runs *r, mf_run *run);

/* Cancels the runs in progress and waits for them, but not for later ones, which may never end. */
void mf_active_runs_cancel(mf_active_runs *r);
/* The same, and waits until no run is in progress. */
void mf_active_runs_drain(mf_active_runs *r);

#endif
