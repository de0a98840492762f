/* SPDX-License-Identifier: Apache-2.0 */
/* stall_watchdog.c - the thread that reports steps that have stalled, and the task that is the
 * cause. */
#include "observe/stall_watchdog.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "observe/job_view.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

MF_PARAM_INT(stall_report_ms, 2000, "a stall of this duration in ms is reported on standard error");

static const int64_t AGAIN_NS = 250000000; /* between two checks */
enum {
    PATIENT = 5, /* factor for causes that are known to take long */
    USUAL = 3, /* a step may take this multiple of its usual duration */
    REPEAT = 10, /* the next report comes after this multiple of the stall's duration */
};

static atomic_int saying; /* reported stalls of this process that still last */

int64_t mf_stall_patience_ns(void)
{
    return MF_PARAM(stall_report_ms) * 1000000;
}

void mf_stall_begin(mf_stall *s)
{
    s->since = mf_clock_ns();
    s->next_check_ns =
        s->since + MF_PARAM(stall_report_ms) * 500000; /* the first check is half way */
    s->reported = false;
    s->pid = 0;
}

void mf_stall_end(mf_stall *s, bool well)
{
    char step[40] = "training";

    if (s->since != 0 && s->reported) {
        atomic_fetch_sub(&saying, 1);
        if (s->step >= 0)
            (void)snprintf(step, sizeof step, "step %lld", (long long)s->step);
        if (well)
            MF_WARN("%s continues after %.1f s", step, (double)(mf_clock_ns() - s->since) * 1e-9);
    }
    s->since = 0;
}

/* ---- when to report ---- */

/* Workers report first, because users watch their output. */
static bool reports_before(const mf_job_view_job *job, int i, int k)
{
    const bool server_i = strncmp(job->tasks[i].page.task, "ps", 2) == 0;
    const bool server_k = strncmp(job->tasks[k].page.task, "ps", 2) == 0;

    return server_i != server_k ? server_k : i < k;
}

static bool stall_watchdog_is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* No task before this one waits for the same cause; and if this task is the cause, no other task
 * waits for it. */
static bool should_report(const mf_job_view_job *job, int self, const char *root, int64_t now)
{
    const bool own_fault = stall_watchdog_is_same(root, job->tasks[self].page.task);

    for (int i = 0; i < job->n; i++) {
        const bool other = i != self && !mf_job_view_is_kept(&job->tasks[i]);

        if (other && mf_job_view_waits(job, i, now) &&
            (own_fault || reports_before(job, i, self)) &&
            stall_watchdog_is_same(mf_job_view_root(job, i, now), root))
            return false;
    }
    return true;
}

/* How long this task may delay others before it is reported. A task that uses its processor makes
 * progress: starting, loading and evaluating take long, and a step takes its usual time. */
static int64_t stall_watchdog_patience(const mf_status_page_seen *t, const mf_process_times *lately)
{
    const int64_t usual = MF_PARAM(stall_report_ms) * 1000000;
    const bool moves = lately->ran_ns > lately->at_ns / 5;

    if (!moves || !t->alive || mf_job_view_is_stopped(t))
        return usual;
    if (t->page.phase == MF_PHASE_START || t->page.phase == MF_PHASE_LOAD ||
        t->page.phase == MF_PHASE_EVALUATE)
        return PATIENT * usual;
    if (t->page.phase == MF_PHASE_STEP && t->page.usual_ns == 0) /* the first step compiles */
        return PATIENT * usual;
    if (t->page.phase == MF_PHASE_STEP && USUAL * t->page.usual_ns > usual)
        return USUAL * t->page.usual_ns;
    return usual;
}

/* This task is the cause itself: what does it lack? */
static bool is_stuck(const mf_status_page *p)
{
    return p->computing == 0 &&
           (p->phase == MF_PHASE_INPUT || p->phase == MF_PHASE_SAVE || p->phase == MF_PHASE_END);
}

/* ---- reporting ---- */

