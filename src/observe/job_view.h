/* SPDX-License-Identifier: Apache-2.0 */
/* job_view.h - the jobs on this host, as the status pages of their tasks show them, and sentences
 * that say which tasks wait, for which task, and what that task does. */
#ifndef MF_OBSERVE_JOB_VIEW_H
#define MF_OBSERVE_JOB_VIEW_H

#include "observe/status_page.h"

typedef struct mf_job_view_job {
    const mf_status_page_seen *tasks; /* by name */
    int n;
} mf_job_view_job;

typedef struct mf_job_view {
    mf_status_page_seen *pages;
    int n_pages;
    mf_job_view_job *jobs;
    int n_jobs;
    int64_t now; /* when the pages were read */
} mf_job_view;

/* job: only this job, of which there may be none; NULL: all jobs. Owns: the caller calls
 * mf_job_view_deinit(), also after a failure. */
MF_MUST mf_status mf_job_view_read(const char *job, mf_job_view *out);
void mf_job_view_deinit(mf_job_view *r);
/* The index of a task; -1: it is not on this host. */
int mf_job_view_find(const mf_job_view_job *job, const char *task);

/* ---- text ---- */

/* What a task does, or did last, by its status page: "has been computing step 57 for 2.1 s, op
 * dense/MatMul for 2.0 s". */
void mf_job_view_doing_text(const mf_status_page_seen *task, int64_t now, mf_buf *out);

/* The same with the task's state: "has been stopped by a signal for up to 2.0 s", "has been waiting
 * for worker 2 (127.0.0.1:4001) for 12.0 s: the gradients, bucket 3 of step 57". */
void mf_job_view_task_text(const mf_status_page_seen *task, int64_t now, mf_buf *out);
/* Names the task that stalls the job and the tasks that wait for it. Returns false, without text,
 * if the job makes progress. */
MF_MUST bool mf_job_view_explain(const mf_job_view_job *job, int64_t now, mf_buf *out);
/* The same for a task that is known to be the cause. note: appended to what the task does. */
void mf_job_view_blame(const mf_job_view_job *job, const char *name, const char *note, int64_t now,
                       mf_buf *out);
/* The wait that has blocked task i for a second or more; NULL: it is not blocked. */
const mf_status_page_wait *mf_job_view_waits(const mf_job_view_job *job, int i, int64_t now);
/* The task at the end of the chain of waits that starts at i; i itself if it does not wait; NULL: a
 * deadlock. */
const char *mf_job_view_root(const mf_job_view_job *job, int i, int64_t now);

enum { MF_JOB_VIEW_NOTE = 160 };
/* If a task that needs its processor did not get it: ", and gets 12 % of the processor time ...",
 * else "". lately: its scheduling times over a recent interval. */
void mf_job_view_starved(const mf_status_page_seen *task, const mf_process_times *lately,
                         char note[MF_JOB_VIEW_NOTE]);

typedef struct mf_job_view_sum {
    int64_t step, steps; /* of the task that is furthest ahead */
    double rate;
    int alive, dead, stopped, elsewhere; /* numbers of tasks; elsewhere: not shown on this host */
    int masters; /* live supervisors, which are not counted as tasks */
} mf_job_view_sum;
mf_job_view_sum mf_job_view_sum_up(const mf_job_view_job *job);

/* The task is on another host; its page is shown here by the chief. */
static inline bool mf_job_view_is_kept(const mf_status_page_seen *t)
{
    return t->page.keeper != 0;
}

/* It is a supervisor: it starts tasks of the job and takes no part in training. */
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
