/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.h - master mode: one task schedules calls, the other tasks run them and return results.
 * The C counterpart of TensorFlow's ClusterCoordinator.
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
 * The tasks, and the role of this process among them, are resolved as for strategies (strategy.h,
 * docs/guides/roles-and-launching.md). The master is the task of job "master"; without one, the
 * chief; without a chief, worker 0. All other masters, chiefs and workers serve. A process without
 * other tasks is its own worker.
 *
 * A *closure* is a graph with the names of its feeds, fetches and targets. A call goes to the first
 * worker with a free slot, so a faster worker runs more calls; results arrive in any order. Each
 * worker has its own variables and other named state; all closures that run on a worker share them
 * by name, whatever their graphs.
 *
 * If a worker is lost, another worker runs its calls again. A closure must therefore be safe to run
 * twice, and a result may come from a worker other than the first one. Each result is delivered
 * once. */
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
    /* The cluster and its transport; NULL: from the environment. timeout_ms is both the time that a
     * task may be silent before it counts as lost and the time that all tasks have to connect. The
     * codec is ignored. */
    const mf_strategy_options *cluster;
    /* Master: the maximum number of unfinished calls; default: 1024. Beyond it
     * mf_dispatch_schedule() blocks, or fails if `refuse` is set. */
    int64_t queue;
    bool refuse;
    /* Worker: */
    int slots; /* calls to run at once; default: the number of threads */
    int threads; /* default: the number of cores */
    const char *const *allow_dirs; /* where ops may read and write files; NULL: nowhere */
    int n_allow_dirs;
} mf_dispatch_options;

/* Returns when all tasks have connected. options may be NULL. Fails: INVALID_ARGUMENT (an error in
 * the cluster description), DEADLINE_EXCEEDED (naming the tasks that did not connect). */
MF_API MF_MUST mf_status mf_dispatch_open(const mf_dispatch_options *options, mf_dispatch **out);
/* On the master: ends the workers; unfinished calls fail with CANCELLED. Call it after freeing all
 * futures and closures. */
MF_API void mf_dispatch_close(mf_dispatch *dispatch);

/* True: this task schedules calls. False: it serves. */
MF_API bool mf_dispatch_is_master(const mf_dispatch *dispatch);
/* For a task that serves: run calls until the master ends the work. A second master waits for the
 * same end and runs no calls.
 * Fails: UNAVAILABLE, ABORTED, DEADLINE_EXCEEDED naming the master that is lost, has aborted or has
 * been silent for too long; DATA_LOSS (a malformed message). */
MF_API MF_MUST mf_status mf_dispatch_serve(mf_dispatch *dispatch);

/* ---- for the master. Thread: any, for all functions below ---- */

typedef struct mf_closure_spec {
    const mf_graph *graph; /* copied: later additions have no effect */
    const char *const *feeds; /* "node:port"; their values are given with each call */
    int n_feeds;
    const char *const *fetches; /* "node:port", the results */
    int n_fetches;
    const char *const *targets; /* "node"; run, not fetched */
    int n_targets;
} mf_closure_spec;

/* The graph is encoded once, and sent to each worker once, before its first call.
 * Owns: copies the spec; the caller calls mf_closure_free(). */
MF_API MF_MUST mf_status mf_closure_new(mf_dispatch *dispatch, const mf_closure_spec *spec,
                                        mf_closure **out);
/* Calls that are already scheduled still run. */
MF_API void mf_closure_free(mf_closure *closure);

/* Schedule a call on any worker. Returns at once unless the queue is full. feeds: one for each feed
 * of the closure; their storage is shared, not copied, and must not be written any more. out may be
 * NULL: then only mf_dispatch_join() reports a failure. Owns: the caller calls mf_future_free().
 * Fails: UNAVAILABLE (no worker is left, with the reason), RESOURCE_EXHAUSTED (`refuse`). */
MF_API MF_MUST mf_status mf_dispatch_schedule(mf_dispatch *dispatch, const mf_closure *closure,
                                              const mf_tensor *const *feeds, mf_future **out);
/* Schedule a call on this worker only: if the worker is lost, the call fails. */
MF_API MF_MUST mf_status mf_dispatch_schedule_on(mf_dispatch *dispatch, int worker,
                                                 const mf_closure *closure,
                                                 const mf_tensor *const *feeds, mf_future **out);
/* Run once on every worker and wait for all of them; used to initialise variables. Fails with the
 * first failure of a worker that is not lost; workers that are lost meanwhile are ignored. */
MF_API MF_MUST mf_status mf_dispatch_run_on_all(mf_dispatch *dispatch, const mf_closure *closure,
                                                const mf_tensor *const *feeds);
/* Wait until all scheduled calls are finished. Returns the first failure of a call since the last
 * join; failures of mf_dispatch_run_on_all(), which returns them itself, are excluded. timeout_ms <
 * 0: no limit, but the wait ends when no worker is left. Fails: DEADLINE_EXCEEDED. */
MF_API MF_MUST mf_status mf_dispatch_join(mf_dispatch *dispatch, int64_t timeout_ms);
/* All unfinished calls fail with CANCELLED; results that workers still compute are dropped. */
MF_API void mf_dispatch_cancel(mf_dispatch *dispatch);

/* Wait for a result. results: one per fetch of the closure, each NULL or a handle to be reused, as
 * for mf_session_run(). May be called more than once. timeout_ms < 0: no limit.
 * Fails: with the closure's failure, naming the worker and the node; UNAVAILABLE naming the workers
 * that were lost; DEADLINE_EXCEEDED (not finished yet: call again). */
MF_API MF_MUST mf_status mf_future_wait(mf_future *future, int64_t timeout_ms, mf_tensor **results);
MF_API bool mf_future_is_done(mf_future *future);
/* The call still runs. */
MF_API void mf_future_free(mf_future *future);

/* ---- statistics ---- */

typedef struct mf_worker_done {
    const char *name; /* "worker 1"; valid as long as the dispatch */
    bool lost; /* no more calls go to it */
    int slots; /* calls that it runs at once */
    int64_t running; /* calls in flight */
    int64_t calls, failed; /* calls that it finished, and the failed ones among them */
    int64_t moved; /* calls that were in flight when it was lost and went to other workers */
    double seconds; /* spent computing, as the worker reports it; the sum over overlapping calls */
    int64_t bytes_sent, bytes_received; /* by the master to this worker, and from it: graphs and
                                           tensors */
} mf_worker_done;

MF_API int mf_dispatch_workers(const mf_dispatch *dispatch);
/* worker: 0 to mf_dispatch_workers() - 1. */
MF_API void mf_dispatch_done(mf_dispatch *dispatch, int worker, mf_worker_done *out);

#ifdef __cplusplus
}
#endif
#endif
