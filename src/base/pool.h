/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - the thread pool.
 *
 * Two uses: mf_pool_submit() queues a task; mf_pool_parallel() runs the numbered pieces of one
 * loop, and the caller works on it, too. A caller always makes progress without help, so loops may
 * nest and the pool may be busy or have a single thread. Tasks must not wait for other tasks:
 * waiting code is asynchronous and submits its continuation. */
#ifndef MF_BASE_POOL_H
#define MF_BASE_POOL_H

#include "base/status.h"

typedef struct mf_pool mf_pool;

/* Intrusive: stays in the caller's memory until fn has been called. */
typedef struct mf_task {
    void (*fn)(struct mf_task *task);
    struct mf_task *next; /* guarded by the pool's lock while queued */
} mf_task;

enum { MF_POOL_THREADS = 4096 }; /* maximum */
/* `threads` counts the thread that calls mf_pool_parallel(): one thread less is started, but at
 * least one, to run submitted tasks. 0: mf_default_threads().
 * Fails: INVALID_ARGUMENT (negative, or too many). */
MF_MUST mf_status mf_pool_new(int threads, mf_pool **out);
/* Finishes queued tasks first. Thread: not one of this pool. */
void mf_pool_free(mf_pool *pool);
int mf_pool_threads(const mf_pool *pool);
/* Change the number of threads, as if the pool had been created with it. Loops and tasks in
 * progress continue. On failure the pool has as many threads as could be started. Thread: one at a
 * time, and not one of this pool. */
MF_MUST mf_status mf_pool_resize(mf_pool *pool, int threads);

void mf_pool_submit(mf_pool *pool, mf_task *task);

/* Call fn(ctx, piece) once for each piece in [0, pieces), in any order, from several threads;
 * returns when all calls have returned. The division into pieces must depend on the work only,
 * never on the threads: that makes results independent of the number of threads. `pool` may be
 * NULL: then all pieces run in this thread, in order.
 * Fails: as mf_stop_check() of the caller's thread. Then some pieces have not run, or have ended
 * early after such a check of their own (stop.h). */
MF_MUST mf_status mf_pool_parallel(mf_pool *pool, int64_t pieces,
                                   void (*fn)(void *ctx, int64_t piece), void *ctx);
/* The same, but never stopped. */
void mf_pool_complete(mf_pool *pool, int64_t pieces, void (*fn)(void *ctx, int64_t piece),
                      void *ctx);

#endif
