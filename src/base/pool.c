/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - the thread pool: a queue of tasks, parallel loops, helpers.
 *
 * Invariants:
 *  1. A parallel job is on its caller's stack. It is in `jobs` only while it may still have pieces;
 *     a helper increments job->helpers under the lock before touching it, and the caller returns
 *     only after it has unlinked the job and seen helpers drop to zero.
 *  2. A thread that finds neither job nor task joins the idle threads, under the lock. A thread
 * that adds work calls an idle thread, which no longer is one. So no work waits while a thread is
 * idle, and other idle threads are not disturbed.
 *  3. The caller of a job calls two threads, each of which calls two more if there are pieces left:
 *     a short loop wakes few of many threads. The thread that became idle last is called first.
 *  4. An idle thread polls for a short while before it sleeps, because waking it takes longer than
 *     many of the loops. It does not if the threads outnumber the cores, or if only the caller runs
 *     loops: then it would take the core that another thread needs. */
#include "base/pool.h"

#include "base/machine_limits.h"
#include "base/mem.h"
#include "base/mem_accounting.h"
#include "base/param.h"
#include "base/stop.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

MF_PARAM_INT(pool_spin_rounds, 4000, "polls for work before an idle thread sleeps");

enum { CALLS = 2 }; /* threads that a thread calls to a job */

typedef struct parallel_job {
    void (*fn)(void *ctx, int64_t piece);
    void *ctx;
    int64_t pieces;
    mf_mem_account *account; /* the account of the caller's thread */
    mf_stop stop; /* the stop of the caller's thread */
    atomic_llong next; /* first unclaimed piece */
    atomic_int helpers; /* other threads inside the job */
    int64_t called; /* threads called to it; guarded by lock */
    struct parallel_job *older; /* guarded by lock */
} parallel_job;

typedef struct pool_worker {
    struct mf_pool *pool;
    pthread_t id;
    pthread_cond_t wake;
    bool leaves; /* guarded by lock */
    bool sleeps; /* guarded by lock */
    atomic_bool called; /* there is work; set under the lock */
    struct pool_worker *next_idle; /* guarded by lock */
} pool_worker;

struct mf_pool {
    pthread_mutex_t lock;
    mf_task *first, *last; /* guarded by lock */
    parallel_job *jobs; /* newest first; guarded by lock */
    pool_worker *idle; /* the last one first; guarded by lock */
    bool stopping;
    atomic_int threads;
    int cores;
    pool_worker **workers; /* owned by the thread that owns the pool */
    int64_t started, cap;
};

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void run_pieces(parallel_job *job)
{
    for (;;) {
        const int64_t piece = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);

        if (piece >= job->pieces)
            return;
        if (mf_stopped()) {
            atomic_store(&job->next, job->pieces); /* no thread claims more pieces */
            return;
        }
        job->fn(job->ctx, piece);
    }
}

static parallel_job *find_job(mf_pool *pool)
{
    for (parallel_job *j = pool->jobs; j; j = j->older) {
        if (atomic_load_explicit(&j->next, memory_order_relaxed) < j->pieces)
            return j;
    }
    return NULL;
}

static mf_task *take_task(mf_pool *pool)
{
    mf_task *task = pool->first;

    if (task) {
        pool->first = task->next;
        if (!pool->first)
            pool->last = NULL;
    }
    return task;
}

/* False: no thread is idle. The caller holds the lock. */
static bool call_thread(mf_pool *pool)
{
    pool_worker *w = pool->idle;

    if (!w)
        return false;
    pool->idle = w->next_idle;
    atomic_store_explicit(&w->called, true, memory_order_release);
    if (w->sleeps)
        pthread_cond_signal(&w->wake);
    return true;
}

/* The caller holds the lock, and works on the job itself. */
static void call_helpers(mf_pool *pool, parallel_job *job)
{
    const int64_t left = job->pieces - atomic_load_explicit(&job->next, memory_order_relaxed) - 1;

    for (int i = 0; i < CALLS && i < left && job->called < job->pieces - 1; i++) {
        if (!call_thread(pool))
            return;
        job->called++;
    }
}

