/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_job_list.c - `meshflow job list` and `meshflow job sweep`. */
#include "cli/running.h"
#include "cli/text.h"
#include "supervisor/leftovers.h"

#include <string.h>

static const char *cmd_job_list_state_of(const mf_job_view_sum *s)
{
    return s->alive == 0 ? "dead" : s->dead > 0 ? "broken" : s->stopped > 0 ? "stopped" : "runs";
}

static void cmd_job_list_put_line(const mf_job_view_job *job, mf_buf *out)
{
    const mf_job_view_sum s = mf_job_view_sum_up(job);
    char step[MF_TEXT], steps[MF_TEXT], rate[MF_TEXT];

    mf_buf_printf(out, "%-24s %-8s %5d %5d %9s %9s %10s\n", job->tasks[0].page.job,
                  cmd_job_list_state_of(&s), s.alive, s.dead, mf_cli_count(s.step, step),
                  mf_cli_count(s.steps, steps), mf_cli_count((int64_t)(s.rate + 0.5), rate));
}

static void cmd_job_list_put_json(const mf_job_view_job *job, mf_buf *out)
{
    const mf_job_view_sum s = mf_job_view_sum_up(job);
    const char *name = job->tasks[0].page.job;

    mf_buf_str(out, "{\"job\":");
    mf_buf_json(out, name, strlen(name));
    mf_buf_printf(out,
                  ",\"state\":\"%s\",\"alive\":%d,\"dead\":%d,\"stopped\":%d,\"step\":%lld,"
                  "\"steps\":%lld,\"samples_per_second\":%.6g}",
                  cmd_job_list_state_of(&s), s.alive, s.dead, s.stopped, (long long)s.step,
                  (long long)s.steps, s.rate);
}

/* With sweep, dead tasks are removed after they are shown. */
static mf_status job_list_print(mf_args *args, bool sweep)
{
    const bool json = mf_args_has(args, "json");
    mf_job_view r;
    mf_buf out = { 0 };
    mf_status st = mf_cli_running(args, NULL, &r);

    mf_buf_str(&out, json ? "{\"jobs\":[" : "");
    if (!json && r.n_jobs > 0)
        mf_buf_printf(&out, "%-24s %-8s %5s %5s %9s %9s %10s\n", "job", "state", "tasks", "dead",
                      "step", "of", "samples/s");
    for (int i = 0; st == MF_OK && i < r.n_jobs; i++) {
        mf_buf_str(&out, json && i ? "," : "");
        if (json)
            cmd_job_list_put_json(&r.jobs[i], &out);
        else
            cmd_job_list_put_line(&r.jobs[i], &out);
    }
    mf_buf_str(&out, json            ? "]}\n"
                     : r.n_jobs == 0 ? "no job of this user trains on this host\n"
                                     : "");
    if (st == MF_OK && sweep)
        st = mf_status_pages_sweep();
    if (st == MF_OK && sweep)
        st = mf_leftovers_sweep();
    mf_job_view_deinit(&r);
    if (st == MF_OK)
        return mf_cli_print(&out);
    mf_buf_deinit(&out);
    return st;
}

static mf_status job_list_run(mf_args *args)
{
    return job_list_print(args, mf_args_has(args, "sweep"));
}

static mf_status job_sweep_run(mf_args *args)
{
    return job_list_print(args, true);
}

static const mf_option job_list_options[] = {
    { .name = "json", .help = "print one JSON object on one line" },
    { .name = "sweep", .help = "as `meshflow job sweep`", .hidden = true },
    { 0 },
};

static const mf_option job_sweep_options[] = {
    { .name = "json", .help = "print one JSON object on one line" },
    { 0 },
};

const mf_command mf_command_job_list = {
    .name = "job list",
    .arguments = "",
    .summary = "list the jobs of this host",
    .about = "Prints one line for each training of this user on this host. A job is `broken` when "
             "one of its tasks is dead, and `dead` when all are. Killed jobs stay in the list "
             "until `meshflow job sweep`, until a job of the same name starts, or until any job "
             "starts a day later.",
    .options = job_list_options,
    .examples = (const char *const[]){ "meshflow job list", NULL },
    .min_args = 0,
    .max_args = 0,
    .run = job_list_run,
};

const mf_command mf_command_job_sweep = {
    .name = "job sweep",
    .arguments = "",
    .summary = "remove dead jobs and their files",
    .about = "Lists the jobs as `meshflow job list` does. Then removes dead tasks from the list, "
             "and their files in shared memory and in membership stores.",
    .options = job_sweep_options,
    .examples = (const char *const[]){ "meshflow job sweep", NULL },
    .min_args = 0,
    .max_args = 0,
    .run = job_sweep_run,
};
