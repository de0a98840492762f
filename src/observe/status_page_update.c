/* SPDX-License-Identifier: Apache-2.0 */
/* status_page_update.c - changes to the status page and the flight recorder of this task. */
#include "base/clock.h"
#include "observe/status_page.h"
#include "observe/status_page_layout.h"

#include <stdio.h>
#include <string.h>

/* Shorter activities are not recorded: they would fill the recorder. */
static const int64_t LONG_NS = 10000000;

static atomic_int computing; /* threads; counted also without a page */

/* Call with the page locked: an event has just happened. */
static void record(mf_event kind, int64_t step, int64_t amount, const char *text)
{
    mf_status_page_record(mf_status_page_area_find(), kind, step, amount, text);
}

static void status_page_update_note(mf_event kind, int64_t step, int64_t amount, const char *text)
{
    mf_status_page *p = mf_status_page_change();

    if (!p)
        return;
    record(kind, step, amount, text);
    mf_status_page_changed(p);
}

void mf_status_page_phase(mf_phase phase)
{
    mf_status_page *p = mf_status_page_change();

    if (!p)
        return;
    p->phase = (int32_t)phase;
    p->phase_since_ns = mf_clock_ns();
    if (phase != MF_PHASE_SERVE) /* called after every update */
        record(MF_EVENT_PHASE, p->step, phase, NULL);
    mf_status_page_changed(p);
}

void mf_status_page_shards(int64_t first, int64_t n)
{
    mf_status_page *p = mf_status_page_change();

    if (!p)
        return;
    p->first_shard = first;
    p->n_shards = n;
    mf_status_page_changed(p);
}

void mf_status_page_begin(int64_t step, int64_t steps)
{
    mf_status_page *p = mf_status_page_change();

    if (!p)
        return;
    p->step = step;
    p->steps = steps;
    p->rate_samples = 0;
    p->stepped_ns = 0;
    p->rate_since_ns = p->use_since_ns = p->began_ns = mf_clock_ns();
    memset(p->used_ns, 0, sizeof p->used_ns);
    mf_status_page_changed(p);
}

/* Averaged over a second, or over a longer step; in the first second, over the time so far. */
static void count_rate(mf_status_page *p, int64_t samples, int64_t now)
{
    const int64_t time = now - p->rate_since_ns;
    const bool over = time > 1000000000;

    p->rate_samples += samples;
    if (over || p->rate_since_ns == p->began_ns)
        p->rate = (double)p->rate_samples / ((double)(time + 1) * 1e-9);
    if (over) {
        p->rate_samples = 0;
        p->rate_since_ns = now;
    }
}

/* The mean of the last few steps; without the first step, which compiles. */
static void count_usual(mf_status_page *p, int64_t now)
{
    const int64_t time = p->stepped_ns > 0 ? now - p->stepped_ns : 0;

    p->usual_ns = p->usual_ns == 0 ? time : p->usual_ns + (time - p->usual_ns) / 8;
    p->stepped_ns = now;
}

void mf_status_page_step(int64_t step, int64_t epoch, int64_t samples, double loss)
{
    const int64_t now = mf_clock_ns();
    mf_status_page *p = mf_status_page_change();

    if (!p)
        return;
    p->step = step;
    p->epoch = epoch;
    p->loss = loss;
    p->phase = MF_PHASE_BETWEEN;
    p->phase_since_ns = now;
    count_rate(p, samples, now);
    count_usual(p, now);
    record(MF_EVENT_STEP, step - 1, 0, NULL);
    mf_status_page_changed(p);
}

void mf_status_page_threads(int threads, int input_threads)
{
    mf_status_page *p = mf_status_page_change();

    if (!p)
        return;
    p->threads = threads;
    p->input_threads = input_threads;
    mf_status_page_changed(p);
}

void mf_status_page_traffic(int64_t bytes)
{
    mf_status_page *p = mf_status_page_change();

    if (!p)
        return;
    p->sent = bytes;
    mf_status_page_changed(p);
}

