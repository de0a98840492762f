/* SPDX-License-Identifier: Apache-2.0 */
/* status_page_activity.c - activities of threads: the current op or file. Each thread has its own
 * place on the page and writes there without a lock, because ops last microseconds. A concurrent
 * reader may see half a name; an activity that lasts long enough to matter is read completely. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/observer.h"
#include "base/race.h"
#include "observe/status_page.h"
#include "observe/status_page_layout.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* ---- location of the status page ---- */

static _Atomic(mf_status_page_area *) area;

mf_status_page_area *mf_status_page_area_find(void)
{
    return atomic_load_explicit(&area, memory_order_acquire);
}

/* ---- hooks of base/ ---- */

static int begin_read(const char *path)
{
    return mf_status_page_act_begin(MF_ACT_READ, path);
}

static int begin_write(const char *path)
{
    return mf_status_page_act_begin(MF_ACT_WRITE, path);
}

static const mf_observer observer = { begin_read, begin_write, mf_status_page_act_end,
                                      mf_status_page_logged };

mf_status mf_status_page_area_map(int fd, mf_status_page_area **out)
{
    mf_status_page_area *before = mf_status_page_area_find();
    const int flags =
        (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | (before ? MAP_FIXED : 0);
    void *at = mmap(before, sizeof **out, PROT_READ | PROT_WRITE, flags, fd, 0);

    *out = at == MAP_FAILED ? NULL : at;
    if (!*out)
        return MF_NOMEM("a status page");
    atomic_store_explicit(&area, *out, memory_order_release);
    mf_observer_set(&observer);
    return MF_OK;
}

void mf_status_page_area_leave(void)
{
    mf_status_page_area *none;

    (void)!mf_status_page_area_map(-1, &none); /* on failure the old mapping stays: a file without a
                                                  name */
}

/* ---- places ---- */

static atomic_uint taken; /* bit set */
static _Thread_local int running = -1; /* this thread's place, while it runs ops */
static _Thread_local int depth;

static int take_place(void)
{
    unsigned now = atomic_load_explicit(&taken, memory_order_relaxed);

    for (;;) {
        const int place = __builtin_ffs((int)~now) - 1;

        if (place < 0 || place >= MF_STATUS_PAGE_ACTS)
            return -1;
        if (atomic_compare_exchange_weak(&taken, &now, now | 1u << place))
            return place;
    }
}

static void write_act(int place, mf_act kind, int64_t since, const char *what)
{
    mf_status_page_act *a = &mf_status_page_area_find()->file.page.acts[place];
    const size_t len = strlen(what), most = sizeof a->what - 1;
    const char *from = kind != MF_ACT_RUN && len > most ? what + len - most : what;

    mf_race_begin();
    a->kind = (int32_t)kind;
    a->since_ns = since;
    (void)memccpy(a->what, from, '\0', most); /* the last byte is always zero */
    mf_race_end();
}

static int status_page_activity_begin(mf_act kind, int64_t since, const char *what)
{
    const int place = mf_status_page_area_find() ? take_place() : -1;

    if (place >= 0)
        write_act(place, kind, since, what);
    return place;
}

static void status_page_activity_end(int place)
{
    mf_race_begin();
    mf_status_page_area_find()->file.page.acts[place].kind = MF_ACT_NONE;
    mf_race_end();
    atomic_fetch_and(&taken, ~(1u << place));
}

int mf_status_page_act_begin(mf_act act, const char *what)
{
    return status_page_activity_begin(act, mf_clock_ns(), what);
}

void mf_status_page_act_end(int act)
{
    static const mf_event events[MF_ACTS] = {
        [MF_ACT_READ] = MF_EVENT_READ, [MF_ACT_WRITE] = MF_EVENT_WROTE
    };
    const int why = errno; /* errno of the thread's activity */
    mf_status_page_act a;

    if (act < 0)
        return;
    mf_race_begin();
    a = mf_status_page_area_find()->file.page.acts[act];
    mf_race_end();
    status_page_activity_end(act);
    a.what[sizeof a.what - 1] = '\0';
    if (a.kind == MF_ACT_READ || a.kind == MF_ACT_WRITE)
        mf_status_page_note_long(events[a.kind], a.since_ns, a.what);
    errno = why;
}

/* ---- ops ---- */

void mf_status_page_act_running(int change)
{
    depth += change;
    if (change > 0 && depth == 1) {
        running = status_page_activity_begin(MF_ACT_RUN, mf_clock_coarse_ns(), "");
    } else if (depth == 0 && running >= 0) {
        status_page_activity_end(running);
        running = -1;
    }
}

void mf_status_page_runs(const char *node)
{
    if (running >= 0)
        write_act(running, MF_ACT_RUN, mf_clock_coarse_ns(), node);
}

/* ---- queries within this process ---- */

mf_status mf_status_page_watch(void)
{
    mf_status_page_area *a;

    return mf_status_page_area_find() ? MF_OK : mf_status_page_area_map(-1, &a);
}

void mf_status_page_acts_text(mf_buf *out)
{
    const mf_status_page_area *area_now = mf_status_page_area_find();
    const int64_t now = mf_clock_ns();
    const size_t before = out->len;

    for (int i = 0; area_now && i < MF_STATUS_PAGE_ACTS; i++) {
        mf_status_page_act a;

        mf_race_begin();
        a = area_now->file.page.acts[i];
        mf_race_end();
        a.what[sizeof a.what - 1] = '\0';
        if (a.kind == MF_ACT_RUN && a.what[0])
            mf_buf_printf(out, "%s'%s' for %.1f s", out->len > before ? ", " : "", a.what,
                          (double)(now - a.since_ns) / 1e9);
    }
}
