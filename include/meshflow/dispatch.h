/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.h - master mode: one task hands out calls, the others run them and give results back.
 *
 *     mf_dispatch *d;
 *     mf_dispatch_open(NULL, &d);
 *     if (!mf_dispatch_is_master(d))
 *         st = mf_dispatch_serve(d);
 *     else {
 *         mf_closure_new(d, &(mf_closure_spec){ .graph = g, .feeds = feeds, ... }, &square);
 *         for (int i = 0; i < n; i++)
 *             mf_dispatch_schedule(d, square, inputs[i], &futures[i]);
 *         mf_future_wait(futures[0], -1, results);
 *     }
 *     mf_dispatch_close(d);
 *
 * What ClusterCoordinator does in TensorFlow. Which tasks there are, and which one this is, is
 * found as strategies find it (strategy.h, docs/guides/roles-and-launching.md). The master is the
 * task of job "master"; where there is none, the chief; where there is none, worker 0. All other
 * masters, chiefs and workers serve. A process that is alone is its own worker.
 *
 * A *closure* is a graph with names of what is fed, fetched and run. A call of it goes to the
 * worker that has room first, so a fast worker gets more of them; results come in any order.
 * Variables and other named state are each worker's own: all closures that it runs, whatever their
 * graphs, find them by their names.
 *
 * A call whose worker is lost is run again by another one. So a closure must be safe to run twice,
 * and a result may come from a worker other than the first that began it; it is given once. */
#ifndef MESHFLOW_DISPATCH_H
#define MESHFLOW_DISPATCH_H

#include <meshflow/graph.h>
#include <meshflow/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_dispatch mf_dispatch;
typedef struct mf_closure mf_closure;
typedef struct mf_future mf_future;

typedef struct mf_dispatch_options {
    /* Where the tasks are and how they talk; NULL: the environment says. Its timeout_ms is how long
     * a task may be silent before it counts as lost, and how long all have to come. Its codec is
     * not used. */
    const mf_strategy_options *cluster;
    /* Of a master: the calls that may be scheduled and not finished; 0: 1024. Beyond it
     * mf_dispatch_schedule() waits, or, with `refuse`, fails. */
    int64_t queue;
    bool refuse;
    /* Of a worker: */
    int slots; /* the calls it runs at once; 0: as many as it has threads */
    int threads; /* 0: as many as there are cores */
    const char *const *allow_dirs; /* where ops may read and write files; NULL: nowhere */
    int n_allow_dirs;
} mf_dispatch_options;

/* Returns when all tasks have come. options may be NULL. Fails: INVALID_ARGUMENT (what is wrong
 * with the cluster), DEADLINE_EXCEEDED (naming who did not come). */
MF_API MF_MUST mf_status mf_dispatch_open(const mf_dispatch_options *options, mf_dispatch **out);
/* A master tells the workers that it is over; calls that are not finished fail with CANCELLED.
 * After all its futures and closures are freed. */
MF_API void mf_dispatch_close(mf_dispatch *dispatch);

/* This task hands out the calls; the others serve. */
MF_API bool mf_dispatch_is_master(const mf_dispatch *dispatch);
/* Of those that serve: run calls until the master says that it is over. A second master waits for
 * that, too, and runs nothing.
 * Fails: UNAVAILABLE, ABORTED, DEADLINE_EXCEEDED naming the master that is gone, has given up or
 * has been silent for too long; DATA_LOSS (what it said makes no sense). */
MF_API MF_MUST mf_status mf_dispatch_serve(mf_dispatch *dispatch);

/* ---- of the master. Thread: any, for all that follows ---- */

typedef struct mf_closure_spec {
    const mf_graph *graph; /* as it is now: what is added later is not seen */
    const char *const *feeds; /* "node:port", given with each call */
    int n_feeds;
    const char *const *fetches; /* "node:port", the results */
    int n_fetches;
    const char *const *targets; /* "node", run and not fetched */
    int n_targets;
} mf_closure_spec;

/* The graph is written out once, and sent to each worker once, before its first call.
 * Owns: copies what the spec names; mf_closure_free(). */
MF_API MF_MUST mf_status mf_closure_new(mf_dispatch *dispatch, const mf_closure_spec *spec,
                                        mf_closure **out);
/* Calls that are scheduled still run. */
MF_API void mf_closure_free(mf_closure *closure);

/* Have it run by any worker. Returns at once, unless the queue is full. feeds: as many as the
 * closure has; their storage is shared, not copied, and must not be written to any more. out may be
 * NULL: only mf_dispatch_join() will tell of a failure. Owns: mf_future_free().
 * Fails: UNAVAILABLE (no worker is left, with the reason), RESOURCE_EXHAUSTED (`refuse`). */
MF_API MF_MUST mf_status mf_dispatch_schedule(mf_dispatch *dispatch, const mf_closure *closure,
                                              const mf_tensor *const *feeds, mf_future **out);
/* By this worker and no other: should it be lost, the call fails. */
MF_API MF_MUST mf_status mf_dispatch_schedule_on(mf_dispatch *dispatch, int worker,
                                                 const mf_closure *closure,
                                                 const mf_tensor *const *feeds, mf_future **out);
/* By every worker once, and wait for all: variables are initialised so. Fails with the first
 * failure of a worker that is still here; workers that are lost meanwhile do not count. */
MF_API MF_MUST mf_status mf_dispatch_run_on_all(mf_dispatch *dispatch, const mf_closure *closure,
                                                const mf_tensor *const *feeds);
/* Wait until nothing is scheduled any more. Returns the first failure of a call since the last
 * join, but for those of mf_dispatch_run_on_all(), which has told. timeout_ms < 0: for ever, which
 * ends when no worker is left. Fails: DEADLINE_EXCEEDED. */
MF_API MF_MUST mf_status mf_dispatch_join(mf_dispatch *dispatch, int64_t timeout_ms);
/* All calls that are not finished fail with CANCELLED; what workers still compute is dropped. */
MF_API void mf_dispatch_cancel(mf_dispatch *dispatch);

/* Wait for a result. results: as many as the closure fetches, each NULL or a handle that is used
 * again, as for mf_session_run(). May be asked more than once. timeout_ms < 0: for ever.
 * Fails: with the closure's failure, which names the worker and the node; UNAVAILABLE naming
 * workers that were lost; DEADLINE_EXCEEDED (not finished yet: ask again). */
MF_API MF_MUST mf_status mf_future_wait(mf_future *future, int64_t timeout_ms, mf_tensor **results);
MF_API bool mf_future_is_done(mf_future *future);
/* The call runs nevertheless. */
MF_API void mf_future_free(mf_future *future);

/* ---- what was done ---- */

typedef struct mf_worker_done {
    const char *name; /* "worker 1"; lives as long as the dispatch */
    bool lost; /* it is not waited for any more */
    int slots; /* calls it takes at once */
    int64_t running; /* calls that it has now */
    int64_t calls, failed; /* calls it has answered, and those among them that failed */
    int64_t moved; /* calls that it was lost with, and others were given */
    double seconds; /* spent computing, as it says; more than a clock shows where calls overlap */
    int64_t bytes_sent, bytes_received; /* by the master to it, and from it: graphs and tensors */
} mf_worker_done;

MF_API int mf_dispatch_workers(const mf_dispatch *dispatch);
/* worker: 0 to mf_dispatch_workers() - 1. */
MF_API void mf_dispatch_done(mf_dispatch *dispatch, int worker, mf_worker_done *out);

#ifdef __cplusplus
}
#endif
#endif
