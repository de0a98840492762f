/* SPDX-License-Identifier: Apache-2.0 */
/* board.c - the board of this process. */
#include "base/board.h"

#include "base/board_file.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/race.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What took less is not recorded: there would be nothing else. */
static const int64_t LONG_NS = 10000000;

/* Not passed around, as standard error is not: it belongs to the process. */
static struct {
    pthread_mutex_t lock; /* all below, and all writing */
    _Atomic(mf_board_area *) area; /* NULL: none. Looked at without the lock first */
    int opened; /* how often */
    char *path; /* NULL: nobody else sees it */
    mf_use use; /* of now: an index, which memory that others can write to is not asked for */
    atomic_int computing;
} board = { .lock = PTHREAD_MUTEX_INITIALIZER };

static inline bool is_open(void)
{
    return atomic_load_explicit(&board.area, memory_order_relaxed) != NULL;
}

/* ---- changing the page ---- */

static bool waits(const mf_board_page *p)
{
    for (int i = 0; i < MF_BOARD_WAITS; i++) {
        if (p->waits[i].since_ns != 0)
            return true;
    }
    return false;
}

static mf_use use_of(const mf_board_page *p)
{
    if (p->computing > 0)
        return MF_USE_COMPUTE;
    if (p->phase == MF_PHASE_INPUT)
        return MF_USE_INPUT;
    if (p->talking > 0 || waits(p))
        return MF_USE_COMMUNICATION;
    if (p->phase == MF_PHASE_SERVE)
        return MF_USE_COMMUNICATION;
    return p->phase == MF_PHASE_STEP ? MF_USE_COMPUTE : MF_USE_IDLE;
}

/* Between these two the page may change. NULL, and no lock: there is no board. */
static mf_board_page *begin(void)
{
    mf_board_area *a;

    if (!is_open())
        return NULL;
    pthread_mutex_lock(&board.lock);
    a = atomic_load(&board.area);
    if (!a) {
        pthread_mutex_unlock(&board.lock);
        return NULL;
    }
    atomic_fetch_add(&a->file.seq, 1);
    return &a->file.page;
}

static void end(mf_board_page *p)
{
    const int64_t now = mf_clock_ns();

    p->used_ns[board.use] += now - p->use_since_ns;
    p->use_since_ns = p->changed_ns = now;
    board.use = use_of(p);
    p->use = (int32_t)board.use;
    atomic_fetch_add(&atomic_load(&board.area)->file.seq, 1);
    pthread_mutex_unlock(&board.lock);
}

/* Between them, too: something that has just happened. */
static void record(mf_event kind, int64_t step, int64_t amount, const char *text)
{
    mf_board_record(atomic_load(&board.area), kind, step, amount, text);
}

void mf_board_note(mf_event kind, int64_t step, int64_t amount, const char *text)
{
    mf_board_page *p = begin();

    if (!p)
        return;
    record(kind, step, amount, text);
    end(p);
}

/* ---- opening and closing ---- */

static mf_status open_board(const char *job, const char *task, int tasks)
{
    mf_board_area *a = NULL;
    mf_status st = mf_board_file_make(job, task, tasks, &a, &board.path);

    if (st == MF_ALREADY_EXISTS)
        return st;
    if (st != MF_OK) {
        MF_WARN("`meshflow status` will not see this process: %s", mf_error_message());
        MF_TRY(mf_board_file_unseen(job, task, tasks, &a));
    }
    board.use = MF_USE_IDLE;
    atomic_store(&board.area, a);
    return MF_OK;
}

mf_status mf_board_open(const char *job, const char *task, int tasks)
{
    mf_status st = MF_OK;

    MF_TRY(mf_board_check_name(job));
    pthread_mutex_lock(&board.lock);
    if (board.opened == 0)
        st = open_board(job, task, tasks);
    board.opened += st == MF_OK;
    pthread_mutex_unlock(&board.lock);
    return st;
}

