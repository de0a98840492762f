/* SPDX-License-Identifier: Apache-2.0 */
/* status_page.c - the board of this process. */
#include "observe/status_page.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/race.h"
#include "observe/status_page_layout.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Not passed around, as standard error is not: it belongs to the process. */
static struct {
    pthread_mutex_t lock; /* all below, and all writing */
    _Atomic(mf_status_page_area *) area; /* NULL: none. Looked at without the lock first */
    int opened; /* how often */
    char *path; /* NULL: nobody else sees it */
    mf_use use; /* of now: an index, which memory that others can write to is not asked for */
} board = { .lock = PTHREAD_MUTEX_INITIALIZER };

static inline bool status_page_is_open(void)
{
    return atomic_load_explicit(&board.area, memory_order_relaxed) != NULL;
}

/* ---- changing the page ---- */

static bool status_page_waits(const mf_status_page *p)
{
    for (int i = 0; i < MF_STATUS_PAGE_WAITS; i++) {
        if (p->waits[i].since_ns != 0)
            return true;
    }
    return false;
}

static mf_use use_of(const mf_status_page *p)
{
    if (p->computing > 0)
        return MF_USE_COMPUTE;
    if (p->phase == MF_PHASE_INPUT)
        return MF_USE_INPUT;
    if (p->talking > 0 || status_page_waits(p))
        return MF_USE_COMMUNICATION;
    if (p->phase == MF_PHASE_SERVE)
        return MF_USE_COMMUNICATION;
    return p->phase == MF_PHASE_STEP ? MF_USE_COMPUTE : MF_USE_IDLE;
}

