/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_set.c - `meshflow set`: change tasks that run. */
#include "base/clock.h"
#include "cli/running.h"

#include <string.h>
#include <time.h>

typedef struct change {
    int64_t threads, priority; /* 0: left as it is */
    const char *task; /* NULL: all */
} change;

/* "worker:1" and "worker 1" are the same. */
static bool is_meant(const change *c, const char *task)
{
    const size_t role = c->task ? strcspn(c->task, ": ") : 0;

    if (!c->task)
        return true;
    return c->task[role] != '\0' && strncmp(task, c->task, role) == 0 && task[role] == ' ' &&
           strcmp(task + role + 1, c->task + role + 1) == 0;
}

/* It has been taken: the task looks between two steps. */
static bool took(mf_args *args, const mf_board_seen *t, int64_t threads)
{
    const int64_t until = mf_clock_ns() + 5000000000;
    bool done = false;

    while (!done && mf_clock_ns() < until) {
        mf_running r;

        (void)nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
        if (mf_running_read(args, t->page.job, &r) == MF_OK) {
            for (int i = 0; i < r.jobs[0].n; i++)
                done |= r.jobs[0].tasks[i].page.pid == t->page.pid &&
                        r.jobs[0].tasks[i].page.threads == threads;
        }
        mf_running_deinit(&r);
    }
    return done;
}

static mf_status change_task(mf_args *args, const change *c, const mf_board_seen *t, mf_buf *out)
{
    if (mf_running_is_kept(t)) {
        mf_buf_printf(out, "%s: it is on %s; say it there\n", t->page.task, t->page.host);
        return MF_OK;
    }
    if (c->priority > 0) {
        MF_TRY(mf_priority_set(t->page.pid, (int)c->priority));
        mf_buf_printf(out, "%s: priority %lld\n", t->page.task, (long long)c->priority);
    }
    if (c->threads > 0 && t->page.phase == MF_PHASE_SERVE)
        mf_buf_printf(out, "%s: its threads stay, for it serves\n", t->page.task);
    else if (c->threads > 0) {
        MF_TRY(mf_board_wish(t, (int)c->threads));
        mf_buf_printf(out, "%s: %lld threads%s\n", t->page.task, (long long)c->threads,
                      took(args, t, c->threads) ? "" : " as soon as it begins its next step");
    }
    return MF_OK;
}

static mf_status change_all(mf_args *args, const change *c, const mf_running_job *job, mf_buf *out)
{
    int n = 0;

    for (int i = 0; i < job->n; i++) {
        if (!job->tasks[i].alive || !is_meant(c, job->tasks[i].page.task))
            continue;
        MF_TRY(change_task(args, c, &job->tasks[i], out));
        n++;
    }
    if (n > 0)
        return MF_OK;
    mf_args_hint(args, "`meshflow status %s` lists them", job->tasks[0].page.job);
    return MF_FAIL(MF_NOT_FOUND, "job '%s' has no living task %s here", job->tasks[0].page.job,
                   c->task ? c->task : "");
}

static mf_status set_run(mf_args *args)
{
    change c = { .task = mf_args_value(args, "task") };
    mf_buf out = { 0 };
    mf_running r;
    mf_status st;

    MF_TRY(mf_args_int(args, "threads", 1, MF_BOARD_THREADS_MAX, &c.threads));
    MF_TRY(mf_args_int(args, "priority", 1, MF_PRIORITY_MAX, &c.priority));
    if (c.threads == 0 && c.priority == 0)
        return mf_args_wrong(args, "say what to change: --threads or --priority");
    st = mf_running_read(args, args->words[0], &r);
    if (st == MF_OK)
        st = change_all(args, &c, &r.jobs[0], &out);
    mf_running_deinit(&r);
    if (st == MF_OK)
        return mf_cli_print(&out);
    mf_buf_deinit(&out);
    return st;
}

static const mf_option options[] = {
    { "task", "TASK", "only this one, as worker:1; all unless told", 0, false },
    { "threads", "N", "compute with so many threads; results stay the same", 0, false },
    { "priority", "P", "1 to 10; ordinary users can lower it only", 0, false },
    { 0 },
};

const mf_command mf_command_set = {
    .name = "set",
    .arguments = "JOB",
    .summary = "change a running job",
    .about = "Threads change between two steps. Priorities change at once, as far as the kernel "
             "lets this user.",
    .options = options,
    .examples = (const char *const[]){ "meshflow set resnet --threads 4",
                                       "meshflow set resnet --task worker:1 --priority 5", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = set_run,
};
