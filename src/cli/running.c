/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/running.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>

static const int64_t LONG_NS = 1000000000; /* shorter waits belong to every step */
static const int64_t SILENT_NS = 15000000000; /* whoever waits tells it every 10 s or oftener */

/* ---- reading ---- */

static mf_status group(mf_running *r, const char *job)
{
    r->jobs = mf_calloc(r->n_boards + 1, sizeof *r->jobs);
    if (!r->jobs)
        return MF_NOMEM("jobs");
    for (int i = 0; i < r->n_boards; i++) {
        const mf_board_page *p = &r->boards[i].page;
        mf_running_job *last = r->n_jobs > 0 ? &r->jobs[r->n_jobs - 1] : NULL;

        if (job && strcmp(p->job, job) != 0)
            continue;
        if (!last || strcmp(last->tasks[0].page.job, p->job) != 0)
            r->jobs[r->n_jobs++] = (mf_running_job){ .tasks = &r->boards[i], .n = 1 };
        else
            last->n++;
    }
    return MF_OK;
}

mf_status mf_running_read(mf_args *args, const char *job, mf_running *out)
{
    *out = (mf_running){ 0 };
    MF_TRY(mf_boards_read(&out->boards, &out->n_boards));
    out->now = mf_clock_ns();
    MF_TRY(group(out, job));
    if (!job || out->n_jobs > 0)
        return MF_OK;
    mf_args_hint(args, "`meshflow jobs` lists those of this user on this host");
    return MF_FAIL(MF_NOT_FOUND, "there is no job '%s' here", job);
}

void mf_running_deinit(mf_running *r)
{
    mf_boards_free(r->boards, r->n_boards);
    mf_free(r->jobs);
}

mf_running_sum mf_running_sum_up(const mf_running_job *job)
{
    mf_running_sum s = { 0 };

    for (int i = 0; i < job->n; i++) {
        const mf_board_page *p = &job->tasks[i].page;

        s.step = p->step > s.step ? p->step : s.step;
        s.steps = p->steps > s.steps ? p->steps : s.steps;
        s.rate = p->rate > s.rate ? p->rate : s.rate;
        s.alive += job->tasks[i].alive;
        s.dead += !job->tasks[i].alive;
        s.stopped += mf_running_is_stopped(&job->tasks[i]);
    }
    s.elsewhere = job->tasks[0].page.tasks - job->n;
    s.elsewhere = s.elsewhere > 0 ? s.elsewhere : 0;
    return s;
}

/* ---- one task ---- */

static double seconds(int64_t since, int64_t now)
{
    return now > since ? (double)(now - since) * 1e-9 : 0.0;
}

/* It is on another host, and has told nothing of itself for long: it is stopped, or it computes,
 * saves or evaluates for long, which is no fault unless others wait. What it waited for then, it
 * has. */
static bool is_silent(const mf_board_seen *t, int64_t now)
{
    return t->alive && mf_running_is_kept(t) && now - t->page.told_ns > SILENT_NS;
}

/* The wait that keeps it from going on, the longest of them; NULL: it goes on. */
static const mf_board_wait *blocked_by(const mf_board_seen *t)
{
    const mf_board_wait *found = NULL;

    for (int i = 0; i < MF_BOARD_WAITS && t->page.computing == 0; i++) {
        const mf_board_wait *w = &t->page.waits[i];

        if (w->since_ns != 0 && (!found || w->since_ns < found->since_ns))
            found = w;
    }
    return found;
}

static void put_wait(const mf_board_wait *w, int64_t now, mf_buf *out)
{
    mf_buf_printf(out, "waits for %s", w->whom);
    if (w->where[0])
        mf_buf_printf(out, " (%s)", w->where);
    mf_buf_printf(out, ": %s", w->what);
    if (w->step >= 0)
        mf_buf_printf(out, " of step %lld", (long long)w->step);
    mf_buf_printf(out, ", since %.1f s", seconds(w->since_ns, now));
}

static void put_phase(const mf_board_page *p, int64_t now, mf_buf *out)
{
    mf_buf_str(out, mf_phase_text((mf_phase)p->phase));
    if (p->phase == MF_PHASE_STEP && p->n_shards > 1)
        mf_buf_printf(out, " shards %lld..%lld of", (long long)p->first_shard,
                      (long long)(p->first_shard + p->n_shards - 1));
    if (p->phase == MF_PHASE_STEP)
        mf_buf_printf(out, " step %lld", (long long)p->step);
    mf_buf_printf(out, " since %.1f s", seconds(p->phase_since_ns, now));
}

void mf_running_task_text(const mf_board_seen *t, int64_t now, mf_buf *out)
{
    const mf_board_wait *w = blocked_by(t);

    if (!t->alive)
        mf_buf_printf(out, "is dead: it was killed, or has crashed, %.1f s ago or later",
                      seconds(t->page.changed_ns, now));
    else if (mf_running_is_stopped(t))
        mf_buf_printf(out, "is stopped by a %s since %.1f s or less",
                      t->process.state == 'T' ? "signal" : "debugger",
                      seconds(t->page.changed_ns, now));
    else if (is_silent(t, now))
        mf_buf_printf(out, "is on %s and was last heard of %.1f s ago", t->page.host,
                      seconds(t->page.told_ns, now));
    else if (w)
        put_wait(w, now, out);
    else
        put_phase(&t->page, now, out);
}

