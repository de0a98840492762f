/* SPDX-License-Identifier: Apache-2.0 */
/* monitored.h - a session for any graph that restores the last checkpoint, calls hooks around every
 * run, and is replaced when it is lost. The C counterpart of TensorFlow's MonitoredSession.
 *
 *     mf_monitored_session_new(graph, &(mf_monitored_options){ .checkpoint_dir = dir,
 *                                                              .hooks = hooks, .n_hooks = n }, &s);
 *     while (!mf_monitored_session_should_stop(s) &&
 *            mf_monitored_session_run(s, NULL, ..., targets, 1, NULL) == MF_OK)
 *         ;
 *     mf_monitored_session_close(s);
 *
 * A checkpoint is a bundle of all variables of the graph, under the names of their nodes. */
#ifndef MESHFLOW_MONITORED_H
#define MESHFLOW_MONITORED_H

#include <meshflow/hooks.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_monitored_session mf_monitored_session;

typedef struct mf_monitored_options {
    const char *checkpoint_dir; /* restore the newest complete checkpoint of this folder, if there
                                   is
                                   one; NULL: do not restore */
    const char *init; /* target that initialises the variables; NULL: "init", if the graph has such
                         a
                         node */
    bool is_worker; /* not the chief: wait until all variables are initialised, do not initialise
                       them */
    int64_t wait_ms; /* how long a worker waits; default: two hours */
    const mf_hook *hooks; /* borrowed until mf_monitored_session_close() */
    int n_hooks;
    const mf_queue_runner *queue_runners; /* started with every new session */
    int n_queue_runners;
    mf_session_options session;
    /* Creates a session. NULL: a new one in this process, with `session`. */
    mf_status (*connect)(void *ctx, const mf_graph *graph, mf_session **out);
    void *connect_ctx;
    int64_t grace_ms; /* for threads to end; default: two minutes */
    int max_recoveries; /* consecutive lost sessions that are tolerated; default: 100 */
} mf_monitored_options;

/* Calls `begin` of all hooks, creates the session, calls `after_create_session`. The graph is
 * copied. Fails: FAILED_PRECONDITION (chief: variables are not initialised), DEADLINE_EXCEEDED
 * (worker: variables are still not initialised), DATA_LOSS, and with the failures of hooks. */
MF_API MF_MUST mf_status mf_monitored_session_new(const mf_graph *graph,
                                                  const mf_monitored_options *options,
                                                  mf_monitored_session **out);
/* As mf_session_run(), with hooks called around it and their feeds and fetches added. After ABORTED
 * and UNAVAILABLE the session is replaced, its variables are restored, and the run is repeated.
 * Fails: FAILED_PRECONDITION (the session should already stop), and as mf_session_run(). Thread:
 * one at a time. */
MF_API MF_MUST mf_status mf_monitored_session_run(
    mf_monitored_session *session, const mf_run_options *options, const char *const *feed_names,
    const mf_tensor *const *feeds, int n_feeds, const char *const *fetches, int n_fetches,
    const char *const *targets, int n_targets, mf_tensor **results);
/* True once a hook or a thread has requested a stop, the input has ended, or a run has failed. */
MF_API bool mf_monitored_session_should_stop(mf_monitored_session *session);
/* The underlying session, for runs without hooks. */
MF_API mf_session *mf_monitored_session_raw(mf_monitored_session *session);
/* Calls `end` of all hooks, unless a run has failed (the end of input is not a failure); then stops
 * and joins the threads and frees everything. Returns the first failure of these. s may be NULL:
 * MF_OK. */
MF_API MF_MUST mf_status mf_monitored_session_close(mf_monitored_session *session);

#ifdef __cplusplus
}
#endif
#endif
