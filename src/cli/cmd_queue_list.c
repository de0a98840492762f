/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_queue_list.c - `meshflow queue list`: submitted jobs and their state; `meshflow queue
 * cancel`. */
#include "cli/command.h"
#include "jobqueue/jobqueue.h"

#include <string.h>

static void cmd_queue_list_put_line(const mf_jobqueue_job *j, mf_buf *out)
{
    mf_buf_printf(out, "%-24s %-10s %5lld %5lld  %s", j->name, mf_jobqueue_state_text(j->state),
                  (long long)j->tries, (long long)j->order.slots, j->how);
    mf_buf_str(out, j->how[0] ? ": " : "");
    for (int64_t i = 0; i < j->order.n_words; i++)
        mf_buf_printf(out, "%s%s", i ? " " : "", j->order.words[i]);
    mf_buf_str(out, "\n");
}

static void cmd_queue_list_put_json(const mf_jobqueue_job *j, mf_buf *out)
{
    mf_buf_str(out, "{\"job\":");
    mf_buf_json(out, j->name, strlen(j->name));
    mf_buf_printf(out, ",\"state\":\"%s\",\"tries\":%lld,\"slots\":%lld",
                  mf_jobqueue_state_text(j->state), (long long)j->tries, (long long)j->order.slots);
    if (j->state == MF_JOBQUEUE_RUNS)
        mf_buf_printf(out, ",\"pid\":%lld", (long long)j->pid);
    if (mf_jobqueue_is_over(j->state)) {
        mf_buf_printf(out, ",\"exit_code\":%lld,\"how\":", (long long)j->exit_code);
        mf_buf_json(out, j->how, strlen(j->how));
    }
    mf_buf_str(out, ",\"command\":[");
    for (int64_t i = 0; i < j->order.n_words; i++) {
        mf_buf_str(out, i ? "," : "");
        mf_buf_json(out, j->order.words[i], strlen(j->order.words[i]));
    }
    mf_buf_str(out, "]}");
}

static void cmd_queue_list_put_all(const mf_jobqueue_job *jobs, int n, bool json, mf_buf *out)
{
    mf_buf_str(out, json ? "{\"jobs\":[" : "");
    if (!json && n > 0)
        mf_buf_printf(out, "%-24s %-10s %5s %5s  %s\n", "job", "state", "tries", "slots", "what");
    for (int i = 0; i < n; i++) {
        mf_buf_str(out, json && i ? "," : "");
        if (json)
            cmd_queue_list_put_json(&jobs[i], out);
        else
            cmd_queue_list_put_line(&jobs[i], out);
    }
    mf_buf_str(out, json ? "]}\n" : n == 0 ? "no job was submitted\n" : "");
}

static mf_status cmd_queue_list_forget(const mf_args *args, const char *dir, mf_arena *arena)
{
    const char *name;
    int64_t at = 0;

    while ((name = mf_args_next(args, "forget", &at)) != NULL) {
        const mf_jobqueue_job *waiting;
        mf_jobqueue_job job, *jobs;
        int n;

        MF_TRY(mf_jobqueue_read(dir, name, arena, &job));
        MF_TRY(mf_jobqueue_list(dir, arena, &jobs, &n));
        waiting = mf_jobqueue_find_waiting(jobs, n, name);
        if (waiting)
            return MF_FAIL(MF_FAILED_PRECONDITION,
                           "the job '%s' depends on '%s' and has not started: cancel it first, "
                           "or wait",
                           waiting->name, name);
        MF_TRY(mf_jobqueue_forget(dir, &job));
    }
    return MF_OK;
}

static mf_status queue_in(mf_args *args, const char *dir, mf_arena *arena, mf_buf *out)
{
    mf_jobqueue_job *jobs;
    int n;

    MF_TRY(cmd_queue_list_forget(args, dir, arena));
    MF_TRY(mf_jobqueue_list(dir, arena, &jobs, &n));
    cmd_queue_list_put_all(jobs, n, mf_args_has(args, "json"), out);
    for (int i = 0; mf_args_has(args, "sweep") && i < n; i++) {
        if (mf_jobqueue_is_over(jobs[i].state) && !mf_jobqueue_find_waiting(jobs, n, jobs[i].name))
            MF_TRY(mf_jobqueue_forget(dir, &jobs[i]));
    }
    return MF_OK;
}

static mf_status cancel_in(mf_args *args, const char *dir, mf_arena *arena, mf_buf *out)
{
    for (int64_t i = 0; i < args->n_words; i++) {
        mf_jobqueue_job job;

        MF_TRY(mf_jobqueue_read(dir, args->words[i], arena, &job));
        MF_TRY(mf_jobqueue_cancel(dir, arena, &job));
        mf_buf_printf(out, "%s: %s\n", job.name,
                      job.state == MF_JOBQUEUE_RUNS ? "it was asked to end" : "it will not start");
    }
    return MF_OK;
}

static mf_status with_dir(mf_args *args,
                          mf_status (*run)(mf_args *, const char *, mf_arena *, mf_buf *))
{
    mf_arena *arena = mf_arena_new();
    mf_buf dir = { 0 }, out = { 0 };
    mf_status st = arena ? mf_jobqueue_dir(mf_args_value(args, "dir"), &dir) : MF_NOMEM("jobs");

    if (st == MF_OK)
        st = run(args, dir.data, arena, &out);
    if (st == MF_NOT_FOUND)
        mf_args_hint(args, "`meshflow queue list` lists the jobs");
    mf_arena_free(arena);
    mf_buf_deinit(&dir);
    return mf_cli_print_done(st, &out);
}

static mf_status queue_run(mf_args *args)
{
    return with_dir(args, queue_in);
}

static mf_status cancel_run(mf_args *args)
{
    return with_dir(args, cancel_in);
}

#define DIR_OPTION                                                                                 \
    {                                                                                              \
        .name = "dir", .value = "DIR",                                                             \
        .help = "folder of the queue (default: MESHFLOW_SPOOL, or ~/.meshflow/jobs)"               \
    }

static const mf_option queue_options[] = {
    DIR_OPTION,
    { .name = "json", .help = "print one JSON object on one line" },
    { .name = "forget",
      .value = "JOB",
      .help = "remove this ended job from the queue",
      .many = true },
    { .name = "sweep", .help = "remove all ended jobs from the queue after listing them" },
    { 0 },
};

static const mf_option cancel_options[] = { DIR_OPTION, { 0 } };

const mf_command mf_command_queue_list = {
    .name = "queue list",
    .arguments = "",
    .summary = "list submitted jobs",
    .about = "Lists the oldest job first. `meshflow job status` shows the progress of a running "
             "training, `meshflow queue attach` the output of a job.",
    .options = queue_options,
    .examples = (const char *const[]){ "meshflow queue list", "meshflow queue list --sweep", NULL },
    .min_args = 0,
    .max_args = 0,
    .run = queue_run,
};

const mf_command mf_command_queue_cancel = {
    .name = "queue cancel",
    .arguments = "JOB...",
    .summary = "cancel submitted jobs",
    .about = "All processes of a running job get SIGTERM, and SIGKILL ten seconds later; a "
             "training with --out first writes a checkpoint. The daemon need not run.",
    .options = cancel_options,
    .examples = (const char *const[]){ "meshflow queue cancel night", NULL },
    .min_args = 1,
    .max_args = -1,
    .run = cancel_run,
};
