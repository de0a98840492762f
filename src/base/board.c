/* SPDX-License-Identifier: Apache-2.0 */
/* board.c - the board of this process. */
#include "base/board.h"

#include "base/board_file.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Not passed around, as standard error is not: it belongs to the process. */
static struct {
    pthread_mutex_t lock; /* all below, and all writing */
    _Atomic(mf_board_file *) file; /* NULL: none. Looked at without the lock first */
    int opened; /* how often */
    char *path; /* NULL: nobody else sees it */
    mf_use use; /* of now: an index, which memory that others can write to is not asked for */
    atomic_int computing;
} board = { .lock = PTHREAD_MUTEX_INITIALIZER };

static inline bool is_open(void)
{
    return atomic_load_explicit(&board.file, memory_order_relaxed) != NULL;
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
    mf_board_file *f;

    if (!is_open())
        return NULL;
    pthread_mutex_lock(&board.lock);
    f = atomic_load(&board.file);
    if (!f) {
        pthread_mutex_unlock(&board.lock);
        return NULL;
    }
    atomic_fetch_add(&f->seq, 1);
    return &f->page;
}

static void end(mf_board_page *p)
{
    const int64_t now = mf_clock_ns();

    p->used_ns[board.use] += now - p->use_since_ns;
    p->use_since_ns = p->changed_ns = now;
    board.use = use_of(p);
    p->use = (int32_t)board.use;
    atomic_fetch_add(&atomic_load(&board.file)->seq, 1);
    pthread_mutex_unlock(&board.lock);
}

static void copy(char *to, size_t size, const char *text)
{
    (void)snprintf(to, size, "%s", text ? text : "");
}

/* ---- opening and closing ---- */

static mf_status open_board(const char *job, const char *task, int tasks)
{
    mf_board_file *f = NULL;
    mf_status st = mf_board_file_make(job, task, tasks, &f, &board.path);

    if (st == MF_ALREADY_EXISTS)
        return st;
    if (st != MF_OK) {
        MF_WARN("`meshflow status` will not see this process: %s", mf_error_message());
        MF_TRY(mf_board_file_unseen(job, task, tasks, &f));
    }
    board.use = MF_USE_IDLE;
    atomic_store(&board.file, f);
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
    mf_board_file *f = atomic_load(&board.file);
    char *path = NULL;
    mf_board_page *p;

    MF_TRY(mf_board_check_name(job));
    if (!f || strcmp(f->page.job, job) == 0)
        return MF_OK;
    if (board.path)
        MF_TRY(mf_board_file_link(board.path, job, f->page.task, &path));
    p = begin();
    if (!p)
        return MF_OK;
    copy(p->job, sizeof p->job, job);
    mf_free(board.path);
    board.path = path;
    end(p);
    return MF_OK;
}

const char *mf_board_job(void)
{
    const mf_board_file *f = atomic_load(&board.file);

    return f ? f->page.job : "";
}

void mf_board_close(void)
{
    mf_board_file *f;

    pthread_mutex_lock(&board.lock);
    f = atomic_load(&board.file);
    if (f && --board.opened == 0) {
        atomic_store(&board.file, NULL);
        mf_board_drop_kept();
        if (board.path)
            (void)unlink(board.path);
        mf_free(board.path);
        board.path = NULL;
        (void)munmap(f, sizeof *f);
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

    if ((before > 0) == (before + change > 0))
        return;
    p = begin();
    if (!p)
        return;
    p->computing = atomic_load(&board.computing);
    end(p);
}

void mf_board_talking(int change)
{
    mf_board_page *p = begin();

    if (!p)
        return;
    p->talking += change;
    end(p);
}

void mf_board_sent(const char *to, int64_t bytes)
{
    mf_board_page *p = begin();

    for (int i = 0; p && i < MF_BOARD_LINKS; i++) {
        mf_board_link *l = &p->links[i];

        if (l->to[0] && strncmp(l->to, to, sizeof l->to - 1) != 0)
            continue;
        copy(l->to, sizeof l->to, to);
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
        copy(w->whom, sizeof w->whom, whom);
        copy(w->where, sizeof w->where, where);
        copy(w->what, sizeof w->what, what);
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

    if (!p)
        return;
    p->waits[wait].since_ns = 0;
    end(p);
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
    if (is_open())
        mf_buf_bytes(out, atomic_load(&board.file), sizeof(mf_board_file));
    pthread_mutex_unlock(&board.lock);
    return mf_buf_finish(out) == MF_OK && out->len > 0;
}

int mf_board_take_wish(void)
{
    mf_board_page *p = begin();
    int wish;

    if (!p)
        return 0;
    wish = atomic_exchange(&atomic_load(&board.file)->wish, 0);
    end(p);
    return wish > 0 && wish <= MF_BOARD_THREADS_MAX ? wish : 0;
}
