/* SPDX-License-Identifier: Apache-2.0 */
/* job_view.h - the jobs on this host, as their tasks' boards show them, and in sentences: who waits
 * for whom, and who is the reason. */
#ifndef MF_OBSERVE_JOB_VIEW_H
#define MF_OBSERVE_JOB_VIEW_H

#include "observe/status_page.h"

typedef struct mf_job_view_job {
    const mf_status_page_seen *tasks; /* by name */
    int n;
} mf_job_view_job;

typedef struct mf_job_view {
    mf_status_page_seen *boards;
    int n_boards;
    mf_job_view_job *jobs;
    int n_jobs;
    int64_t now; /* when it was read */
} mf_job_view;

/* job: only this one, of which there may be none; NULL: all. Owns: mf_job_view_deinit(), also after
 * a failure. */
MF_MUST mf_status mf_job_view_read(const char *job, mf_job_view *out);
void mf_job_view_deinit(mf_job_view *r);
/* The place of a task; -1: it is not here. */
int mf_job_view_find(const mf_job_view_job *job, const char *task);

/* ---- in words ---- */

/* What a task is at, or was at in the end, by its board: "computes step 57 since 2.1 s, op
 * dense/MatMul since 2.0 s". */
void mf_job_view_doing_text(const mf_status_page_seen *task, int64_t now, mf_buf *out);

/* And what keeps it: "is stopped by a signal", "waits for worker 2 (127.0.0.1:4001): the gradients,
 * bucket 3 of step 57, since 12.0 s". */
void mf_job_view_task_text(const mf_status_page_seen *task, int64_t now, mf_buf *out);
/* Who keeps the job from going on, and who waits for it. False, and nothing: it goes on. */
MF_MUST bool mf_job_view_explain(const mf_job_view_job *job, int64_t now, mf_buf *out);
/* The same of a task that is known to be the reason. note: behind what it does. */
void mf_job_view_blame(const mf_job_view_job *job, const char *name, const char *note, int64_t now,
                       mf_buf *out);
/* For what task i has been waiting for a second or more, and can do nothing else; NULL. */
const mf_status_page_wait *mf_job_view_waits(const mf_job_view_job *job, int i, int64_t now);
/* The task that i waits for in the end, which waits for nobody; itself where it does not wait;
 * NULL: they wait for each other. */
const char *mf_job_view_root(const mf_job_view_job *job, int i, int64_t now);

enum { MF_JOB_VIEW_NOTE = 160 };
/* "; it had 12 % of ..." where a task that computes was kept from it by others, else "". lately:
 * how it fared in a while. */
void mf_job_view_starved(const mf_status_page_seen *task, const mf_process_times *lately,
                         char note[MF_JOB_VIEW_NOTE]);

typedef struct mf_job_view_sum {
    int64_t step, steps; /* of the one that is ahead */
    double rate;
    int alive, dead, stopped, elsewhere; /* tasks; elsewhere: not shown on this host */
    int masters; /* that live; they are not counted as tasks */
} mf_job_view_sum;
mf_job_view_sum mf_job_view_sum_up(const mf_job_view_job *job);

/* It is on another host, and the chief shows it here. */
static inline bool mf_job_view_is_kept(const mf_status_page_seen *t)
{
    return t->page.keeper != 0;
}

/* It starts tasks of the job, and is none of those that take part in training. */
static inline bool mf_job_view_is_master(const mf_status_page_seen *t)
{
    return t->page.phase == MF_PHASE_WATCH;
}

static inline bool mf_job_view_is_stopped(const mf_status_page_seen *t)
{
    return t->alive && !mf_job_view_is_kept(t) &&
           (t->process.state == 'T' || t->process.state == 't');
}

#endif
