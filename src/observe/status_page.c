/* SPDX-License-Identifier: Apache-2.0 */
/* status_page.c - the status page of this process. */
#include "observe/status_page.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/race.h"
#include "observe/status_page_layout.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Global because it belongs to the process, like standard error. */
static struct {
    pthread_mutex_t lock; /* guards all fields below, and all writes */
    _Atomic(mf_status_page_area *) area; /* NULL: none. First read without the lock */
    int opened; /* number of opens */
    char *path; /* NULL: not visible to other processes */
    mf_use use; /* the current use: an array index, so it is not read from shared memory */
} own_page = { .lock = PTHREAD_MUTEX_INITIALIZER };

static inline bool status_page_is_open(void)
{
    return atomic_load_explicit(&own_page.area, memory_order_relaxed) != NULL;
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
    pthread_mutex_lock(&own_page.lock);
    a = atomic_load(&own_page.area);
    if (!a) {
        pthread_mutex_unlock(&own_page.lock);
        return NULL;
    }
    atomic_fetch_add(&a->file.seq, 1);
    return &a->file.page;
}

void mf_status_page_changed(mf_status_page *p)
{
    const int64_t now = mf_clock_ns();

    p->used_ns[own_page.use] += now - p->use_since_ns;
    p->use_since_ns = p->changed_ns = now;
    own_page.use = use_of(p);
    p->use = (int32_t)own_page.use;
    atomic_fetch_add(&atomic_load(&own_page.area)->file.seq, 1);
    pthread_mutex_unlock(&own_page.lock);
}

/* ---- opening and closing ---- */

static mf_status open_page(const char *job, const char *task, int tasks)
{
    mf_status_page_area *a = NULL;
    mf_status st = mf_status_page_file_make(job, task, tasks, &a, &own_page.path);

    if (st == MF_ALREADY_EXISTS)
        return st;
    if (st != MF_OK) {
        MF_WARN("`meshflow job status` does not show this process: %s", mf_error_message());
        MF_TRY(mf_status_page_file_unseen(job, task, tasks, &a));
    }
    own_page.use = MF_USE_IDLE;
    atomic_store(&own_page.area, a);
    return MF_OK;
}

mf_status mf_status_page_open(const char *job, const char *task, int tasks)
{
    mf_status st = MF_OK;

    MF_TRY(mf_status_page_check_name(job));
    pthread_mutex_lock(&own_page.lock);
    if (own_page.opened == 0)
        st = open_page(job, task, tasks);
    own_page.opened += st == MF_OK;
    pthread_mutex_unlock(&own_page.lock);
    return st;
}

mf_status mf_status_page_rename(const char *job)
{
    const mf_status_page_area *a = atomic_load(&own_page.area);
    char *path = NULL;
    mf_status_page *p;

    MF_TRY(mf_status_page_check_name(job));
    if (!a || strcmp(a->file.page.job, job) == 0)
        return MF_OK;
    if (own_page.path)
        MF_TRY(mf_status_page_file_link(own_page.path, job, a->file.page.task, &path));
    p = mf_status_page_change();
    if (!p)
        return MF_OK;
    mf_status_page_copy_text(p->job, sizeof p->job, job);
    mf_free(own_page.path);
    own_page.path = path;
    mf_status_page_changed(p);
    return MF_OK;
}

const char *mf_status_page_job(void)
{
    const mf_status_page_area *a = atomic_load(&own_page.area);

    return a ? a->file.page.job : "";
}

bool mf_status_page_is_seen(const char **task)
{
    const mf_status_page_area *a = atomic_load(&own_page.area);

    *task = a ? a->file.page.task : "";
    return a && own_page.path;
}

void mf_status_page_close(void)
{
    pthread_mutex_lock(&own_page.lock);
    if (status_page_is_open() && --own_page.opened == 0) {
        atomic_store(&own_page.area, NULL);
        mf_status_page_drop_kept();
        if (own_page.path)
            (void)unlink(own_page.path);
        mf_free(own_page.path);
        own_page.path = NULL;
        mf_status_page_area_leave();
    }
    pthread_mutex_unlock(&own_page.lock);
}

/* ---- for this process and for others ---- */

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
    p->reported_ns = mf_clock_ns();
    mf_status_page_changed(p);
    pthread_mutex_lock(&own_page.lock);
    mf_race_begin(); /* activities change concurrently */
    if (status_page_is_open())
        mf_buf_bytes(out, &atomic_load(&own_page.area)->file, sizeof(mf_status_page_file));
    mf_race_end();
    pthread_mutex_unlock(&own_page.lock);
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
    a = atomic_load(&own_page.area);
    /* Fails if another process writes a new request meanwhile; that request then stays. */
    there = atomic_compare_exchange_strong(&a->layout_request, &made, MF_VARIABLE_REQUEST_TAKEN);
    if (there) {
        *out = a->layout;
        mf_status_page_sanitize_text(out->mesh, sizeof out->mesh);
        mf_status_page_sanitize_text(out->layout, sizeof out->layout);
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
    a = atomic_load(&own_page.area);
    mf_status_page_copy_text(a->layout_answer, sizeof a->layout_answer, words);
    (void)atomic_compare_exchange_strong(&a->layout_request, &taken, state);
    mf_status_page_changed(p);
}

int mf_status_page_take_thread_request(void)
{
    mf_status_page *p = mf_status_page_change();
    int wish;

    if (!p)
        return 0;
    wish = atomic_exchange(&atomic_load(&own_page.area)->file.wish, 0);
    mf_status_page_changed(p);
    return wish > 0 && wish <= MF_STATUS_PAGE_THREADS_MAX ? wish : 0;
}

bool mf_status_page_take_question(mf_status_page_question *out)
{
    mf_status_page_area *a = atomic_load(&own_page.area);
    mf_status_page *p;

    if (!a || atomic_load(&a->requester) == 0) /* called after every step; rarely set */
        return false;
    p = mf_status_page_change();
    if (!p)
        return false;
    a = atomic_load(&own_page.area);
    out->requester = atomic_exchange(&a->requester, 0);
    memcpy(out->name, a->question, sizeof out->name);
    mf_status_page_sanitize_text(out->name, sizeof out->name);
    mf_status_page_changed(p);
    return out->requester > 0;
}

mf_status mf_status_page_answer_path(const char *path, int64_t requester, mf_buf *out)
{
    const char *name;

    path = path ? path : own_page.path;
    if (!path)
        return MF_FAIL(MF_FAILED_PRECONDITION, "the status page of this task is not visible to "
                                               "other processes");
    name = strrchr(path, '/');
    name = name ? name + 1 : path;
    mf_buf_printf(out, "%.*s.%s.%lld", (int)(name - path), path, name, (long long)requester);
    return mf_buf_finish(out);
}