static void leave_idle(mf_pool *pool, const pool_worker *w)
{
    pool_worker **at = &pool->idle;

    while (*at && *at != w)
        at = &(*at)->next_idle;
    if (*at)
        *at = w->next_idle;
}

static int64_t polls(const mf_pool *pool)
{
    const int threads = mf_pool_threads(pool);

    return threads > 1 && threads <= pool->cores ? MF_PARAM(pool_spin_rounds) : 0;
}

/* The caller holds the lock before and after. */
static void wait_for_work(mf_pool *pool, pool_worker *w)
{
    int64_t rounds = polls(pool);

    atomic_store(&w->called, false);
    w->next_idle = pool->idle;
    pool->idle = w;
    if (rounds > 0) {
        pthread_mutex_unlock(&pool->lock);
        while (rounds-- > 0 && !atomic_load_explicit(&w->called, memory_order_acquire))
            pause_briefly();
        pthread_mutex_lock(&pool->lock);
    }
    w->sleeps = true;
    while (!atomic_load(&w->called) && !pool->stopping && !w->leaves)
        pthread_cond_wait(&w->wake, &pool->lock);
    w->sleeps = false;
    if (!atomic_load(&w->called))
        leave_idle(pool, w);
}

static void *pool_worker_main(void *arg)
{
    pool_worker *w = arg;
    mf_pool *pool = w->pool;

    pthread_mutex_lock(&pool->lock);
    while (!w->leaves) {
        parallel_job *job = find_job(pool);
        mf_task *task;

        if (job) {
            atomic_fetch_add(&job->helpers, 1);
            call_helpers(pool, job);
            pthread_mutex_unlock(&pool->lock);
            (void)mf_mem_account_enter(job->account);
            (void)mf_stop_enter(job->stop);
            run_pieces(job);
            (void)mf_stop_enter((mf_stop){ 0 });
            (void)mf_mem_account_enter(NULL);
            atomic_fetch_sub_explicit(&job->helpers, 1, memory_order_release);
            pthread_mutex_lock(&pool->lock);
        } else if ((task = take_task(pool)) != NULL) {
            pthread_mutex_unlock(&pool->lock);
            task->fn(task);
            pthread_mutex_lock(&pool->lock);
        } else if (pool->stopping) {
            break;
        } else {
            wait_for_work(pool, w);
        }
    }
    if (pool->first || find_job(pool))
        (void)call_thread(pool); /* another one, in place of this one */
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void worker_free(pool_worker *w)
{
    pthread_cond_destroy(&w->wake);
    mf_free(w);
}

static mf_status start_worker(mf_pool *pool)
{
    pool_worker *w = mf_calloc(1, sizeof *w);
    int error;

    if (!w || mf_grow(&pool->workers, &pool->cap, pool->started + 1, sizeof *pool->workers)) {
        mf_free(w);
        return MF_NOMEM("a thread pool");
    }
    w->pool = pool;
    pthread_cond_init(&w->wake, NULL);
    error = mf_thread_start(&w->id, pool_worker_main, w);
    if (error != 0) {
        worker_free(w);
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "cannot start thread %lld of the pool: %s; a limit of this host or user "
                       "on threads may be reached (ulimit -u, pids.max)",
                       (long long)pool->started + 1, strerror(error));
    }
    pool->workers[pool->started++] = w;
    return MF_OK;
}

/* End the newest threads until `left` are left; with stopping set they finish queued tasks first.
 */
static void end_workers(mf_pool *pool, int64_t left)
{
    pthread_mutex_lock(&pool->lock);
    for (int64_t i = left; i < pool->started; i++) {
        pool->workers[i]->leaves = !pool->stopping;
        pthread_cond_signal(&pool->workers[i]->wake);
    }
    pthread_mutex_unlock(&pool->lock);
    while (pool->started > left) {
        pool_worker *w = pool->workers[--pool->started];

        pthread_join(w->id, NULL);
        worker_free(w);
    }
}

