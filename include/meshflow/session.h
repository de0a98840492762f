/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - running a graph in this process or on a server.
 *
 * A session owns a copy of the graph and the state of its ops (variables, queues). Runs may
 * overlap: several threads may call mf_session_run() at once.
 *
 * With a target, "grpc://host:port", graph and state are on that server, which may be Meshflow's or
 * TensorFlow's. Its variables and queues outlive the session and are shared with other sessions. */
#ifndef MESHFLOW_SESSION_H
#define MESHFLOW_SESSION_H

#include <meshflow/graph.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_session mf_session;

typedef struct mf_session_options {
    int threads; /* default: the number of cores */
    const char *disable; /* compiler passes to skip, comma-separated ("fuse,cse"); NULL: none */
    const char *const *allow_dirs; /* where ops may read and write files; NULL: nowhere */
    int n_allow_dirs;
    const char *target; /* "grpc://host:port": use that server, which ignores all fields above;
                           NULL or "": this process */
    int64_t connect_ms; /* how long to wait for a server that is not up yet (default: 60000); after
                           about two seconds a line on stderr reports the wait */
    const char *const *device_filters; /* use only these tasks; NULL: all */
    int n_device_filters;
    bool allow_soft_placement; /* place a node on another device if its own does not support it */
    const char *tls_dir; /* files created by `meshflow cert`; NULL: MESHFLOW_TLS_CA etc. */
    bool insecure_any_peer; /* without TLS, trust any server on other hosts */
} mf_session_options;

typedef struct mf_run_options {
    int64_t timeout_ms; /* the run fails with DEADLINE_EXCEEDED after this time; 0: no limit */
    const char *trace_path; /* local runs: write a Chrome trace of this run; NULL: none */
} mf_run_options;

/* options may be NULL. The graph is copied: later additions need mf_session_extend().
 * Fails, with a target: INVALID_ARGUMENT (invalid target, or the server rejects the graph),
 * UNAVAILABLE (no server answered in time), FAILED_PRECONDITION (no TLS between hosts). */
MF_API MF_MUST mf_status mf_session_new(const mf_graph *graph, const mf_session_options *options,
                                        mf_session **out);
/* Cancels runs in progress, waits for them, and frees the session; on a server it is closed. */
MF_API void mf_session_free(mf_session *session);

/* Add the nodes of `graph` that the session does not have yet. With a target, existing nodes cannot
 * change (INVALID_ARGUMENT): build gradients through function calls before the session exists. */
MF_API MF_MUST mf_status mf_session_extend(mf_session *session, const mf_graph *graph);

/* Run the nodes that `fetches` ("node:port") and `targets` ("node") need, with `feeds` replacing
 * outputs.
 * Owns: feeds are borrowed. results[i] is NULL or a tensor handle of the caller's (from an earlier
 * run, for example), which is reused; the caller frees it. On failure results hold no value.
 * Fails with the status of the failing node; the message contains "[[{{node NAME}}]]". With a
 * target also: UNAVAILABLE (the server is lost), ABORTED (the server was restarted: create a new
 * session). */
MF_API MF_MUST mf_status mf_session_run(mf_session *session, const mf_run_options *options,
                                        const char *const *feed_names,
                                        const mf_tensor *const *feeds, int n_feeds,
                                        const char *const *fetches, int n_fetches,
                                        const char *const *targets, int n_targets,
                                        mf_tensor **results);

/* Fail all runs in progress with CANCELLED; the session stays usable. */
MF_API void mf_session_cancel(mf_session *session);

/* Call fn for each device that nodes of the session can use:
 * "/job:worker/replica:0/task:0/device:CPU:0", "CPU". */
typedef void mf_device_fn(void *ctx, const char *name, const char *type);
MF_API MF_MUST mf_status mf_session_devices(mf_session *session, mf_device_fn *each, void *ctx);

/* On the server that the options name, delete the variables and queues of these containers (no
 * names: of the default container), and close all sessions. */
MF_API MF_MUST mf_status mf_session_reset(const mf_session_options *options,
                                          const char *const *containers, int n_containers);

#ifdef __cplusplus
}
#endif
#endif
