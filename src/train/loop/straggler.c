/* SPDX-License-Identifier: Apache-2.0 */
/* straggler.c - finds the worker that slows down the others, and logs it. */
#include "train/loop/straggler.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"

#include <stdlib.h>
#include <string.h>

MF_PARAM_INT(straggler_check_ms, 5000,
             "interval in ms of comparing the workers' step times; 0: never");
MF_PARAM_INT(straggler_percent, 200,
             "a worker that takes this percentage of the others' time is a straggler");

enum {
    STEPS = 4, /* fewer between two checks prove nothing */
    SURE = 2, /* consecutive checks */
    FEW = 5, /* faults in a second */
};
#define WORTH_IT 0.1 /* of all time */

/* ---- why ---- */

/* The file whose reading took longest since then, by the flight recorder; "": none took long. */
static void find_read(const mf_status_page_seen *t, int64_t since, mf_status_page_event *longest)
{
    mf_status_page_event *events = mf_calloc(MF_STATUS_PAGE_EVENTS, sizeof *events);
    int n = 0;

    *longest = (mf_status_page_event){ 0 };
    if (events && t->path && mf_status_page_events_read(t, events, &n) != MF_OK)
        n = 0;
    for (int i = 0; i < n; i++) {
        if (events[i].kind == MF_EVENT_READ && events[i].at_ns >= since &&
            events[i].amount > longest->amount)
            *longest = events[i];
    }
    mf_free(events);
}

static void put_input(const mf_status_page_seen *t, int64_t since, mf_buf *out)
{
    mf_status_page_event read;

    find_read(t, since, &read);
    mf_buf_str(out, "it waits for input");
    if (read.amount > 0)
        mf_buf_printf(out, ": reading %s took %.2f s", read.text, (double)read.amount * 1e-9);
}

/* Its current op, as an example. */
static const char *straggler_op_of(const mf_status_page *p)
{
    for (int i = 0; i < MF_STATUS_PAGE_ACTS; i++) {
        if (p->acts[i].kind == MF_ACT_RUN && p->acts[i].what[0])
            return p->acts[i].what;
    }
    return NULL;
}

void mf_straggler_cause(const mf_status_page_seen *task, const mf_pace *before, const mf_pace *now,
                        int64_t excess, mf_buf *out)
{
    const mf_process_times t = mf_process_time_between(&before->times, &now->times);
    const bool timed = before->times.at_ns > 0 && t.at_ns > 0;
    const int64_t input = now->own_ns[MF_USE_INPUT] - before->own_ns[MF_USE_INPUT];
    const int64_t computed = now->own_ns[MF_USE_COMPUTE] - before->own_ns[MF_USE_COMPUTE];
    const int64_t wanted = t.ran_ns + t.ready_ns;
    const double faults = timed ? (double)t.faults / ((double)t.at_ns * 1e-9) : 0.0;
    const char *op = straggler_op_of(&task->page);

    if (input > excess / 2)
        put_input(task, before->times.at_ns, out);
    else if (timed && wanted > 0 && (double)t.ran_ns < 0.7 * (double)wanted)
        mf_buf_printf(out,
                      "it gets %.0f %% of the processor time that it needs (other processes run "
                      "on its cores)",
                      100.0 * (double)t.ran_ns / (double)wanted);
    else if (timed && faults > FEW)
        mf_buf_printf(out, "its memory is paged in from a disk (%.0f page faults a second)",
                      faults);
    else if (timed && (double)wanted < 0.6 * (double)computed)
        mf_buf_printf(
            out,
            "%.0f %% of its computing time it does not run (stopped by signals, or blocked in "
            "the kernel)",
            100.0 - 100.0 * (double)wanted / (double)computed);
    else
        mf_buf_printf(out, "it computes slower%s%s%s", op ? " (at op " : "", op ? op : "",
                      op ? " just now)" : "");
}

/* ---- the slow worker ---- */

static void straggler_take(const mf_status_page_seen *t, int64_t now, mf_pace *out)
{
    memcpy(out->task, t->page.task, sizeof out->task);
    out->step = t->page.step;
    out->shards = t->page.n_shards;
    mf_status_page_page_used(&t->page, now, out->own_ns);
    if (mf_job_view_is_kept(t) || !mf_process_time(t->page.pid, &out->times))
        out->times = (mf_process_times){ 0 };
}

static const mf_pace *straggler_find(const mf_straggler *s, const char *task)
{
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->paces[i].task, task) == 0)
            return &s->paces[i];
    }
    return NULL;
}

/* Nanoseconds by shard and step; 0: not known. */
static double pace_of(const mf_pace *before, const mf_pace *now)
{
    const int64_t steps = before ? now->step - before->step : 0;

    if (steps < STEPS || now->shards == 0 || now->shards != before->shards)
        return 0.0;
    return (double)(now->own_ns[MF_USE_COMPUTE] - before->own_ns[MF_USE_COMPUTE] +
                    now->own_ns[MF_USE_INPUT] - before->own_ns[MF_USE_INPUT]) /
           (double)(steps * now->shards);
}

