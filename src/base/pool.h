/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - the one pool of threads.
 *
 * Two uses: mf_pool_submit() runs a task some time soon; mf_pool_parallel() runs numbered pieces of
 * one loop, the caller taking part. A caller always makes progress alone, so loops may nest and the
 * pool may be busy or have a single thread. Tasks must not wait for other tasks: what waits is
 * asynchronous and submits its continuation. */
#ifndef MF_BASE_POOL_H
#define MF_BASE_POOL_H

#include "base/status.h"

typedef struct mf_pool mf_pool;

/* Intrusive: lives in the caller's memory until fn has been called. */
typedef struct mf_task {
    void (*fn)(struct mf_task *task);
    struct mf_task *next; /* guarded by the pool's lock while queued */
} mf_task;

enum { MF_POOL_THREADS = 4096 }; /* at most */
/* `threads` counts the thread that calls mf_pool_parallel(): one less is started (but at least one,
 * because submitted tasks need somebody to run them). 0: mf_default_threads().
 * INVALID_ARGUMENT: below 0, or too many. */
MF_MUST mf_status mf_pool_new(int threads, mf_pool **out);
/* Finishes queued tasks first. Thread: not one of the pool's own. */
void mf_pool_free(mf_pool *pool);
int mf_pool_threads(const mf_pool *pool);
/* As if it had been made with so many. Loops and tasks that are under way go on. On failure it has
 * as many as could be started. Thread: one at a time, and not one of the pool's own. */
MF_MUST mf_status mf_pool_resize(mf_pool *pool, int threads);

void mf_pool_submit(mf_pool *pool, mf_task *task);

/* Call fn(ctx, piece) once for each piece in [0, pieces), in any order, by several threads; returns
 * when all are done. What the pieces are must depend on the work only, never on the threads: that
 * is what keeps results independent of their number. `pool` may be NULL: then all run here, in
 * order.
 * Fails: as mf_stop_check() of the caller's thread. Then pieces are missing, or have ended early
 * because a check within them said so (stop.h). */
MF_MUST mf_status mf_pool_parallel(mf_pool *pool, int64_t pieces,
                                   void (*fn)(void *ctx, int64_t piece), void *ctx);
/* The same, and nothing stops it. */
void mf_pool_complete(mf_pool *pool, int64_t pieces, void (*fn)(void *ctx, int64_t piece),
                      void *ctx);

#endif
