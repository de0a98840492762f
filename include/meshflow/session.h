/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - running a graph, here or on a server.
 *
 * A session owns a copy of the graph and the state its ops keep (variables, queues). Runs may
 * overlap: mf_session_run() may be called from several threads at once.
 *
 * With a target, "grpc://host:port", graph and state are on the server there: Meshflow's or
 * TensorFlow's. Its variables and queues outlive the session, and other sessions see them. */
#ifndef MESHFLOW_SESSION_H
#define MESHFLOW_SESSION_H

#include <meshflow/graph.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_session mf_session;

typedef struct mf_session_options {
    int threads; /* 0: as many as there are cores */
    const char *disable; /* passes to leave out, comma-separated ("fuse,cse"); NULL: none */
    const char *const *allow_dirs; /* where graph ops may read and write files; NULL: nowhere */
    int n_allow_dirs;
    const char *target; /* "grpc://host:port": on the server there, and all above is its own
                           affair; NULL or "": here */
    int64_t connect_ms; /* how long to wait for a server that is not there yet (default: 60000); a
                           line on stderr says so after about two seconds */
    const char *const *device_filters; /* the only tasks that it shall know; NULL: all */
    int n_device_filters;
    bool allow_soft_placement; /* what cannot be on the device it asks for goes to another */
    const char *tls_dir; /* what `meshflow cert` has made; NULL: MESHFLOW_TLS_CA and so on */
    bool insecure_any_peer; /* between hosts without TLS: whoever answers is believed */
} mf_session_options;

typedef struct mf_run_options {
    int64_t timeout_ms; /* 0: none. After it the run ends with DEADLINE_EXCEEDED */
    const char *trace_path; /* runs here: write a Chrome trace of this run; NULL: none */
} mf_run_options;

/* options may be NULL. The graph is copied: later additions need mf_session_extend().
 * Fails, with a target: INVALID_ARGUMENT (no such target, or the server does not like the graph),
 * UNAVAILABLE (nobody was there in time), FAILED_PRECONDITION (no TLS between hosts). */
MF_API MF_MUST mf_status mf_session_new(const mf_graph *graph, const mf_session_options *options,
                                        mf_session **out);
/* Cancels runs in progress, waits for them, and frees; a server is told that it is closed. */
MF_API void mf_session_free(mf_session *session);

/* Add to the session the nodes of `graph` that it does not have yet. With a target, nodes that it
 * has cannot change (INVALID_ARGUMENT): add gradients through functions before. */
MF_API MF_MUST mf_status mf_session_extend(mf_session *session, const mf_graph *graph);

/* Run what `fetches` ("node:port") and `targets` ("node") need, with `feeds` replacing outputs.
 * Owns: borrows feeds. results[i] is NULL or a tensor handle of the caller's (from an earlier run,
 * say), which is then used again; in the end the caller frees it. On failure results keep no value.
 * Fails with the failing node's status; the message has "[[{{node NAME}}]]". With a target also
 * with UNAVAILABLE (the server is gone) and ABORTED (it is another one by now: make a new session).
 */
MF_API MF_MUST mf_status mf_session_run(mf_session *session, const mf_run_options *options,
                                        const char *const *feed_names,
                                        const mf_tensor *const *feeds, int n_feeds,
                                        const char *const *fetches, int n_fetches,
                                        const char *const *targets, int n_targets,
                                        mf_tensor **results);

/* End all runs in progress with CANCELLED; later runs work again. */
MF_API void mf_session_cancel(mf_session *session);

/* Tell each device that the session's nodes may be on: "/job:worker/replica:0/task:0/device:CPU:0",
 * "CPU". */
typedef void mf_device_fn(void *ctx, const char *name, const char *type);
MF_API MF_MUST mf_status mf_session_devices(mf_session *session, mf_device_fn *each, void *ctx);

/* The server that the options name forgets the variables and queues of these containers (none: of
 * all that have no container), and closes all sessions. */
MF_API MF_MUST mf_status mf_session_reset(const mf_session_options *options,
                                          const char *const *containers, int n_containers);

#ifdef __cplusplus
}
#endif
#endif
