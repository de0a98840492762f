/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_job_hang.c - `meshflow job hang`: why a job is stalled or dead, and the last events of each
 * task from its flight recorder. */
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/mem.h"
#include "cli/running.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 300 }; /* observation time of living tasks */

/* A task and the contents of its flight recorder. */
typedef struct hang_task {
    const mf_status_page_seen *task;
    int64_t end; /* of a dead task, its last event; else now */
    mf_status_page_event events[MF_STATUS_PAGE_EVENTS];
    int n;
    char note[MF_JOB_VIEW_NOTE];
} hang_task;

static double cmd_job_hang_seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

/* ---- observation ---- */

static int64_t cmd_job_hang_end_of(const hang_task *t, int64_t now)
{
    int64_t end = t->task->page.changed_ns;

    if (t->task->alive)
        return now;
    for (int i = 0; i < t->n; i++)
        end = t->events[i].at_ns > end ? t->events[i].at_ns : end;
    return end;
}

/* Measures whether the tasks get the processor time that they request. */
static void cmd_job_hang_watch(hang_task *tasks, int n)
{
    mf_process_times *before = mf_calloc(n + 1, sizeof *before);
    bool any = false;

    for (int i = 0; before && i < n; i++) {
        const mf_status_page_seen *t = tasks[i].task;

        if (t->alive && !mf_job_view_is_kept(t) && mf_process_time(t->page.pid, &before[i]))
            any = true;
        else
            before[i].at_ns = 0;
    }
    if (any)
        (void)nanosleep(&(struct timespec){ 0, LOOK_MS * 1000000 }, NULL);
    for (int i = 0; any && i < n; i++) {
        mf_process_times now, lately;

        if (before[i].at_ns == 0 || !mf_process_time(tasks[i].task->page.pid, &now))
            continue;
        lately = mf_process_time_between(&before[i], &now);
        mf_job_view_starved(tasks[i].task, &lately, tasks[i].note);
    }
    mf_free(before);
}

static mf_status cmd_job_hang_ask(const mf_job_view_job *job, int64_t now, hang_task **out)
{
    hang_task *tasks = mf_calloc(job->n, sizeof *tasks);

    *out = tasks;
    if (!tasks)
        return MF_NOMEM("tasks");
    for (int i = 0; i < job->n; i++) {
        hang_task *t = &tasks[i];

        t->task = &job->tasks[i];
        if (mf_status_page_events_read(t->task, t->events, &t->n) != MF_OK)
            t->n = 0; /* it has ended in the meantime */
        t->end = cmd_job_hang_end_of(t, now);
    }
    cmd_job_hang_watch(tasks, job->n);
    return MF_OK;
}

/* ---- text output ---- */

/* Names the first task that died, in a job whose tasks are all dead. */
static void put_death(const mf_job_view_job *job, const hang_task *tasks, int64_t now, mf_buf *out)
{
    const hang_task *first = &tasks[0];

    for (int i = 1; i < job->n; i++)
        first = tasks[i].end < first->end ? &tasks[i] : first;
    mf_buf_printf(out, "%s dead: killed, or crashed", job->n == 1 ? "it is" : "all tasks are");
    if (job->n > 1)
        mf_buf_printf(out, "; %s was the first to stop reporting", first->task->page.task);
    mf_buf_printf(out, ", %.1f s ago: it ", cmd_job_hang_seconds(now - first->end));
    mf_job_view_doing_text(first->task, first->end, out);
}

static void put_why(const mf_job_view_job *job, const hang_task *tasks, int64_t now, mf_buf *out)
{
    if (mf_job_view_sum_up(job).alive == 0)
        put_death(job, tasks, now, out);
    else
        mf_cli_explain(job, now, out);
}

static void put_does(const hang_task *t, int64_t now, mf_buf *out)
{
    if (!t->task->alive) {
        mf_buf_printf(out, "is dead; its last state, %.1f s ago: it ",
                      cmd_job_hang_seconds(now - t->end));
        mf_job_view_doing_text(t->task, t->end, out);
    } else {
        mf_job_view_task_text(t->task, now, out);
    }
    mf_buf_str(out, t->note);
}

static void cmd_job_hang_put_task(const hang_task *t, int64_t events, int64_t now, mf_buf *out)
{
    const int first = t->n > events ? t->n - (int)events : 0;

    mf_buf_printf(out, "\n%s (pid %lld) ", t->task->page.task, (long long)t->task->page.pid);
    put_does(t, now, out);
    mf_buf_str(out, "\n");
    for (int i = first; i < t->n; i++) {
        mf_buf_printf(out, "  %12.6f s  ", -cmd_job_hang_seconds(t->end - t->events[i].at_ns));
        mf_status_page_event_text(&t->events[i], out);
        mf_buf_str(out, "\n");
    }
    if (t->n == 0)
        mf_buf_printf(out, "  its recorder is %s\n",
                      mf_job_view_is_kept(t->task) ? "on its host" : "empty");
}

/* ---- JSON output ---- */