/* Threads start and stop often: only the first and the last one change the page. */
void mf_status_page_computing(int change)
{
    const int before = atomic_fetch_add(&computing, change); /* also without a page */
    mf_status_page *p;

    mf_status_page_act_running(change);
    if ((before > 0) == (before + change > 0))
        return;
    p = mf_status_page_change();
    if (!p)
        return;
    p->computing = atomic_load(&computing);
    mf_status_page_changed(p);
}

int64_t mf_status_page_call_begin(const char *what, int64_t step, int64_t bytes)
{
    mf_status_page *p = mf_status_page_change();

    if (!p)
        return 0;
    p->talking++;
    record(MF_EVENT_CALL, step, bytes, what);
    mf_status_page_changed(p);
    return mf_clock_ns();
}

void mf_status_page_call_end(const char *what, int64_t step, int64_t began)
{
    mf_status_page *p = began > 0 ? mf_status_page_change() : NULL;

    if (!p)
        return;
    p->talking--;
    record(MF_EVENT_CALLED, step, mf_clock_ns() - began, what);
    mf_status_page_changed(p);
}

void mf_status_page_logged(const char *text)
{
    status_page_update_note(MF_EVENT_SAID, -1, 0, text);
}

void mf_status_page_sent(const char *to, int64_t bytes)
{
    mf_status_page *p = mf_status_page_change();

    for (int i = 0; p && i < MF_STATUS_PAGE_LINKS; i++) {
        mf_status_page_link *l = &p->links[i];

        if (l->to[0] && strncmp(l->to, to, sizeof l->to - 1) != 0)
            continue;
        mf_status_page_copy_text(l->to, sizeof l->to, to);
        l->bytes += bytes;
        break;
    }
    if (p)
        mf_status_page_changed(p);
}

void mf_status_page_holds(const char *of, int64_t version)
{
    mf_status_page *p = mf_status_page_change();

    if (p && !of[0])
        memset(p->slices, 0, sizeof p->slices);
    for (int i = 0; p && of[0] && i < MF_STATUS_PAGE_COPIES; i++) {
        mf_status_page_slice *s = &p->slices[i];

        if (s->of[0] && strncmp(s->of, of, sizeof s->of - 1) != 0)
            continue;
        mf_status_page_copy_text(s->of, sizeof s->of, of);
        s->version = version;
        break;
    }
    if (p)
        mf_status_page_changed(p);
}

int mf_status_page_wait_begin(const char *whom, const char *where, const char *what, int64_t step)
{
    mf_status_page *p = mf_status_page_change();
    int slot = -1;

    for (int i = 0; p && i < MF_STATUS_PAGE_WAITS && slot < 0; i++) {
        mf_status_page_wait *w = &p->waits[i];

        if (w->since_ns != 0)
            continue;
        mf_status_page_copy_text(w->whom, sizeof w->whom, whom);
        mf_status_page_copy_text(w->where, sizeof w->where, where);
        mf_status_page_copy_text(w->what, sizeof w->what, what);
        w->step = step;
        w->since_ns = mf_clock_ns();
        slot = i;
    }
    if (p)
        mf_status_page_changed(p);
    return slot;
}

void mf_status_page_wait_end(int wait)
{
    mf_status_page *p = wait >= 0 ? mf_status_page_change() : NULL;
    char text[MF_STATUS_PAGE_TASK + MF_STATUS_PAGE_TEXT + 2];
    mf_status_page_wait *w;
    int64_t time;

    if (!p)
        return;
    w = &p->waits[wait];
    time = mf_clock_ns() - w->since_ns;
    if (time >= LONG_NS) {
        (void)snprintf(text, sizeof text, "%.*s: %.*s", MF_STATUS_PAGE_TASK - 1, w->whom,
                       MF_STATUS_PAGE_TEXT - 1, w->what);
        record(MF_EVENT_WAITED, w->step, time, text);
    }
    w->since_ns = 0;
    mf_status_page_changed(p);
}

void mf_status_page_note_long(mf_event kind, int64_t since, const char *text)
{
    const int64_t time = mf_clock_ns() - since;
    const size_t len = strlen(text), most = sizeof((mf_status_page_event *)0)->text - 1;

    if (time >= LONG_NS)
        status_page_update_note(kind, -1, time, len > most ? text + len - most : text);
}
