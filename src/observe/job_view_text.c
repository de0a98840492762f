/* SPDX-License-Identifier: Apache-2.0 */
/* job_view_text.c - the chain of waits of a job, and what the task at its end does, in sentences.
 */
#include "observe/job_view.h"

#include <stdio.h>
#include <string.h>

static const int64_t LONG_NS = 1000000000; /* shorter waits are normal in every step */
static const int64_t SILENT_NS = 15000000000; /* a remote task that waits reports at least every 10
                                                 s */

/* ---- one task ---- */

static double job_view_text_seconds(int64_t since, int64_t now)
{
    return now > since ? (double)(now - since) * 1e-9 : 0.0;
}

/* A task of another host that has not reported for long: it is stopped, or computes, saves or
 * evaluates for long, which is normal unless others wait. Whatever it last waited for has arrived.
 */
static bool is_silent(const mf_status_page_seen *t, int64_t now)
{
    return t->alive && mf_job_view_is_kept(t) && now - t->page.reported_ns > SILENT_NS;
}

/* The longest wait that blocks the task; NULL: it is not blocked. */
static const mf_status_page_wait *blocked_by(const mf_status_page_seen *t)
{
    const mf_status_page_wait *found = NULL;

    for (int i = 0; i < MF_STATUS_PAGE_WAITS && t->page.computing == 0; i++) {
        const mf_status_page_wait *w = &t->page.waits[i];

        if (w->since_ns != 0 && (!found || w->since_ns < found->since_ns))
            found = w;
    }
    return found;
}

static void put_wait(const mf_status_page_wait *w, int64_t now, mf_buf *out)
{
    mf_buf_printf(out, "has been waiting for %s", w->whom);
    if (w->where[0])
        mf_buf_printf(out, " (%s)", w->where);
    mf_buf_printf(out, " for %.1f s: %s", job_view_text_seconds(w->since_ns, now), w->what);
    if (w->step >= 0)
        mf_buf_printf(out, " of step %lld", (long long)w->step);
}

/* The longest activity of this kind; NULL: none. */
static const mf_status_page_act *longest_act(const mf_status_page *p, mf_act kind)
{
    const mf_status_page_act *found = NULL;

    for (int i = 0; i < MF_STATUS_PAGE_ACTS; i++) {
        const mf_status_page_act *a = &p->acts[i];

        if (a->kind == (int32_t)kind && a->what[0] && (!found || a->since_ns < found->since_ns))
            found = a;
    }
    return found;
}

static void put_act(const mf_status_page *p, mf_act kind, int64_t now, mf_buf *out)
{
    static const char *const words[MF_ACTS] = { "", ", op", ": reading", ": writing" };
    const mf_status_page_act *a = longest_act(p, kind);

    if (a)
        mf_buf_printf(out, "%s %s for %.1f s", words[kind], a->what,
                      job_view_text_seconds(a->since_ns, now));
}

/* Which shards of the batch the task computes, if tasks share batches. */
static void put_shards(const mf_status_page *p, mf_buf *out)
{
    const long long first = p->first_shard, last = first + p->n_shards - 1;

    if (p->n_shards > 1)
        mf_buf_printf(out, " shards %lld..%lld of", first, last);
    else if (p->n_shards == 1 && p->tasks > 1)
        mf_buf_printf(out, " shard %lld of", first);
}

static void put_phase(const mf_status_page *p, int64_t now, mf_buf *out)
{
    static const char *const texts[MF_PHASES] = {
        [MF_PHASE_START] = "starting",
        [MF_PHASE_LOAD] = "loading data",
        [MF_PHASE_INPUT] = "waiting for input",
        [MF_PHASE_STEP] = "computing",
        [MF_PHASE_BETWEEN] = "between steps",
        [MF_PHASE_EVALUATE] = "evaluating",
        [MF_PHASE_SAVE] = "saving",
        [MF_PHASE_SERVE] = "serving",
        [MF_PHASE_END] = "ending",
        [MF_PHASE_WATCH] = "supervising tasks",
        [MF_PHASE_IDLE] = "idle (no data for this task)",
    };

    mf_buf_printf(out, "has been %s", texts[p->phase]);
    if (p->phase == MF_PHASE_STEP) {
        put_shards(p, out);
        mf_buf_printf(out, " step %lld", (long long)p->step);
    }
    mf_buf_printf(out, " for %.1f s", job_view_text_seconds(p->phase_since_ns, now));
    if (p->computing > 0)
        put_act(p, MF_ACT_RUN, now, out);
    else if (p->phase == MF_PHASE_SAVE || p->phase == MF_PHASE_END)
        put_act(p, MF_ACT_WRITE, now, out);
    else if (p->phase != MF_PHASE_STEP)
        put_act(p, MF_ACT_READ, now, out);
}

