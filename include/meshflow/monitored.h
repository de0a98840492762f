/* SPDX-License-Identifier: Apache-2.0 */
/* monitored.h - a session for any graph that begins where it left off, calls hooks around every
 * run, and is replaced when it is lost; TensorFlow's MonitoredSession.
 *
 *     mf_monitored_session_new(graph, &(mf_monitored_options){ .checkpoint_dir = dir,
 *                                                              .hooks = hooks, .n_hooks = n }, &s);
 *     while (!mf_monitored_session_should_stop(s) &&
 *            mf_monitored_session_run(s, NULL, ..., targets, 1, NULL) == MF_OK)
 *         ;
 *     mf_monitored_session_close(s);
 *
 * Checkpoints are bundles of all variables of the graph, under the names of their nodes. */
#ifndef MESHFLOW_MONITORED_H
#define MESHFLOW_MONITORED_H

#include <meshflow/hooks.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_monitored_session mf_monitored_session;

typedef struct mf_monitored_options {
    const char *checkpoint_dir; /* begin with the newest whole checkpoint of this folder, if there
                                   is one; NULL: afresh */
    const char *init; /* target that gives the variables their first values; NULL: "init", where the
                         graph has such a node */
    bool is_worker; /* not the chief: wait until all variables have values, give them none */
    int64_t wait_ms; /* how long a worker waits; 0: two hours */
    const mf_hook *hooks; /* stay the caller's until close */
    int n_hooks;
    const mf_queue_runner *queue_runners; /* started with every session */
    int n_queue_runners;
    mf_session_options session;
    /* Where the session is to be had; NULL: a new one in this process, with `session`. */
    mf_status (*connect)(void *ctx, const mf_graph *graph, mf_session **out);
    void *connect_ctx;
    int64_t grace_ms; /* for threads to end; 0: two minutes */
    int max_recoveries; /* sessions lost in a row before that is a failure; 0: 100 */
} mf_monitored_options;

/* Calls `begin` of all hooks, makes the session, calls `after_create_session`. The graph is copied.
 * Fails: FAILED_PRECONDITION (the chief's variables have no values), DEADLINE_EXCEEDED (a
 * worker's), DATA_LOSS, and as hooks do. */
MF_API MF_MUST mf_status mf_monitored_session_new(const mf_graph *graph,
                                                  const mf_monitored_options *options,
                                                  mf_monitored_session **out);
/* As mf_session_run(), with hooks around it and what they add. After ABORTED and UNAVAILABLE the
 * session is replaced, its variables restored, and the run done again.
 * Fails: FAILED_PRECONDITION (it should stop already), and as mf_session_run(). Thread: one at a
 * time. */
MF_API MF_MUST mf_status mf_monitored_session_run(
    mf_monitored_session *session, const mf_run_options *options, const char *const *feed_names,
    const mf_tensor *const *feeds, int n_feeds, const char *const *fetches, int n_fetches,
    const char *const *targets, int n_targets, mf_tensor **results);
/* A hook or a thread has asked for it, the input has ended, or a run has failed. */
MF_API bool mf_monitored_session_should_stop(mf_monitored_session *session);
/* The session inside, for runs without hooks. */
MF_API mf_session *mf_monitored_session_raw(mf_monitored_session *session);
/* Unless a run has failed (other than by the end of the input), `end` of all hooks; then the
 * threads are stopped and joined, and all is freed. The first failure of these. NULL: MF_OK. */
MF_API MF_MUST mf_status mf_monitored_session_close(mf_monitored_session *session);

#ifdef __cplusplus
}
#endif
#endif
