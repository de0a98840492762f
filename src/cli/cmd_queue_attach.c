/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_queue_attach.c - `meshflow queue attach`: prints the output of a submitted job until the job
 * ends. */
#include "cli/command.h"
#include "jobqueue/jobqueue.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Copies new output. */
static mf_status cmd_queue_attach_copy(int log, bool *any)
{
    char bytes[8192];
    ssize_t n;

    *any = false;
    while ((n = read(log, bytes, sizeof bytes)) > 0) {
        for (ssize_t at = 0, put; at < n; at += put) {
            put = write(1, bytes + at, (size_t)(n - at));
            if (put < 0)
                return MF_FAIL(MF_UNAVAILABLE, "cannot write: %s", strerror(errno));
        }
        *any = true;
    }
    return MF_OK;
}

static mf_status cmd_queue_attach_follow(const char *dir, const char *name, const char *path,
                                         mf_jobqueue_job *job)
{
    int log = -1;
    mf_status st = MF_OK;

    for (bool over = false; st == MF_OK;) {
        mf_arena *arena = mf_arena_new();
        bool any = false;

        st = arena ? mf_jobqueue_read(dir, name, arena, job) : MF_NOMEM("a job");
        if (log < 0)
            log = open(path, O_RDONLY | O_CLOEXEC);
        if (st == MF_OK && log >= 0)
            st = cmd_queue_attach_copy(log, &any);
        mf_arena_free(arena);
        if (over && !any)
            break;
        over = st == MF_OK && mf_jobqueue_is_over(job->state); /* once more: the job may have
                                                                  written before it ended */
        if (!over)
            (void)nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
    }
    if (log >= 0)
        (void)close(log);
    return st;
}

static mf_status attach_run(mf_args *args)
{
    mf_buf dir = { 0 }, path = { 0 };
    mf_jobqueue_job job;
    mf_status st = mf_jobqueue_dir(mf_args_value(args, "dir"), &dir);

    if (st == MF_OK)
        st = mf_jobqueue_path(dir.data, args->words[0], "log", &path);
    if (st == MF_OK)
        st = cmd_queue_attach_follow(dir.data, args->words[0], path.data, &job);
    if (st == MF_NOT_FOUND)
        mf_args_hint(args, "`meshflow queue list` lists the jobs");
    if (st == MF_OK && job.state != MF_JOBQUEUE_DONE) {
        args->exit_code = (int)job.exit_code;
        st = MF_FAIL(MF_ABORTED, "the job '%s' %s", args->words[0], job.how);
    }
    mf_buf_deinit(&path);
    mf_buf_deinit(&dir);
    return st;
}

static const mf_option options[] = {
    { .name = "dir",
      .value = "DIR",
      .help = "folder of the queue (default: MESHFLOW_SPOOL, or ~/.meshflow/jobs)" },
    { 0 },
};

const mf_command mf_command_queue_attach = {
    .name = "queue attach",
    .arguments = "JOB",
    .summary = "show the output of a submitted job until it ends",
    .about = "Exits with the exit code of the job. An interrupt ends only this command, not the "
             "job.",
    .options = options,
    .examples = (const char *const[]){ "meshflow queue attach night", NULL },
    .min_args = 1,
    .max_args = 1,
    .exits = MF_EXITS_OF_JOBS "  N   another program: its own exit code\n",
    .run = attach_run,
};