mf_status mf_board_rename(const char *job)
{
    const mf_board_area *a = atomic_load(&board.area);
    char *path = NULL;
    mf_board_page *p;

    MF_TRY(mf_board_check_name(job));
    if (!a || strcmp(a->file.page.job, job) == 0)
        return MF_OK;
    if (board.path)
        MF_TRY(mf_board_file_link(board.path, job, a->file.page.task, &path));
    p = begin();
    if (!p)
        return MF_OK;
    mf_board_copy_text(p->job, sizeof p->job, job);
    mf_free(board.path);
    board.path = path;
    end(p);
    return MF_OK;
}

const char *mf_board_job(void)
{
    const mf_board_area *a = atomic_load(&board.area);

    return a ? a->file.page.job : "";
}

bool mf_board_is_seen(const char **task)
{
    const mf_board_area *a = atomic_load(&board.area);

    *task = a ? a->file.page.task : "";
    return a && board.path;
}

void mf_board_close(void)
{
    pthread_mutex_lock(&board.lock);
    if (is_open() && --board.opened == 0) {
        atomic_store(&board.area, NULL);
        mf_board_drop_kept();
        if (board.path)
            (void)unlink(board.path);
        mf_free(board.path);
        board.path = NULL;
        mf_board_area_leave();
    }
    pthread_mutex_unlock(&board.lock);
}

/* ---- what is shown ---- */

void mf_board_phase(mf_phase phase)
{
    mf_board_page *p = begin();

    if (!p)
        return;
    p->phase = (int32_t)phase;
    p->phase_since_ns = mf_clock_ns();
    if (phase != MF_PHASE_SERVE) /* after every update */
        record(MF_EVENT_PHASE, p->step, phase, NULL);
    end(p);
}

void mf_board_shards(int64_t first, int64_t n)
{
    mf_board_page *p = begin();

    if (!p)
        return;
    p->first_shard = first;
    p->n_shards = n;
    end(p);
}

void mf_board_begin(int64_t step, int64_t steps)
{
    mf_board_page *p = begin();

    if (!p)
        return;
    p->step = step;
    p->steps = steps;
    p->rate_samples = 0;
    p->stepped_ns = 0;
    p->rate_since_ns = p->use_since_ns = p->began_ns = mf_clock_ns();
    memset(p->used_ns, 0, sizeof p->used_ns);
    end(p);
}

/* Over a second, or a step that is longer; in the first second, over what there is. */
static void count_rate(mf_board_page *p, int64_t samples, int64_t now)
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

/* The mean of the last few; the first step is none of them: it is compiled in. */
static void count_usual(mf_board_page *p, int64_t now)
{
    const int64_t time = p->stepped_ns > 0 ? now - p->stepped_ns : 0;

    p->usual_ns = p->usual_ns == 0 ? time : p->usual_ns + (time - p->usual_ns) / 8;
    p->stepped_ns = now;
}

void mf_board_step(int64_t step, int64_t epoch, int64_t samples, double loss)
{
    const int64_t now = mf_clock_ns();
    mf_board_page *p = begin();

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
    end(p);
}

void mf_board_threads(int threads, int input_threads)
{
    mf_board_page *p = begin();

    if (!p)
        return;
    p->threads = threads;
    p->input_threads = input_threads;
    end(p);
}

void mf_board_traffic(int64_t bytes)
{
    mf_board_page *p = begin();

    if (!p)
        return;
    p->sent = bytes;
    end(p);
}

/* Threads come and go often: only the first and the last change the page. */
void mf_board_computing(int change)
{
    const int before = atomic_fetch_add(&board.computing, change); /* also without a board */
    mf_board_page *p;

    mf_board_act_running(change);
    if ((before > 0) == (before + change > 0))
        return;
    p = begin();
    if (!p)
        return;
    p->computing = atomic_load(&board.computing);
    end(p);
}