void mf_job_view_doing_text(const mf_status_page_seen *t, int64_t now, mf_buf *out)
{
    const mf_status_page_wait *w = blocked_by(t);

    if (w)
        put_wait(w, now, out);
    else
        put_phase(&t->page, now, out);
}

/* A task of another host: what it does is as old as its last report. */
static void put_kept(const mf_status_page_seen *t, int64_t now, mf_buf *out)
{
    const double ago = job_view_text_seconds(t->page.reported_ns, now);

    if (is_silent(t, now)) {
        mf_buf_printf(out, "is on %s and last reported %.1f s ago", t->page.host, ago);
        return;
    }
    mf_buf_printf(out, "is on %s and reported %.1f s ago that it ", t->page.host, ago);
    mf_job_view_doing_text(t, t->page.reported_ns, out);
}

static void put_alive(const mf_status_page_seen *t, int64_t now, mf_buf *out)
{
    char where[64];

    mf_job_view_doing_text(t, now, out);
    if (mf_process_is_blocked(t->page.pid, where, sizeof where))
        mf_buf_printf(out, ", blocked in the kernel%s%s", where[0] ? " in " : "", where);
}

void mf_job_view_task_text(const mf_status_page_seen *t, int64_t now, mf_buf *out)
{
    if (!t->alive)
        mf_buf_printf(out, "is dead: killed or crashed within the last %.1f s",
                      job_view_text_seconds(t->page.changed_ns, now));
    else if (mf_job_view_is_stopped(t))
        mf_buf_printf(out, "has been stopped by a %s for up to %.1f s",
                      t->process.state == 'T' ? "signal" : "debugger",
                      job_view_text_seconds(t->page.changed_ns, now));
    else if (mf_job_view_is_kept(t))
        put_kept(t, now, out);
    else
        put_alive(t, now, out);
}

/* In other phases the task waits and needs no processor. */
static bool wants_to_run(const mf_status_page *p)
{
    return p->computing > 0 || p->phase == MF_PHASE_START || p->phase == MF_PHASE_LOAD ||
           p->phase == MF_PHASE_STEP || p->phase == MF_PHASE_EVALUATE;
}

void mf_job_view_starved(const mf_status_page_seen *t, const mf_process_times *lately,
                         char note[MF_JOB_VIEW_NOTE])
{
    const int64_t counted = lately->ran_ns + lately->ready_ns;
    const int64_t wanted = lately->ready > 0 && counted < lately->at_ns ? lately->at_ns : counted;

    note[0] = '\0';
    if (!wants_to_run(&t->page) || mf_job_view_is_stopped(t) || wanted < lately->at_ns / 5 ||
        lately->ran_ns > wanted / 2)
        return;
    (void)snprintf(
        note, MF_JOB_VIEW_NOTE,
        ", and gets %.0f %% of the processor time it needs: other processes run on its cores",
        100.0 * (double)lately->ran_ns / (double)wanted);
}

/* ---- the cause ---- */

/* The wait of a task that could continue as soon as the wait ends. For a task of another host, the
 * wait as of its last report; it may have ended since. */
static const mf_status_page_wait *job_view_text_waits(const mf_status_page_seen *t, int64_t now)
{
    const int64_t known = mf_job_view_is_kept(t) ? t->page.reported_ns : now;
    const bool able = t->alive && !mf_job_view_is_stopped(t) && !is_silent(t, now);
    const mf_status_page_wait *w = able ? blocked_by(t) : NULL;

    return w && known - w->since_ns >= LONG_NS ? w : NULL;
}

/* Follows the waits from task i to a task that does not wait; *name: its name. -1: it is not on
 * this host, or the waits form a cycle. */