mf_status_page *mf_status_page_change(void)
{
    mf_status_page_area *a;

    if (!status_page_is_open())
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

void mf_status_page_changed(mf_status_page *p)
{
    const int64_t now = mf_clock_ns();

    p->used_ns[board.use] += now - p->use_since_ns;
    p->use_since_ns = p->changed_ns = now;
    board.use = use_of(p);
    p->use = (int32_t)board.use;
    atomic_fetch_add(&atomic_load(&board.area)->file.seq, 1);
    pthread_mutex_unlock(&board.lock);
}

/* ---- opening and closing ---- */

static mf_status open_board(const char *job, const char *task, int tasks)
{
    mf_status_page_area *a = NULL;
    mf_status st = mf_status_page_file_make(job, task, tasks, &a, &board.path);

    if (st == MF_ALREADY_EXISTS)
        return st;
    if (st != MF_OK) {
        MF_WARN("`meshflow job status` will not see this process: %s", mf_error_message());
        MF_TRY(mf_status_page_file_unseen(job, task, tasks, &a));
    }
    board.use = MF_USE_IDLE;
    atomic_store(&board.area, a);
    return MF_OK;
}

mf_status mf_status_page_open(const char *job, const char *task, int tasks)
{
    mf_status st = MF_OK;

    MF_TRY(mf_status_page_check_name(job));
    pthread_mutex_lock(&board.lock);
    if (board.opened == 0)
        st = open_board(job, task, tasks);
    board.opened += st == MF_OK;
    pthread_mutex_unlock(&board.lock);
    return st;
}

mf_status mf_status_page_rename(const char *job)
{
    const mf_status_page_area *a = atomic_load(&board.area);
    char *path = NULL;
    mf_status_page *p;

    MF_TRY(mf_status_page_check_name(job));
    if (!a || strcmp(a->file.page.job, job) == 0)
        return MF_OK;
    if (board.path)
        MF_TRY(mf_status_page_file_link(board.path, job, a->file.page.task, &path));
    p = mf_status_page_change();
    if (!p)
        return MF_OK;
    mf_status_page_copy_text(p->job, sizeof p->job, job);
    mf_free(board.path);
    board.path = path;
    mf_status_page_changed(p);
    return MF_OK;
}

const char *mf_status_page_job(void)
{
    const mf_status_page_area *a = atomic_load(&board.area);

    return a ? a->file.page.job : "";
}

bool mf_status_page_is_seen(const char **task)
{
    const mf_status_page_area *a = atomic_load(&board.area);

    *task = a ? a->file.page.task : "";
    return a && board.path;
}

void mf_status_page_close(void)
{
    pthread_mutex_lock(&board.lock);
    if (status_page_is_open() && --board.opened == 0) {
        atomic_store(&board.area, NULL);
        mf_status_page_drop_kept();
        if (board.path)
            (void)unlink(board.path);
        mf_free(board.path);
        board.path = NULL;
        mf_status_page_area_leave();
    }
    pthread_mutex_unlock(&board.lock);
}

/* ---- for this process, and for others ---- */

bool mf_status_page_used(int64_t ns[MF_USES])
{
    mf_status_page *p = mf_status_page_change();

    if (!p)
        return false;
    mf_status_page_page_used(p, mf_clock_ns(), ns);
    mf_status_page_changed(p);
    return true;
}

bool mf_status_page_copy(mf_buf *out)
{
    mf_status_page *p = mf_status_page_change();

    if (!p)
        return false;
    p->told_ns = mf_clock_ns();
    mf_status_page_changed(p);
    pthread_mutex_lock(&board.lock);
    mf_race_begin(); /* acts may change */
    if (status_page_is_open())
        mf_buf_bytes(out, &atomic_load(&board.area)->file, sizeof(mf_status_page_file));
    mf_race_end();
    pthread_mutex_unlock(&board.lock);
    return mf_buf_finish(out) == MF_OK && out->len > 0;
}

bool mf_status_page_take_layout(mf_status_page_layout *out)
{
    mf_status_page *p = mf_status_page_change();
    int made = MF_VARIABLE_REQUEST_MADE;
    mf_status_page_area *a;
    bool there;

    if (!p)
        return false;
    a = atomic_load(&board.area);
    /* Who writes meanwhile says so again. */
    there = atomic_compare_exchange_strong(&a->layout_wish, &made, MF_VARIABLE_REQUEST_TAKEN);
    if (there) {
        *out = a->layout;
        mf_status_page_mend_text(out->mesh, sizeof out->mesh);
        mf_status_page_mend_text(out->layout, sizeof out->layout);
    }
    mf_status_page_changed(p);
    return there;
}

void mf_status_page_answer_layout(mf_variable_request state, const char *words)
{
    mf_status_page *p = mf_status_page_change();
    int taken = MF_VARIABLE_REQUEST_TAKEN;
    mf_status_page_area *a;

    if (!p)
        return;
    a = atomic_load(&board.area);
    mf_status_page_copy_text(a->layout_answer, sizeof a->layout_answer, words);
    (void)atomic_compare_exchange_strong(&a->layout_wish, &taken, state);
    mf_status_page_changed(p);
}

int mf_status_page_take_wish(void)
{
    mf_status_page *p = mf_status_page_change();
    int wish;

    if (!p)
        return 0;
    wish = atomic_exchange(&atomic_load(&board.area)->file.wish, 0);
    mf_status_page_changed(p);
    return wish > 0 && wish <= MF_STATUS_PAGE_THREADS_MAX ? wish : 0;
}

bool mf_status_page_take_question(mf_status_page_question *out)
{
    mf_status_page_area *a = atomic_load(&board.area);
    mf_status_page *p;

    if (!a || atomic_load(&a->asker) == 0) /* after every step, seldom there */
        return false;
    p = mf_status_page_change();
    if (!p)
        return false;
    a = atomic_load(&board.area);
    out->asker = atomic_exchange(&a->asker, 0);
    memcpy(out->name, a->question, sizeof out->name);
    mf_status_page_mend_text(out->name, sizeof out->name);
    mf_status_page_changed(p);
    return out->asker > 0;
}

mf_status mf_status_page_answer_path(const char *path, int64_t asker, mf_buf *out)
{
    const char *name;

    path = path ? path : board.path;
    if (!path)
        return MF_FAIL(MF_FAILED_PRECONDITION, "nobody sees this task's board");
    name = strrchr(path, '/');
    name = name ? name + 1 : path;
    mf_buf_printf(out, "%.*s.%s.%lld", (int)(name - path), path, name, (long long)asker);
    return mf_buf_finish(out);
}
