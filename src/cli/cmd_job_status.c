/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_job_status.c - `meshflow job status`: the state of all tasks of jobs on this host. */
#include "base/clock.h"
#include "base/exit_code.h"
#include "cli/running.h"
#include "cli/shares.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- text output ---- */

static const char *word_for(const mf_status_page_seen *t)
{
    if (!t->alive)
        return "dead";
    if (mf_job_view_is_stopped(t))
        return "stopped";
    if (mf_job_view_is_master(t))
        return "watches";
    if (t->page.phase == MF_PHASE_IDLE)
        return "idle";
    return t->page.use == MF_USE_COMMUNICATION ? "waits"
           : t->page.use == MF_USE_COMPUTE     ? "computes"
           : t->page.use == MF_USE_INPUT       ? "reads"
           : t->page.phase == MF_PHASE_SAVE    ? "saves"
                                               : "idle";
}

static void cmd_job_status_put_task(const mf_status_page_seen *t, int64_t now, mf_buf *out)
{
    const mf_status_page *p = &t->page;
    char step[MF_TEXT], rate[MF_TEXT], threads[32], priority[16] = "-";
    int64_t ns[MF_USES];
    int tenths[MF_USES];

    mf_status_page_page_used(p, t->alive ? now : p->changed_ns, ns);
    mf_time_shares(ns, tenths);
    if (t->alive && !mf_job_view_is_kept(t))
        (void)snprintf(priority, sizeof priority, "%d", mf_priority_of(t->process.nice));
    (void)snprintf(threads, sizeof threads, "%d+%d", p->threads, p->input_threads);
    mf_buf_printf(out, "  %-12s %8lld  %-9s %9s %10s %8s %9s", p->task, (long long)p->pid,
                  word_for(t), mf_cli_count(p->step, step),
                  mf_cli_count((int64_t)(p->rate + 0.5), rate), threads, priority);
    for (int i = 0; i < MF_USES; i++)
        mf_buf_printf(out, " %*d.%d",
                      (int)strlen(mf_use_names[i]) - 2 > 5 ? (int)strlen(mf_use_names[i]) - 2 : 5,
                      tenths[i] / 10, tenths[i] % 10);
    mf_buf_str(out, "\n");
}

static void cmd_job_status_put_head(mf_buf *out)
{
    mf_buf_printf(out, "  %-12s %8s  %-9s %9s %10s %8s %9s", "task", "pid", "state", "step",
                  "samples/s", "threads", "priority");
    for (int i = 0; i < MF_USES; i++)
        mf_buf_printf(out, " %7s", mf_use_names[i]);
    mf_buf_str(out, "  (% of its time)\n");
}

/* A copy is behind while an update is on its way to it. */
static void put_slices(const mf_status_page *p, mf_buf *out)
{
    if (!p->slices[0].of[0])
        return;
    mf_buf_printf(out, "  %s holds", p->task);
    for (int i = 0; i < MF_STATUS_PAGE_COPIES && p->slices[i].of[0]; i++)
        mf_buf_printf(out, "%s %s%s version %lld",
                      i > 1 ? ","
                      : i   ? "; copies of"
                            : "",
                      p->slices[i].of, i ? "," : "'s slice,", (long long)p->slices[i].version);
    mf_buf_str(out, "\n");
}

static void cmd_job_status_put_job(const mf_job_view_job *job, int64_t now, mf_buf *out)
{
    const mf_job_view_sum s = mf_job_view_sum_up(job);

    mf_buf_printf(out, "%s: ", job->tasks[0].page.job);
    mf_cli_explain(job, now, out);
    mf_buf_str(out, ".\n");
    if (s.elsewhere > 0)
        mf_buf_printf(out, "%d of its %d tasks %s on another host, or ended.\n", s.elsewhere,
                      job->tasks[0].page.tasks, s.elsewhere == 1 ? "is" : "are");
    cmd_job_status_put_head(out);
    for (int i = 0; i < job->n; i++)
        cmd_job_status_put_task(&job->tasks[i], now, out);
    for (int i = 0; i < job->n; i++)
        put_slices(&job->tasks[i].page, out);
}

/* ---- JSON output ---- */

static void cmd_job_status_put_string(const char *name, const char *text, mf_buf *out)
{
    mf_buf_printf(out, "\"%s\":", name);
    mf_buf_json(out, text, strlen(text));
    mf_buf_str(out, ",");
}

/* "worker" of "worker 1". */
static void put_role(const char *task, mf_buf *out)
{
    mf_buf_str(out, "\"role\":");
    mf_buf_json(out, task, strcspn(task, " "));
    mf_buf_str(out, ",");
}

