/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_scale.c - `meshflow scale`: a running job gets more workers on this host, or fewer. */
#include "base/buf.h"
#include "cli/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A process of its own, that nobody waits for; what it says is not read. */
static mf_status start_one(const mf_running_job *job, int index)
{
    const pid_t pid = fork();

    if (pid < 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a worker: %s", strerror(errno));
    if (pid > 0)
        return MF_OK;
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)setsid();
    for (int fd = 0; nothing >= 0 && fd < 3; fd++)
        (void)dup2(nothing, fd);
    (void)!mf_worker_become(job, index, NULL);
    _exit(1);
}

/* The one with the highest index below `below`; NULL: none. */
static const mf_board_seen *last_below(const mf_running_job *job, int below)
{
    const mf_board_seen *last = NULL;

    for (int i = 0; i < job->n; i++) {
        const int index = mf_worker_index(job->tasks[i].page.task);

        if (job->tasks[i].alive && !mf_running_is_kept(&job->tasks[i]) && index >= 0 &&
            index < below && (!last || index > mf_worker_index(last->page.task)))
            last = &job->tasks[i];
    }
    return last;
}

static mf_status scale(const mf_running_job *job, int wanted, mf_buf *out)
{
    const int have = mf_workers_count(job);
    const mf_board_seen *last = last_below(job, INT32_MAX);
    const int first = last ? mf_worker_index(last->page.task) + 1 : 0;

    if (have == 0)
        return MF_FAIL(MF_NOT_FOUND, "job '%s' has no living worker here", job->tasks[0].page.job);
    for (int i = have; i < wanted; i++) {
        MF_TRY(start_one(job, first + i - have));
        mf_buf_printf(out, "worker %d is started\n", first + i - have);
    }
    for (int i = wanted; i < have && last; i++) {
        MF_TRY(mf_worker_leave(last));
        mf_buf_printf(out, "%s leaves after its next step\n", last->page.task);
        last = last_below(job, mf_worker_index(last->page.task));
    }
    if (have == wanted)
        mf_buf_printf(out, "there are %d workers already\n", have);
    return MF_OK;
}

static mf_status scale_run(mf_args *args)
{
    int64_t wanted = 0;
    mf_buf out = { 0 };
    mf_running r;
    mf_status st;

    MF_TRY(mf_args_int(args, "workers", 1, 1024, &wanted));
    if (wanted == 0)
        return mf_args_wrong(args, "say how many: --workers");
    st = mf_cli_running(args, args->words[0], &r);
    if (st == MF_OK)
        st = scale(&r.jobs[0], (int)wanted, &out);
    mf_running_deinit(&r);
    return mf_cli_print_done(st, &out);
}

static const mf_option options[] = {
    { "workers", "N", "so many on this host", 0, false },
    { 0 },
};

const mf_command mf_command_scale = {
    .name = "scale",
    .arguments = "JOB",
    .summary = "give a running job more workers on this host, or fewer",
    .about = "New ones train with the command line of one that is there (`meshflow join`), those "
             "with the highest index leave (`meshflow leave`). Results stay the same.",
    .options = options,
    .examples = (const char *const[]){ "meshflow scale resnet --workers 4", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = scale_run,
};
