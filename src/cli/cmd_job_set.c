/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_job_set.c - `meshflow job set`: changes settings of running tasks. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/running.h"
#include "spmd/layout/mesh_layout.h"

#include <string.h>
#include <time.h>

static const int64_t WAIT_NS = 5000000000; /* for all tasks together */

typedef struct cmd_job_set_change {
    int64_t threads, priority; /* 0: unchanged */
    mf_status_page_layout layout; /* mesh "": unchanged */
    const char *task; /* NULL: all */
} cmd_job_set_change;

/* The task has this number of threads now. */
static bool has_threads(const mf_status_page_seen *t, int64_t threads)
{
    mf_status_page_seen *all;
    bool found = false;
    int n;

    if (mf_status_pages_read(&all, &n) != MF_OK)
        return false;
    for (int i = 0; i < n; i++)
        found |= all[i].page.pid == t->page.pid && all[i].page.start == t->page.start &&
                 all[i].page.threads == threads;
    mf_status_pages_free(all, n);
    return found;
}

/* The task reads requests between two steps. */
static void wait_for_threads(const mf_status_page_seen *t, int64_t threads, int64_t until,
                             mf_buf *out)
{
    bool took;

    while (!(took = has_threads(t, threads)) && mf_status_page_is_alive(t) && mf_clock_ns() < until)
        (void)nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    if (took || mf_status_page_is_alive(t))
        mf_buf_printf(out, "%s: %lld threads%s\n", t->page.task, (long long)threads,
                      took ? "" : " at its next step");
    else
        mf_buf_printf(out, "%s: it has ended\n", t->page.task);
}

/* One task is notified, and notifies the others. */
static mf_status change_layout(const cmd_job_set_change *c, const mf_status_page_seen *t,
                               const mf_status_page_seen **told)
{
    if (*told || !c->layout.mesh[0] || t->page.phase == MF_PHASE_SERVE ||
        mf_job_view_is_master(t) || !mf_status_page_is_alive(t))
        return MF_OK;
    MF_TRY(mf_status_page_request_layout(t, &c->layout));
    *told = t;
    return MF_OK;
}

/* The job changes its layout between two steps, or reports why it cannot. */
static mf_status wait_for_layout(const mf_status_page_seen *t, int64_t until, mf_buf *out)
{
    char words[MF_VARIABLE_REQUEST_TEXT] = "";
    mf_variable_request state;
    mf_status st;

    while ((st = mf_status_page_layout_answer(t, &state, words)) == MF_OK &&
           (state == MF_VARIABLE_REQUEST_MADE || state == MF_VARIABLE_REQUEST_TAKEN) &&
           mf_status_page_is_alive(t) && mf_clock_ns() < until)
        (void)nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    if (st == MF_OK && state == MF_VARIABLE_REQUEST_DONE)
        mf_buf_printf(out, "%s\n", words);
    else if (st == MF_OK && state == MF_VARIABLE_REQUEST_REFUSED)
        return MF_FAIL(MF_FAILED_PRECONDITION, "job '%s' cannot take --mesh: %s", t->page.job,
                       words);
    else if (!mf_status_page_is_alive(t))
        return MF_FAIL(MF_UNAVAILABLE, "%s ended before it changed its layout", t->page.task);
    else if (st == MF_OK)
        mf_buf_printf(out,
                      "%s: at its next step, if it trains on a mesh; its log reports the result\n",
                      t->page.task);
    return st;
}

/* *requested: the task was asked to change its threads. */
static mf_status change_task(const cmd_job_set_change *c, const mf_status_page_seen *t,
                             bool *requested, mf_buf *out)
{
    mf_status st = MF_OK;

    if (mf_job_view_is_kept(t)) {
        mf_buf_printf(out, "%s: it is on %s; run the command there\n", t->page.task, t->page.host);
        return MF_OK;
    }
    if (mf_status_page_is_alive(t) && c->priority > 0) { /* its pid may belong to another process by
                                                         now */
        st = mf_priority_set(t->page.pid, (int)c->priority);
        if (st == MF_OK)
            mf_buf_printf(out, "%s: priority %lld\n", t->page.task, (long long)c->priority);
    }
    if (c->threads > 0 && t->page.phase == MF_PHASE_SERVE)
        mf_buf_printf(out, "%s: its threads cannot change: it is a server\n", t->page.task);
    else if (st == MF_OK && c->threads > 0 && !mf_job_view_is_master(t) &&
             mf_status_page_is_alive(t)) {
        st = mf_status_page_request_threads(t, (int)c->threads);
        *requested = st == MF_OK;
    }
    if (mf_status_page_is_alive(t))
        return st;
    *requested = false;
    mf_buf_printf(out, "%s: it has ended\n", t->page.task);
    return MF_OK;
}