static void put_waits_json(const mf_status_page *p, int64_t now, mf_buf *out)
{
    int n = 0;

    mf_buf_str(out, "\"waits\":[");
    for (int i = 0; i < MF_STATUS_PAGE_WAITS; i++) {
        const mf_status_page_wait *w = &p->waits[i];

        if (w->since_ns == 0)
            continue;
        mf_buf_str(out, n++ ? ",{" : "{");
        cmd_job_status_put_string("for", w->whom, out);
        cmd_job_status_put_string("address", w->where, out);
        cmd_job_status_put_string("what", w->what, out);
        mf_buf_printf(out, "\"step\":%lld,\"seconds\":%.3f}", (long long)w->step,
                      (double)(now - w->since_ns) * 1e-9);
    }
    mf_buf_str(out, "],\"sent_messages\":[");
    for (int i = n = 0; i < MF_STATUS_PAGE_LINKS && p->links[i].to[0]; i++) {
        mf_buf_str(out, n++ ? ",{" : "{");
        cmd_job_status_put_string("to", p->links[i].to, out);
        mf_buf_printf(out, "\"bytes\":%lld}", (long long)p->links[i].bytes);
    }
    mf_buf_str(out, "],");
}

/* The versions of the slices that a parameter server holds. */
static void put_slices_json(const mf_status_page *p, mf_buf *out)
{
    if (!p->slices[0].of[0])
        return;
    mf_buf_str(out, "\"holds\":[");
    for (int i = 0; i < MF_STATUS_PAGE_COPIES && p->slices[i].of[0]; i++) {
        mf_buf_str(out, i ? ",{" : "{");
        cmd_job_status_put_string("of", p->slices[i].of, out);
        mf_buf_printf(out, "\"version\":%lld}", (long long)p->slices[i].version);
    }
    mf_buf_str(out, "],");
}

/* 0: unknown. */
static int priority_of(const mf_status_page_seen *t)
{
    return t->alive && !mf_job_view_is_kept(t) ? mf_priority_of(t->process.nice) : 0;
}

static void cmd_job_status_put_task_json(const mf_status_page_seen *t, int64_t now, mf_buf *out)
{
    const mf_status_page *p = &t->page;
    int64_t ns[MF_USES];
    mf_buf does = { 0 };

    mf_job_view_task_text(t, now, &does);
    mf_buf_str(out, "{");
    cmd_job_status_put_string("task", p->task, out);
    put_role(p->task, out);
    cmd_job_status_put_string("host", p->host, out);
    cmd_job_status_put_string("state", word_for(t), out);
    cmd_job_status_put_string("does", does.data ? does.data : "", out);
    mf_buf_deinit(&does);
    mf_buf_str(out, "\"loss\":");
    mf_buf_json_number(out, p->loss);
    mf_buf_printf(out,
                  ",\"pid\":%lld,\"alive\":%s,\"step\":%lld,\"steps\":%lld,\"epoch\":%lld,"
                  "\"samples_per_second\":%.6g,\"threads\":%d,\"input_threads\":%d,"
                  "\"priority\":%d,"
                  "\"sent_bytes\":%lld,\"changed_seconds_ago\":%.3f,\"cpu_seconds\":%.2f,",
                  (long long)p->pid, t->alive ? "true" : "false", (long long)p->step,
                  (long long)p->steps, (long long)p->epoch, p->rate, p->threads, p->input_threads,
                  priority_of(t), (long long)p->sent, (double)(now - p->changed_ns) * 1e-9,
                  mf_job_view_is_kept(t) ? 0.0 : (double)t->process.cpu_ns * 1e-9);
    put_waits_json(p, now, out);
    mf_buf_printf(out, "\"shards\":%lld,", (long long)p->n_shards);
    put_slices_json(p, out);
    mf_status_page_page_used(p, t->alive ? now : p->changed_ns, ns);
    mf_buf_str(out, "\"utilisation\":");
    mf_time_shares_json(ns, out);
    mf_buf_str(out, "}");
}

static void cmd_job_status_put_json(const mf_job_view *r, mf_buf *out)
{
    mf_buf_str(out, "{\"jobs\":[");
    for (int i = 0; i < r->n_jobs; i++) {
        const mf_job_view_job *job = &r->jobs[i];
        mf_buf why = { 0 };

        mf_cli_explain(job, r->now, &why);
        mf_buf_str(out, i ? ",{" : "{");
        cmd_job_status_put_string("job", job->tasks[0].page.job, out);
        cmd_job_status_put_string("explanation", why.data ? why.data : "", out);
        mf_buf_deinit(&why);
        mf_buf_printf(out, "\"tasks_in_all\":%d,\"tasks\":[", job->tasks[0].page.tasks);
        for (int k = 0; k < job->n; k++) {
            mf_buf_str(out, k ? "," : "");
            cmd_job_status_put_task_json(&job->tasks[k], r->now, out);
        }
        mf_buf_str(out, "]}");
    }
    mf_buf_str(out, "]}\n");
}