static void cmd_job_hang_put_string(const char *name, mf_buf *text, mf_buf *out)
{
    mf_buf_printf(out, "\"%s\":", name);
    mf_buf_json(out, text->data ? text->data : "", text->len);
    mf_buf_str(out, ",");
    mf_buf_clear(text);
}

static void cmd_job_hang_put_task_json(const hang_task *t, int64_t events, int64_t now,
                                       mf_buf *text, mf_buf *out)
{
    const int first = t->n > events ? t->n - (int)events : 0;

    mf_buf_str(text, t->task->page.task);
    cmd_job_hang_put_string("task", text, out);
    put_does(t, now, text);
    cmd_job_hang_put_string("does", text, out);
    mf_buf_printf(out, "\"pid\":%lld,\"alive\":%s,\"ended_seconds_ago\":%.6f,\"events\":[",
                  (long long)t->task->page.pid, t->task->alive ? "true" : "false",
                  cmd_job_hang_seconds(now - t->end));
    for (int i = first; i < t->n; i++) {
        mf_status_page_event_text(&t->events[i], text);
        mf_buf_str(out, i > first ? ",{" : "{");
        cmd_job_hang_put_string("event", text, out);
        mf_buf_printf(out, "\"seconds\":%.6f,\"step\":%lld}",
                      -cmd_job_hang_seconds(t->end - t->events[i].at_ns),
                      (long long)t->events[i].step);
    }
    mf_buf_str(out, "]");
}

/* ---- the command ---- */

static mf_status cmd_job_hang_put_job(const mf_job_view_job *job, int64_t events, bool json,
                                      mf_buf *out)
{
    mf_buf text = { 0 };
    const int64_t now = mf_clock_ns();
    hang_task *tasks;
    mf_status st = cmd_job_hang_ask(job, now, &tasks);

    if (st != MF_OK)
        return st;
    put_why(job, tasks, now, &text);
    if (json) {
        mf_buf name = { 0 };

        mf_buf_str(&name, job->tasks[0].page.job);
        cmd_job_hang_put_string("job", &name, out);
        cmd_job_hang_put_string("explanation", &text, out);
        mf_buf_deinit(&name);
        mf_buf_str(out, "\"tasks\":[");
    } else {
        mf_buf_printf(out, "%s: %s.\n", job->tasks[0].page.job, text.data ? text.data : "");
        mf_buf_clear(&text);
    }
    for (int i = 0; i < job->n; i++) {
        mf_buf_str(out, json ? i ? ",{" : "{" : "");
        if (json)
            cmd_job_hang_put_task_json(&tasks[i], events, now, &text, out);
        else
            cmd_job_hang_put_task(&tasks[i], events, now, out);
        mf_buf_str(out, json ? "}" : "");
    }
    mf_buf_str(out, json ? "]" : "");
    mf_buf_deinit(&text);
    mf_free(tasks);
    return MF_OK;
}

static mf_status hang_run(mf_args *args)
{
    const bool json = mf_args_has(args, "json");
    int64_t events = json ? MF_STATUS_PAGE_EVENTS : 12;
    mf_buf out = { 0 };
    mf_job_view r;
    mf_status st;

    MF_TRY(mf_args_int(args, "events", 0, MF_STATUS_PAGE_EVENTS, &events));
    st = mf_cli_running(args, args->n_words > 0 ? args->words[0] : NULL, &r);
    mf_buf_str(&out, json ? "{\"jobs\":[" : "");
    for (int i = 0; st == MF_OK && i < r.n_jobs; i++) {
        mf_buf_str(&out, json ? i ? ",{" : "{" : i ? "\n" : "");
        st = cmd_job_hang_put_job(&r.jobs[i], events, json, &out);
        mf_buf_str(&out, json ? "}" : "");
    }
    if (st == MF_OK)
        mf_buf_str(&out, json            ? "]}\n"
                         : r.n_jobs == 0 ? "no job of this user trains on this host\n"
                                         : "");
    args->exit_code = st == MF_OK ? mf_cli_health(&r) : MF_EXIT_DONE;
    mf_job_view_deinit(&r);
    if (st == MF_OK)
        return mf_cli_print(&out);
    mf_buf_deinit(&out);
    return st;
}

static const mf_option options[] = {
    { .name = "events",
      .value = "N",
      .help = "number of last events of each task (default: 12; with --json: all)" },
    { .name = "json", .help = "print one JSON object on one line" },
    { 0 },
};

const mf_command mf_command_job_hang = {
    .name = "job hang",
    .arguments = "[JOB]",
    .summary = "explain why a job is stalled or dead",
    .about =
        "Shows which task blocks a job, and the last events of each task, of running and of "
        "killed jobs: every task records events in memory that outlives it. Times are seconds "
        "before now or, for a dead task, before its last event. Dead tasks stay until `meshflow "
        "job sweep` or until a job of the same name starts. See docs/guides/diagnosing-hangs.md.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow job hang", "meshflow job hang resnet --events 40", NULL },
    .min_args = 0,
    .max_args = 1,
    .exits = MF_EXITS_OF_HEALTH,
    .run = hang_run,
};