/* All tasks are notified before the first is waited for. */
static mf_status change_all(mf_args *args, const cmd_job_set_change *c, const mf_job_view_job *job,
                            mf_buf *out)
{
    bool *requested = mf_calloc(job->n, sizeof *requested);
    mf_status st = requested ? MF_OK : MF_NOMEM("tasks");
    const mf_status_page_seen *told = NULL;
    int64_t until;
    int n = 0;

    for (int i = 0; st == MF_OK && i < job->n; i++) {
        if (!job->tasks[i].alive || !mf_cli_is_meant(c->task, job->tasks[i].page.task))
            continue;
        st = change_task(c, &job->tasks[i], &requested[i], out);
        if (st == MF_OK && !mf_job_view_is_kept(&job->tasks[i]))
            st = change_layout(c, &job->tasks[i], &told);
        n++;
    }
    until = mf_clock_ns() + WAIT_NS;
    for (int i = 0; requested && i < job->n; i++) {
        if (requested[i])
            wait_for_threads(&job->tasks[i], c->threads, until, out);
    }
    mf_free(requested);
    if (st == MF_OK && told)
        st = wait_for_layout(told, until, out);
    else if (st == MF_OK && n > 0 && c->layout.mesh[0])
        st = MF_FAIL(MF_NOT_FOUND, "job '%s' has no living worker on this host",
                     job->tasks[0].page.job);
    if (n > 0 || st != MF_OK)
        return st;
    mf_args_hint(args, "`meshflow job status %s` lists them", job->tasks[0].page.job);
    return MF_FAIL(MF_NOT_FOUND, "job '%s' has no living task %s here", job->tasks[0].page.job,
                   c->task ? c->task : "");
}

static mf_status read_layout(mf_args *args, mf_status_page_layout *out)
{
    const char *mesh = mf_args_value(args, "mesh"), *layout = mf_args_value(args, "layout");
    mf_layout_rules rules;
    mf_meshes meshes;

    if (!mesh)
        return layout ? mf_args_wrong(args, "--layout needs --mesh: \"rows:2;cols:2\"") : MF_OK;
    layout = layout ? layout : "";
    MF_TRY(mf_meshes_parse(mesh, layout, &meshes, &rules));
    if (strlen(mesh) >= sizeof out->mesh || strlen(layout) >= sizeof out->layout)
        return mf_args_wrong(args, "this mesh or layout is too long");
    memcpy(out->mesh, mesh, strlen(mesh) + 1);
    memcpy(out->layout, layout, strlen(layout) + 1);
    return MF_OK;
}

static mf_status cmd_job_set_run(mf_args *args)
{
    cmd_job_set_change c = { .task = mf_args_value(args, "task") };
    mf_buf out = { 0 };
    mf_job_view r;
    mf_status st;

    MF_TRY(mf_args_int(args, "threads", 1, MF_STATUS_PAGE_THREADS_MAX, &c.threads));
    MF_TRY(mf_args_int(args, "priority", 1, MF_PRIORITY_MAX, &c.priority));
    MF_TRY(read_layout(args, &c.layout));
    if (c.threads == 0 && c.priority == 0 && !c.layout.mesh[0])
        return mf_args_wrong(args, "name a setting to change: --threads, --priority or --mesh");
    st = mf_cli_running(args, args->words[0], &r);
    if (st == MF_OK)
        st = change_all(args, &c, &r.jobs[0], &out);
    mf_job_view_deinit(&r);
    return mf_cli_print_done(st, &out);
}

static const mf_option options[] = {
    { .name = "task",
      .value = "TASK",
      .help = "change only this task, e.g. worker:1 (default: "
              "all)" },
    { .name = "threads",
      .value = "N",
      .help = "number of threads that compute; results do not change" },
    { .name = "mesh",
      .value = "AXES",
      .help = "new mesh of a training on a mesh, with the same number of devices" },
    { .name = "layout", .value = "RULES", .help = "new layout; see docs/guides/mesh.md" },
    { .name = "priority", .value = "P", .help = "1 to 10; ordinary users can only lower it" },
    { 0 },
};

const mf_command mf_command_job_set = {
    .name = "job set",
    .arguments = "JOB",
    .summary = "change a running job",
    .about = "Threads, meshes and layouts change between two steps. Priorities change at once, "
             "as far as the kernel permits.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow job set resnet --threads 4",
                               "meshflow job set resnet --task worker:1 --priority 5",
                               "meshflow job set bert --mesh 'rows:4' --layout batch:rows", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = cmd_job_set_run,
};
