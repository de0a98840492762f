/* SPDX-License-Identifier: Apache-2.0 */
/* loading.c - a background thread that reads a file into a tensor while its first rows are used. */
#include "data/loading.h"

#include "base/mem.h"
#include "base/thread.h"

#include <pthread.h>

enum { PIECE = 1 << 19 }; /* bytes read between notifications of waiters */

struct mf_loading {
    mf_loading_job job;
    char *to;
    int64_t bytes;
    atomic_llong ready; /* bytes; stored by the thread under the lock */
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t more; /* signals a change of ready or failed */
    bool failed; /* guarded by lock */
    mf_error error; /* guarded by lock */
    pthread_t thread;
    bool started;
};

static void publish(mf_loading *l, int64_t ready, mf_status st)
{
    pthread_mutex_lock(&l->lock);
    atomic_store_explicit(&l->ready, ready, memory_order_release);
    if (st != MF_OK) {
        mf_error_save(st, &l->error);
        l->failed = true;
    }
    pthread_cond_broadcast(&l->more);
    pthread_mutex_unlock(&l->lock);
}

static void *loading_load(void *arg)
{
    mf_loading *l = arg;
    mf_status st = MF_OK;
    int64_t have = 0;

    while (have < l->bytes && st == MF_OK && !atomic_load(&l->stop)) {
        const int64_t some = l->bytes - have < PIECE ? l->bytes - have : PIECE;

        st = l->job.read(l->job.ctx, l->to + have, (size_t)some);
        if (st == MF_OK && have + some == l->bytes)
            st = l->job.end(l->job.ctx); /* the last piece is published only if the end is valid */
        if (st == MF_OK)
            have += some;
        publish(l, have, st);
    }
    if (have == l->bytes && l->job.after && !atomic_load(&l->stop))
        l->job.after(l->job.ctx);
    return NULL;
}

mf_status mf_loading_start(const mf_loading_job *job, void *to, size_t bytes, mf_loading **out)
{
    mf_loading *l = mf_calloc(1, sizeof *l);

    *out = NULL;
    if (!l) {
        job->release(job->ctx);
        return MF_NOMEM("loading a file");
    }
    l->job = *job;
    l->to = to;
    l->bytes = (int64_t)bytes;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->more, NULL);
    l->started = mf_thread_start(&l->thread, loading_load, l) == 0;
    if (!l->started)
        (void)loading_load(l); /* no thread: load synchronously */
    *out = l;
    return MF_OK;
}

void mf_loading_free(mf_loading *l)
{
    if (!l)
        return;
    atomic_store(&l->stop, true);
    if (l->started)
        pthread_join(l->thread, NULL);
    l->job.release(l->job.ctx);
    pthread_cond_destroy(&l->more);
    pthread_mutex_destroy(&l->lock);
    mf_free(l);
}

mf_status mf_loading_wait(mf_loading *l, int64_t n)
{
    mf_status st = MF_OK;

    if (atomic_load_explicit(&l->ready, memory_order_acquire) >= n)
        return MF_OK;
    pthread_mutex_lock(&l->lock);
    while (atomic_load_explicit(&l->ready, memory_order_relaxed) < n && !l->failed)
        pthread_cond_wait(&l->more, &l->lock);
    if (atomic_load_explicit(&l->ready, memory_order_relaxed) < n)
        st = mf_error_restore(&l->error);
    pthread_mutex_unlock(&l->lock);
    return st;
}
