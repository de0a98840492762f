/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_job_leave.c - `meshflow job leave` and `meshflow job drain`: workers leave a running job. */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/running.h"
#include "supervisor/local_workers.h"

/* Only workers match without `task`; parameter servers stay. */
static mf_status remove_workers(const mf_job_view_job *job, const char *task, mf_buf *out)
{
    int n = 0;

    for (int i = 0; i < job->n; i++) {
        const mf_status_page_seen *t = &job->tasks[i];

        if (!t->alive || mf_job_view_is_kept(t) || !mf_cli_is_meant(task, t->page.task) ||
            (!task && mf_worker_index(t->page.task) < 0))
            continue;
        MF_TRY(mf_worker_leave(t));
        mf_buf_printf(out, "%s leaves after its next step\n", t->page.task);
        n++;
    }
    if (n > 0)
        return MF_OK;
    return MF_FAIL(MF_NOT_FOUND, "job '%s' has no living %s here", job->tasks[0].page.job,
                   task ? task : "worker");
}

static mf_status cmd_job_leave_workers(mf_args *args, const char *task)
{
    mf_buf out = { 0 };
    mf_job_view r;
    mf_status st = mf_cli_running(args, args->words[0], &r);

    if (st == MF_OK)
        st = remove_workers(&r.jobs[0], task, &out);
    mf_job_view_deinit(&r);
    return mf_cli_print_done(st, &out);
}

static mf_status leave_run(mf_args *args)
{
    return cmd_job_leave_workers(args, args->words[1]);
}

static mf_status drain_run(mf_args *args)
{
    return cmd_job_leave_workers(args, NULL);
}

const mf_command mf_command_job_leave = {
    .name = "job leave",
    .arguments = "JOB TASK",
    .summary = "remove a worker from a running job",
    .about = "The worker ends with exit code 75 after its next step, and the others take over "
             "its shards; results do not change. SIGTERM has the same effect. When all workers "
             "leave, the job writes a checkpoint and ends.",
    .options = (const mf_option[]){ { 0 } },
    .examples = (const char *const[]){ "meshflow job leave resnet worker:1", NULL },
    .min_args = 2,
    .max_args = 2,
    .run = leave_run,
};

const mf_command mf_command_job_drain = {
    .name = "job drain",
    .arguments = "JOB",
    .summary = "remove all workers of this host from a running job",
    .about = "Does what `meshflow job leave` does, for each worker of this host: the job "
             "continues on other hosts, or writes a checkpoint and ends.",
    .options = (const mf_option[]){ { 0 } },
    .examples = (const char *const[]){ "meshflow job drain resnet", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = drain_run,
};
