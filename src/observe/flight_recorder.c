/* SPDX-License-Identifier: Apache-2.0 */
/* flight_recorder.c - the flight recorder of a task: its last events, in a ring behind its status
 * page. The ring is in a file that status_page_create.c maps shared, so the kernel keeps its pages
 * when the task dies, even by SIGKILL. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "observe/status_page.h"
#include "observe/status_page_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writing ---- */

void mf_status_page_copy_text(char *to, size_t size, const char *text)
{
    if (!memccpy(to, text ? text : "", '\0', size - 1))
        to[size - 1] = '\0';
}

void mf_status_page_record(mf_status_page_area *a, mf_event kind, int64_t step, int64_t amount,
                           const char *text)
{
    const uint64_t n = a->ring.n++; /* private: the shared copy is writable by others */
    mf_status_page_event *e = &a->ring.events[n % MF_STATUS_PAGE_EVENTS].event;
    atomic_ullong *number = &a->ring.events[n % MF_STATUS_PAGE_EVENTS].number;

    atomic_store_explicit(number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    e->at_ns = mf_clock_ns();
    e->step = step;
    e->amount = amount;
    e->kind = (int32_t)kind;
    mf_status_page_copy_text(e->text, sizeof e->text, text);
    atomic_store_explicit(number, n + 1, memory_order_release);
}

/* ---- reading ---- */

typedef struct numbered {
    unsigned long long number;
    mf_status_page_event event;
} numbered;

static int flight_recorder_by_number(const void *a, const void *b)
{
    const unsigned long long x = ((const numbered *)a)->number, y = ((const numbered *)b)->number;

    return (x > y) - (x < y);
}

static bool flight_recorder_sanitize(mf_status_page_event *e)
{
    mf_status_page_sanitize_text(e->text, sizeof e->text);
    mf_status_page_sanitize_number(&e->at_ns);
    mf_status_page_sanitize_number(&e->amount);
    if (e->step < -1 || e->step > INT64_MAX / 16)
        e->step = -1;
    return e->kind >= 0 && e->kind < MF_EVENTS &&
           (e->kind != MF_EVENT_PHASE || e->amount < MF_PHASES);
}

void mf_status_page_events_decode(const void *bytes, size_t size, mf_status_page_event *out, int *n)
{
    _Static_assert(sizeof(numbered) * MF_STATUS_PAGE_EVENTS ==
                       sizeof(((mf_status_page_ring *)0)->events),
                   "one event, as stored in the ring");
    const char *from = (const char *)bytes + offsetof(mf_status_page_ring, events);
    numbered all[MF_STATUS_PAGE_EVENTS];
    int count = 0;

    *n = 0;
    if (size != sizeof(mf_status_page_ring))
        return;
    for (int i = 0; i < MF_STATUS_PAGE_EVENTS; i++) {
        numbered *e = &all[count];

        memcpy(e, from + (size_t)i * sizeof *e, sizeof *e);
        count += e->number != 0 && (e->number - 1) % MF_STATUS_PAGE_EVENTS == (unsigned)i &&
                 flight_recorder_sanitize(&e->event);
    }
    qsort(all, (size_t)count, sizeof *all, flight_recorder_by_number);
    for (int i = 0; i < count; i++)
        out[i] = all[i].event;
    *n = count;
}

mf_status mf_status_page_events_read(const mf_status_page_seen *b, mf_status_page_event *out,
                                     int *n)
{
    const int fd = open(b->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    mf_status_page_ring *ring;
    ssize_t got;

    *n = 0;
    if (fd < 0)
        return mf_errno_status(errno, "open", b->path);
    ring = mf_calloc(1, sizeof *ring);
    got = ring ? pread(fd, ring, sizeof *ring, offsetof(mf_status_page_area, ring)) : 0;
    (void)close(fd);
    if (!ring)
        return MF_NOMEM("a status page");
    mf_status_page_events_decode(ring, got > 0 ? (size_t)got : 0, out, n);
    mf_free(ring);
    return MF_OK;
}

/* ---- text ---- */

static double flight_recorder_seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

void mf_status_page_event_text(const mf_status_page_event *e, mf_buf *out)
{
    char of[40] = "";

    if (e->step >= 0)
        (void)snprintf(of, sizeof of, " of step %lld", (long long)e->step);
    switch ((mf_event)e->kind) {
    case MF_EVENT_PHASE:
        mf_buf_str(out, mf_phase_text((mf_phase)e->amount));
        if (e->amount == MF_PHASE_STEP)
            mf_buf_printf(out, " step %lld", (long long)e->step);
        break;
    case MF_EVENT_STEP:
        mf_buf_printf(out, "step %lld is done", (long long)e->step);
        break;
    case MF_EVENT_CALL:
        mf_buf_printf(out, "%s%s: started, %lld bytes", e->text, of, (long long)e->amount);
        break;
    case MF_EVENT_CALLED:
        mf_buf_printf(out, "%s%s: done after %.6f s", e->text, of,
                      flight_recorder_seconds(e->amount));
        break;
    case MF_EVENT_WAITED:
        mf_buf_printf(out, "waited %.3f s for %s%s", flight_recorder_seconds(e->amount), e->text,
                      of);
        break;
    case MF_EVENT_READ:
        mf_buf_printf(out, "read %s for %.3f s", e->text, flight_recorder_seconds(e->amount));
        break;
    case MF_EVENT_WROTE:
        mf_buf_printf(out, "wrote %s for %.3f s", e->text, flight_recorder_seconds(e->amount));
        break;
    case MF_EVENT_SAID:
        mf_buf_printf(out, "logged: %s", e->text);
        break;
    case MF_EVENTS:
        break;
    }
}