mf_status mf_pool_resize(mf_pool *pool, int threads)
{
    const int wanted = threads > 0 ? threads : mf_default_threads(NULL);
    const int64_t started = wanted > 1 ? wanted - 1 : 1;
    mf_status st = MF_OK;

    if (pool->started > started)
        end_workers(pool, started);
    while (st == MF_OK && pool->started < started)
        st = start_worker(pool);
    atomic_store(&pool->threads, st == MF_OK ? wanted : (int)pool->started + 1);
    return st;
}

mf_status mf_pool_new(int threads, mf_pool **out)
{
    mf_pool *pool;
    mf_status st;

    *out = NULL;
    if (threads < 0 || threads > MF_POOL_THREADS)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "invalid number of threads %d: expected 0 (one for each core) to %d",
                       threads, MF_POOL_THREADS);
    mf_params_load();
    pool = mf_calloc(1, sizeof *pool);
    if (!pool)
        return MF_NOMEM("a thread pool");
    pthread_mutex_init(&pool->lock, NULL);
    pool->cores = mf_usable_cores();
    st = mf_pool_resize(pool, threads);
    if (st != MF_OK)
        mf_pool_free(pool);
    else
        *out = pool;
    return st;
}

void mf_pool_free(mf_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_mutex_unlock(&pool->lock);
    end_workers(pool, 0);
    mf_free(pool->workers);
    pthread_mutex_destroy(&pool->lock);
    mf_free(pool);
}

int mf_pool_threads(const mf_pool *pool)
{
    return pool ? atomic_load(&pool->threads) : 1;
}

void mf_pool_submit(mf_pool *pool, mf_task *task)
{
    pthread_mutex_lock(&pool->lock);
    task->next = NULL;
    if (pool->last)
        pool->last->next = task;
    else
        pool->first = task;
    pool->last = task;
    (void)call_thread(pool);
    pthread_mutex_unlock(&pool->lock);
}

static void job_add(mf_pool *pool, parallel_job *job)
{
    pthread_mutex_lock(&pool->lock);
    job->older = pool->jobs;
    pool->jobs = job;
    call_helpers(pool, job);
    pthread_mutex_unlock(&pool->lock);
}

static void job_remove(mf_pool *pool, parallel_job *job)
{
    pthread_mutex_lock(&pool->lock);
    for (parallel_job **at = &pool->jobs; *at; at = &(*at)->older) {
        if (*at == job) {
            *at = job->older;
            break;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    /* A helper runs one last piece: spinning without a yield would take the core that it needs. */
    for (int64_t spins = 0; atomic_load_explicit(&job->helpers, memory_order_acquire) > 0;
         spins++) {
        if (spins < MF_PARAM(pool_spin_rounds))
            pause_briefly();
        else
            sched_yield();
    }
}

static bool runs_alone(const mf_pool *pool, int64_t pieces)
{
    return !pool || mf_pool_threads(pool) == 1 || pieces <= 1;
}

static void pool_run_job(mf_pool *pool, parallel_job *job)
{
    job->account = mf_mem_account_here();
    job->stop = mf_stop_here();
    if (runs_alone(pool, job->pieces)) {
        run_pieces(job);
    } else {
        job_add(pool, job);
        run_pieces(job);
        job_remove(pool, job);
    }
}

mf_status mf_pool_parallel(mf_pool *pool, int64_t pieces, void (*fn)(void *ctx, int64_t piece),
                           void *ctx)
{
    pool_run_job(pool, &(parallel_job){ .fn = fn, .ctx = ctx, .pieces = pieces });
    return mf_stop_check();
}

void mf_pool_complete(mf_pool *pool, int64_t pieces, void (*fn)(void *ctx, int64_t piece),
                      void *ctx)
{
    const mf_stop before = mf_stop_enter((mf_stop){ 0 });

    pool_run_job(pool, &(parallel_job){ .fn = fn, .ctx = ctx, .pieces = pieces });
    (void)mf_stop_enter(before);
}
