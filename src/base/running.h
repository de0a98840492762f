/* SPDX-License-Identifier: Apache-2.0 */
/* running.h - the jobs on this host, as their tasks' boards show them, and in sentences: who waits
 * for whom, and who is the reason. */
#ifndef MF_BASE_RUNNING_H
#define MF_BASE_RUNNING_H

#include "base/board.h"

typedef struct mf_running_job {
    const mf_board_seen *tasks; /* by name */
    int n;
} mf_running_job;

typedef struct mf_running {
    mf_board_seen *boards;
    int n_boards;
    mf_running_job *jobs;
    int n_jobs;
    int64_t now; /* when it was read */
} mf_running;

/* job: only this one, of which there may be none; NULL: all. Owns: mf_running_deinit(), also after
 * a failure. */
MF_MUST mf_status mf_running_read(const char *job, mf_running *out);
void mf_running_deinit(mf_running *r);
/* The place of a task; -1: it is not here. */
int mf_running_find(const mf_running_job *job, const char *task);

/* ---- in words ---- */

/* What a task is at, or was at in the end, by its board: "computes step 57 since 2.1 s, op
 * dense/MatMul since 2.0 s". */
void mf_running_doing_text(const mf_board_seen *task, int64_t now, mf_buf *out);

/* And what keeps it: "is stopped by a signal", "waits for worker 2 (127.0.0.1:4001): the gradients,
 * bucket 3 of step 57, since 12.0 s". */
void mf_running_task_text(const mf_board_seen *task, int64_t now, mf_buf *out);
/* Who keeps the job from going on, and who waits for it. False, and nothing: it goes on. */
MF_MUST bool mf_running_explain(const mf_running_job *job, int64_t now, mf_buf *out);
/* The same of a task that is known to be the reason. note: behind what it does. */
void mf_running_blame(const mf_running_job *job, const char *name, const char *note, int64_t now,
                      mf_buf *out);
/* For what task i has been waiting for a second or more, and can do nothing else; NULL. */
const mf_board_wait *mf_running_waits(const mf_running_job *job, int i, int64_t now);
/* The task that i waits for in the end, which waits for nobody; itself where it does not wait;
 * NULL: they wait for each other. */
const char *mf_running_root(const mf_running_job *job, int i, int64_t now);

enum { MF_RUNNING_NOTE = 160 };
/* "; it had 12 % of ..." where a task that computes was kept from it by others, else "". lately:
 * how it fared in a while. */
void mf_running_starved(const mf_board_seen *task, const mf_process_times *lately,
                        char note[MF_RUNNING_NOTE]);

typedef struct mf_running_sum {
    int64_t step, steps; /* of the one that is ahead */
    double rate;
    int alive, dead, stopped, elsewhere; /* tasks; elsewhere: not shown on this host */
    int masters; /* that live; they are not counted as tasks */
} mf_running_sum;
mf_running_sum mf_running_sum_up(const mf_running_job *job);

/* It is on another host, and the chief shows it here. */
static inline bool mf_running_is_kept(const mf_board_seen *t)
{
    return t->page.keeper != 0;
}

/* It starts tasks of the job, and is none of those that take part in training. */
static inline bool mf_running_is_master(const mf_board_seen *t)
{
    return t->page.phase == MF_PHASE_WATCH;
}

static inline bool mf_running_is_stopped(const mf_board_seen *t)
{
    return t->alive && !mf_running_is_kept(t) &&
           (t->process.state == 'T' || t->process.state == 't');
}

#endif
