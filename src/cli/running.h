/* SPDX-License-Identifier: Apache-2.0 */
/* running.h - the jobs on this host, as their tasks' boards show them, and in sentences: who waits
 * for whom, and who is the reason. */
#ifndef MF_CLI_RUNNING_H
#define MF_CLI_RUNNING_H

#include "base/board.h"
#include "cli/command.h"

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

/* job: only this one; NULL: all. NOT_FOUND, with a hint. Owns: mf_running_deinit(), also after a
 * failure. */
MF_MUST mf_status mf_running_read(mf_args *args, const char *job, mf_running *out);
void mf_running_deinit(mf_running *r);

/* What a task does: "waits for worker 2 (127.0.0.1:4001): the gradients, bucket 3 of step 57, since
 * 12.0 s". */
void mf_running_task_text(const mf_board_seen *task, int64_t now, mf_buf *out);
/* One sentence on the whole job. */
void mf_running_explain(const mf_running_job *job, int64_t now, mf_buf *out);

typedef struct mf_running_sum {
    int64_t step, steps; /* of the one that is ahead */
    double rate;
    int alive, dead, stopped, elsewhere; /* tasks; elsewhere: not shown on this host */
} mf_running_sum;
mf_running_sum mf_running_sum_up(const mf_running_job *job);

/* It is on another host, and the chief shows it here. */
static inline bool mf_running_is_kept(const mf_board_seen *t)
{
    return t->page.keeper != 0;
}

static inline bool mf_running_is_stopped(const mf_board_seen *t)
{
    return t->alive && !mf_running_is_kept(t) &&
           (t->process.state == 'T' || t->process.state == 't');
}

/* Is this task the one that a user calls `wanted`? "worker:1" and "worker 1" are the same; NULL is
 * any. */
bool mf_running_is_meant(const char *wanted, const char *task);

#endif