static int straggler_ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of all but one; 0: no measurement. */
static double straggler_median(const double *paces, int n, int but, double *room)
{
    int known = 0;

    for (int i = 0; i < n; i++) {
        if (i != but && paces[i] > 0.0)
            room[known++] = paces[i];
    }
    qsort(room, (size_t)known, sizeof *room, straggler_ascending);
    return known > 0 ? room[known / 2] : 0.0;
}

static void straggler_say(const mf_status_page_seen *t, const mf_pace *before, const mf_pace *now,
                          double times, int64_t excess)
{
    mf_buf why = { 0 };

    mf_straggler_cause(t, before, now, excess, &why);
    if (mf_buf_finish(&why) == MF_OK)
        MF_WARN("%s is slow: %.1f times the others by shard; %s", now->task, times, why.data);
    mf_buf_deinit(&why);
}

static void straggler_judge(const mf_straggler *s, const mf_status_page_seen *const *tasks,
                            mf_pace *paces, int n, int64_t time, double *by_shard, double *room)
{
    for (int i = 0; i < n; i++)
        by_shard[i] = pace_of(straggler_find(s, paces[i].task), &paces[i]);
    for (int i = 0; i < n; i++) {
        const mf_pace *before = straggler_find(s, paces[i].task);
        const double others = straggler_median(by_shard, n, i, room);
        const int64_t pieces = before ? (paces[i].step - before->step) * paces[i].shards : 0;
        const double excess = (by_shard[i] - others) * (double)pieces;
        const bool slow = others > 0.0 && excess > WORTH_IT * (double)time &&
                          100.0 * by_shard[i] >= (double)MF_PARAM(straggler_percent) * others;

        if (!before)
            continue;
        paces[i].slow = !slow ? 0 : before->slow < SURE ? before->slow + 1 : SURE;
        paces[i].said = before->said;
        if (paces[i].slow < SURE || paces[i].said)
            continue;
        straggler_say(tasks[i], before, &paces[i], by_shard[i] / others, (int64_t)excess);
        paces[i].said = true;
    }
}

static bool is_worker(const mf_status_page_seen *t)
{
    return t->alive && t->page.phase != MF_PHASE_SERVE && !mf_job_view_is_master(t);
}

/* Has a worker done too few steps since the last check? */
static bool is_early(const mf_straggler *s, const mf_job_view_job *job)
{
    for (int i = 0; i < job->n; i++) {
        const mf_status_page *p = &job->tasks[i].page;
        const mf_pace *before = is_worker(&job->tasks[i]) ? straggler_find(s, p->task) : NULL;

        if (before && p->n_shards == before->shards && p->step - before->step < STEPS)
            return true;
    }
    return false;
}

static void straggler_compare(mf_straggler *s, const mf_job_view_job *job, int64_t now)
{
    const mf_status_page_seen **tasks = mf_calloc(job->n, sizeof(mf_status_page_seen *));
    mf_pace *paces = mf_calloc(job->n, sizeof *paces);
    double *numbers = mf_calloc(2 * (int64_t)job->n, sizeof *numbers);
    int n = 0;

    for (int i = 0; tasks && paces && numbers && i < job->n; i++) {
        if (!is_worker(&job->tasks[i]))
            continue;
        tasks[n] = &job->tasks[i];
        straggler_take(tasks[n], now, &paces[n]);
        n++;
    }
    if (n > 0) {
        straggler_judge(s, tasks, paces, n, now - s->looked, numbers, numbers + job->n);
        mf_free(s->paces);
        s->paces = paces;
        s->n = n;
        s->looked = now;
        paces = NULL;
    }
    mf_free(tasks);
    mf_free(paces);
    mf_free(numbers);
}

void mf_straggler_look(mf_straggler *s)
{
    const int64_t every = MF_PARAM(straggler_check_ms) * 1000000, now = mf_clock_ns();
    const char *task;
    mf_job_view r;

    if (every == 0 || now < s->look_at || !mf_status_page_is_seen(&task))
        return;
    if (s->look_at > 0) { /* the first step is not compared */
        if (mf_job_view_read(mf_status_page_job(), &r) == MF_OK && r.n_jobs > 0 &&
            !is_early(s, &r.jobs[0]))
            straggler_compare(s, &r.jobs[0], r.now);
        mf_job_view_deinit(&r);
    }
    s->look_at = now + every + 20 * (mf_clock_ns() - now); /* reading the pages of many tasks takes
                                                              long */
}

void mf_straggler_deinit(mf_straggler *s)
{
    mf_free(s->paces);
    *s = (mf_straggler){ 0 };
}