static int64_t stall_watchdog_step_of(const mf_job_view_job *job, int self, int64_t now)
{
    const mf_status_page_wait *w = mf_job_view_waits(job, self, now);
    const mf_status_page *p = &job->tasks[self].page;

    if (w && w->step >= 0)
        return w->step;
    return p->phase == MF_PHASE_START || p->phase == MF_PHASE_LOAD ? -1 : p->step;
}

static void stall_watchdog_say(mf_stall *s, const mf_job_view_job *job, const char *root,
                               const char *note, int64_t now)
{
    mf_buf text = { 0 };
    char step[40] = "startup";

    if (s->step >= 0)
        (void)snprintf(step, sizeof step, "step %lld", (long long)s->step);
    if (root)
        mf_job_view_blame(job, root, note, now, &text);
    else if (!mf_job_view_explain(job, now, &text))
        mf_buf_str(&text, "unknown cause");
    if (mf_buf_finish(&text) == MF_OK)
        MF_WARN("%s stalled for %.1f s: %s%s%s", step, (double)(now - s->since) * 1e-9, text.data,
                s->why ? ": " : "", s->why ? s->why : "");
    mf_buf_deinit(&text);
    if (!s->reported)
        atomic_fetch_add(&saying, 1);
    s->reported = true;
    s->next_check_ns = s->since + REPEAT * (now - s->since);
}

static void stall_watchdog_check(mf_stall *s, const mf_job_view_job *job, int self, int64_t now)
{
    const char *root = mf_job_view_root(job, self, now);
    const int i = root ? mf_job_view_find(job, root) : -1;
    const bool here = i >= 0 && !mf_job_view_is_kept(&job->tasks[i]);
    const int64_t pid = here ? job->tasks[i].page.pid : 0;
    mf_process_times times = { 0 };
    const bool timed = here && mf_process_time(pid, &times);
    const bool known = timed && s->pid == pid;
    int64_t enough = MF_PARAM(stall_report_ms) * 1000000;
    char note[MF_JOB_VIEW_NOTE] = "";

    s->next_check_ns = now + AGAIN_NS;
    if (known) {
        const mf_process_times lately = mf_process_time_between(&s->times, &times);

        enough = stall_watchdog_patience(&job->tasks[i], &lately);
        mf_job_view_starved(&job->tasks[i], &lately, note);
    } else {
        s->pid = timed ? pid : 0;
        s->times = times;
        if (timed) /* the next check can compare the times */
            return;
    }
    if (now - s->since < enough) {
        s->next_check_ns =
            s->since + enough < s->next_check_ns ? s->since + enough : s->next_check_ns;
        return;
    }
    if (i == self && !is_stuck(&job->tasks[i].page))
        return;
    if (!should_report(job, self, root, now))
        return;
    s->step = stall_watchdog_step_of(job, self, now);
    stall_watchdog_say(s, job, root, note, now);
}

/* Pages that cannot be read are skipped. Their errors must not replace the caller's error record,
 * which it may be about to report. */
static mf_status read_job(mf_job_view *out)
{
    mf_error before;
    mf_status st;

    mf_error_save(MF_UNKNOWN, &before);
    st = mf_job_view_read(mf_status_page_job(), out);
    (void)mf_error_restore(&before);
    return st;
}

mf_stall_seen mf_stall_check(mf_stall *s)
{
    const int64_t now = mf_clock_ns();
    mf_stall_seen seen = MF_STALL_UNSEEN;
    const char *task;
    mf_job_view r;

    if (s->since == 0 || now < s->next_check_ns)
        return MF_STALL_EARLY;
    if (!mf_status_page_is_seen(&task))
        return MF_STALL_UNSEEN;
    if (!s->reported && atomic_load(&saying) > 0) { /* another thread reported a stall */
        s->next_check_ns = now + AGAIN_NS;
        return MF_STALL_SEEN;
    }
    if (read_job(&r) == MF_OK && r.n_jobs > 0) {
        const int self = mf_job_view_find(&r.jobs[0], task);

        if (self >= 0) {
            stall_watchdog_check(s, &r.jobs[0], self, r.now);
            seen = MF_STALL_SEEN;
        }
    }
    mf_job_view_deinit(&r);
    return seen;
}