/* ---- who is the reason ---- */

static int find_task(const mf_running_job *job, const char *name)
{
    for (int i = 0; i < job->n; i++) {
        if (strcmp(job->tasks[i].page.task, name) == 0)
            return i;
    }
    return -1;
}

/* The wait of a task that is able to go on if only it got what it waits for. One of another host
 * had waited for so long when it said so; it may have gone on since. */
static const mf_board_wait *waits(const mf_board_seen *t, int64_t now)
{
    const int64_t known = mf_running_is_kept(t) ? t->page.told_ns : now;
    const bool able = t->alive && !mf_running_is_stopped(t) && !is_silent(t, now);
    const mf_board_wait *w = able ? blocked_by(t) : NULL;

    return w && known - w->since_ns >= LONG_NS ? w : NULL;
}

/* From one to the next, until one that waits for nobody; *name: of that one. -1: it is not here, or
 * they go round in a ring. */
static int root_of(const mf_running_job *job, int i, int64_t now, const char **name)
{
    *name = job->tasks[i].page.task;
    for (int hops = 0; hops <= job->n; hops++) {
        const mf_board_wait *w = waits(&job->tasks[i], now);

        if (!w)
            return i;
        *name = w->whom;
        i = find_task(job, w->whom);
        if (i < 0)
            return -1;
    }
    *name = NULL;
    return -1;
}

/* "; worker 0 and worker 2 wait for it, the longest since 3.2 s: the gradients, bucket 0 of step
 * 812". */
static void put_waiting(const mf_running_job *job, const char *name, int64_t now, mf_buf *out)
{
    const mf_board_wait *longest = NULL;
    int n = 0;

    for (int i = 0; i < job->n; i++) {
        const mf_board_wait *w = waits(&job->tasks[i], now);
        const char *root;

        if (!w || (root_of(job, i, now, &root), !root || strcmp(root, name) != 0))
            continue;
        mf_buf_printf(out, "%s%s", n == 0 ? "; " : ", ", job->tasks[i].page.task);
        longest = !longest || w->since_ns < longest->since_ns ? w : longest;
        n++;
    }
    if (!longest)
        return;
    mf_buf_printf(out, " %s for it since %.1f s: %s", n == 1 ? "waits" : "wait",
                  seconds(longest->since_ns, now), longest->what);
    if (longest->step >= 0)
        mf_buf_printf(out, " of step %lld", (long long)longest->step);
}

static void put_well(const mf_running_job *job, mf_buf *out)
{
    const mf_running_sum s = mf_running_sum_up(job);
    char step[MF_TEXT], steps[MF_TEXT], rate[MF_TEXT];

    if (s.steps == 0) {
        mf_buf_printf(out, "it %s", mf_phase_text((mf_phase)job->tasks[0].page.phase));
        return;
    }
    mf_buf_printf(out, "it goes on: step %s of %s, %s samples/s, and nobody waits for long",
                  mf_cli_count(s.step, step), mf_cli_count(s.steps, steps),
                  mf_cli_count((int64_t)(s.rate + 0.5), rate));
}

/* The one that most wait for; else one that is known not to go on. NULL: all is well. */
static const char *reason(const mf_running_job *job, int64_t now)
{
    const char *best = NULL;
    int most = 0;

    for (int i = 0; i < job->n; i++) {
        const mf_board_seen *t = &job->tasks[i];
        const bool stuck = !t->alive || mf_running_is_stopped(t);
        const char *name;
        int n = 0;

        if (!waits(&job->tasks[i], now) && !stuck)
            continue;
        root_of(job, i, now, &name);
        for (int k = 0; name && k < job->n; k++) {
            const char *other;

            root_of(job, k, now, &other);
            n += other && strcmp(other, name) == 0;
        }
        if (n > most) {
            most = n;
            best = name;
        }
    }
    return best;
}

void mf_running_explain(const mf_running_job *job, int64_t now, mf_buf *out)
{
    const char *name = reason(job, now);
    const int i = name ? find_task(job, name) : -1;

    if (!name) {
        put_well(job, out);
        return;
    }
    if (i >= 0) {
        mf_buf_printf(out, "%s (pid %lld) ", name, (long long)job->tasks[i].page.pid);
        mf_running_task_text(&job->tasks[i], now, out);
    } else {
        mf_buf_printf(out, "%s is not on this host, or has not come", name);
    }
    put_waiting(job, name, now, out);
}

bool mf_running_is_meant(const char *wanted, const char *task)
{
    const size_t role = wanted ? strcspn(wanted, ": ") : 0;

    if (!wanted)
        return true;
    return wanted[role] != '\0' && strncmp(task, wanted, role) == 0 && task[role] == ' ' &&
           strcmp(task + role + 1, wanted + role + 1) == 0;
}