/* ---- the command ---- */

/* Subtracts the time that was used before `since`. */
static void cmd_job_status_subtract(mf_job_view *r, const mf_job_view *since)
{
    for (int i = 0; i < r->n_pages; i++) {
        mf_status_page *p = &r->pages[i].page;

        for (int k = 0; k < since->n_pages; k++) {
            const mf_status_page *q = &since->pages[k].page;
            int64_t ns[MF_USES];

            if (q->pid != p->pid || q->start != p->start || strcmp(q->host, p->host) != 0 ||
                q->began_ns != p->began_ns)
                continue;
            mf_status_page_page_used(q, since->pages[k].alive ? since->now : q->changed_ns, ns);
            for (int u = 0; u < MF_USES; u++)
                p->used_ns[u] -= ns[u];
        }
    }
}

/* lately: seconds to observe and show shares of; 0: since the first step. */
static mf_status cmd_job_status_read(mf_args *args, int64_t lately, mf_job_view *out)
{
    const char *job = args->n_words > 0 ? args->words[0] : NULL;
    mf_job_view before = { 0 };
    mf_status st = MF_OK;

    if (lately > 0)
        st = mf_cli_running(args, job, &before);
    if (lately > 0 && st == MF_OK)
        (void)nanosleep(&(struct timespec){ lately, 0 }, NULL);
    *out = (mf_job_view){ 0 };
    if (st == MF_OK)
        st = mf_cli_running(args, job, out);
    if (st == MF_OK)
        cmd_job_status_subtract(out, &before);
    mf_job_view_deinit(&before);
    return st;
}

static mf_status show_once(mf_args *args, const char *before)
{
    int64_t lately = 0;
    mf_job_view r = { 0 };
    mf_buf out = { 0 };
    mf_status st = mf_args_int(args, "lately", 1, 3600, &lately);

    if (st == MF_OK)
        st = cmd_job_status_read(args, lately, &r);

    mf_buf_str(&out, before);
    if (st == MF_OK && mf_args_has(args, "json"))
        cmd_job_status_put_json(&r, &out);
    else if (st == MF_OK && r.n_jobs == 0)
        mf_buf_str(&out, "no job of this user trains on this host\n");
    for (int i = 0; st == MF_OK && !mf_args_has(args, "json") && i < r.n_jobs; i++) {
        mf_buf_str(&out, i ? "\n" : "");
        cmd_job_status_put_job(&r.jobs[i], r.now, &out);
    }
    args->exit_code = st == MF_OK ? mf_cli_health(&r) : MF_EXIT_DONE;
    mf_job_view_deinit(&r);
    if (st == MF_OK)
        return mf_cli_print(&out);
    mf_buf_deinit(&out);
    return st;
}

static mf_status status_run(mf_args *args)
{
    const bool terminal = isatty(STDOUT_FILENO) != 0;

    MF_TRY(show_once(args, ""));
    while (mf_args_has(args, "watch")) {
        mf_status st;

        (void)nanosleep(&(struct timespec){ 1, 0 }, NULL);
        st = show_once(args, terminal ? "\033[H\033[2J" : "\n");
        if (st == MF_NOT_FOUND) { /* the job has ended */
            args->exit_code = MF_EXIT_DONE;
            return MF_OK;
        }
        MF_TRY(st);
    }
    return MF_OK;
}

static const mf_option options[] = {
    { .name = "json", .help = "print one JSON object on one line" },
    { .name = "lately",
      .value = "SECONDS",
      .help = "observe for SECONDS and show how that time was used" },
    { .name = "watch",
      .help = "repeat every second until interrupted or until JOB has ended",
      .letter = 'w' },
    { 0 },
};

const mf_command mf_command_job_status = {
    .name = "job status",
    .arguments = "[JOB]",
    .summary = "show the state of running jobs",
    .about = "Shows the trainings of this user on this host: what each task does and what it "
             "waits for. The command reads status pages in shared memory and does not contact "
             "the tasks, so it also works for tasks that are stopped or stuck. "
             "docs/guides/status.md explains the columns.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow job status", "meshflow job status --watch resnet", NULL },
    .min_args = 0,
    .max_args = 1,
    .exits = MF_EXITS_OF_HEALTH,
    .run = status_run,
};