static int job_view_text_root_of(const mf_job_view_job *job, int i, int64_t now, const char **name)
{
    *name = job->tasks[i].page.task;
    for (int hops = 0; hops <= job->n; hops++) {
        const mf_status_page_wait *w = job_view_text_waits(&job->tasks[i], now);

        if (!w)
            return i;
        *name = w->whom;
        i = mf_job_view_find(job, w->whom);
        if (i < 0)
            return -1;
    }
    *name = NULL;
    return -1;
}

/* Appends "; worker 0, worker 2 have been waiting for it for 3.2 s: the gradients, bucket 0 of step
 * 812", with the longest wait. */
static void put_waiting(const mf_job_view_job *job, const char *name, int64_t now, mf_buf *out)
{
    const mf_status_page_wait *longest = NULL;
    int n = 0;

    for (int i = 0; i < job->n; i++) {
        const mf_status_page_wait *w = job_view_text_waits(&job->tasks[i], now);
        const char *root;

        if (!w || (job_view_text_root_of(job, i, now, &root), !root || strcmp(root, name) != 0))
            continue;
        mf_buf_printf(out, "%s%s", n == 0 ? "; " : ", ", job->tasks[i].page.task);
        longest = !longest || w->since_ns < longest->since_ns ? w : longest;
        n++;
    }
    if (!longest)
        return;
    mf_buf_printf(out, " %s been waiting for it for %.1f s: %s", n == 1 ? "has" : "have",
                  job_view_text_seconds(longest->since_ns, now), longest->what);
    if (longest->step >= 0)
        mf_buf_printf(out, " of step %lld", (long long)longest->step);
}

/* The task that most tasks wait for; else a task that is known to be stopped or dead (supervisors
 * are ignored). NULL: no stall. */
static const char *reason(const mf_job_view_job *job, int64_t now)
{
    const char *best = NULL;
    int most = 0;

    for (int i = 0; i < job->n; i++) {
        const mf_status_page_seen *t = &job->tasks[i];
        const bool stuck = (!t->alive || mf_job_view_is_stopped(t)) && !mf_job_view_is_master(t);
        const char *name;
        int n = 0;

        if (!job_view_text_waits(&job->tasks[i], now) && !stuck)
            continue;
        job_view_text_root_of(job, i, now, &name);
        for (int k = 0; name && k < job->n; k++) {
            const char *other;

            job_view_text_root_of(job, k, now, &other);
            n += other && strcmp(other, name) == 0;
        }
        if (n > most) {
            most = n;
            best = name;
        }
    }
    return best;
}

/* A cycle of waits. */
static bool put_ring(const mf_job_view_job *job, int64_t now, mf_buf *out)
{
    for (int i = 0; i < job->n; i++) {
        const char *name;

        if (!job_view_text_waits(&job->tasks[i], now) ||
            (job_view_text_root_of(job, i, now, &name), name))
            continue;
        mf_buf_str(out, "deadlock: ");
        for (int k = i, hops = 0; hops < job->n && (hops == 0 || k != i); hops++) {
            const mf_status_page_wait *w = job_view_text_waits(&job->tasks[k], now);

            mf_buf_printf(out, "%s%s ", hops > 0 ? "; " : "", job->tasks[k].page.task);
            put_wait(w, now, out);
            k = mf_job_view_find(job, w->whom);
        }
        return true;
    }
    return false;
}

const mf_status_page_wait *mf_job_view_waits(const mf_job_view_job *job, int i, int64_t now)
{
    return job_view_text_waits(&job->tasks[i], now);
}

const char *mf_job_view_root(const mf_job_view_job *job, int i, int64_t now)
{
    const char *name;

    job_view_text_root_of(job, i, now, &name);
    return name;
}

void mf_job_view_blame(const mf_job_view_job *job, const char *name, const char *note, int64_t now,
                       mf_buf *out)
{
    const int i = mf_job_view_find(job, name);

    if (i >= 0) {
        mf_buf_printf(out, "%s (pid %lld) ", name, (long long)job->tasks[i].page.pid);
        mf_job_view_task_text(&job->tasks[i], now, out);
    } else {
        mf_buf_printf(out, "%s is not on this host, or has not started", name);
    }
    mf_buf_str(out, note);
    put_waiting(job, name, now, out);
}

bool mf_job_view_explain(const mf_job_view_job *job, int64_t now, mf_buf *out)
{
    const char *name = reason(job, now);

    if (!name)
        return put_ring(job, now, out);
    mf_job_view_blame(job, name, "", now, out);
    return true;
}