int64_t mf_board_call_begin(const char *what, int64_t step, int64_t bytes)
{
    mf_board_page *p = begin();

    if (!p)
        return 0;
    p->talking++;
    record(MF_EVENT_CALL, step, bytes, what);
    end(p);
    return mf_clock_ns();
}

void mf_board_call_end(const char *what, int64_t step, int64_t began)
{
    mf_board_page *p = began > 0 ? begin() : NULL;

    if (!p)
        return;
    p->talking--;
    record(MF_EVENT_CALLED, step, mf_clock_ns() - began, what);
    end(p);
}

void mf_board_said(const char *text)
{
    mf_board_note(MF_EVENT_SAID, -1, 0, text);
}

void mf_board_sent(const char *to, int64_t bytes)
{
    mf_board_page *p = begin();

    for (int i = 0; p && i < MF_BOARD_LINKS; i++) {
        mf_board_link *l = &p->links[i];

        if (l->to[0] && strncmp(l->to, to, sizeof l->to - 1) != 0)
            continue;
        mf_board_copy_text(l->to, sizeof l->to, to);
        l->bytes += bytes;
        break;
    }
    if (p)
        end(p);
}

int mf_board_wait_begin(const char *whom, const char *where, const char *what, int64_t step)
{
    mf_board_page *p = begin();
    int slot = -1;

    for (int i = 0; p && i < MF_BOARD_WAITS && slot < 0; i++) {
        mf_board_wait *w = &p->waits[i];

        if (w->since_ns != 0)
            continue;
        mf_board_copy_text(w->whom, sizeof w->whom, whom);
        mf_board_copy_text(w->where, sizeof w->where, where);
        mf_board_copy_text(w->what, sizeof w->what, what);
        w->step = step;
        w->since_ns = mf_clock_ns();
        slot = i;
    }
    if (p)
        end(p);
    return slot;
}

void mf_board_wait_end(int wait)
{
    mf_board_page *p = wait >= 0 ? begin() : NULL;
    char text[MF_BOARD_TASK + MF_BOARD_TEXT + 2];
    mf_board_wait *w;
    int64_t time;

    if (!p)
        return;
    w = &p->waits[wait];
    time = mf_clock_ns() - w->since_ns;
    if (time >= LONG_NS) {
        (void)snprintf(text, sizeof text, "%.*s: %.*s", MF_BOARD_TASK - 1, w->whom,
                       MF_BOARD_TEXT - 1, w->what);
        record(MF_EVENT_WAITED, w->step, time, text);
    }
    w->since_ns = 0;
    end(p);
}

void mf_board_note_long(mf_event kind, int64_t since, const char *text)
{
    const int64_t time = mf_clock_ns() - since;
    const size_t len = strlen(text), most = sizeof((mf_board_event *)0)->text - 1;

    if (time >= LONG_NS)
        mf_board_note(kind, -1, time, len > most ? text + len - most : text);
}

bool mf_board_used(int64_t ns[MF_USES])
{
    mf_board_page *p = begin();

    if (!p)
        return false;
    mf_board_page_used(p, mf_clock_ns(), ns);
    end(p);
    return true;
}

bool mf_board_copy(mf_buf *out)
{
    mf_board_page *p = begin();

    if (!p)
        return false;
    p->told_ns = mf_clock_ns();
    end(p);
    pthread_mutex_lock(&board.lock);
    mf_race_begin(); /* acts may change */
    if (is_open())
        mf_buf_bytes(out, &atomic_load(&board.area)->file, sizeof(mf_board_file));
    mf_race_end();
    pthread_mutex_unlock(&board.lock);
    return mf_buf_finish(out) == MF_OK && out->len > 0;
}

int mf_board_take_wish(void)
{
    mf_board_page *p = begin();
    int wish;

    if (!p)
        return 0;
    wish = atomic_exchange(&atomic_load(&board.area)->file.wish, 0);
    end(p);
    return wish > 0 && wish <= MF_BOARD_THREADS_MAX ? wish : 0;
}
