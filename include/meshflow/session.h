/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - running a graph.
 *
 * A session owns a copy of the graph and the state its ops keep (variables, queues). Runs may
 * overlap: mf_session_run() may be called from several threads at once. */
#ifndef MESHFLOW_SESSION_H
#define MESHFLOW_SESSION_H

#include <meshflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_session mf_session;

typedef struct mf_session_options {
    int threads; /* 0: as many as there are cores */
    const char *disable; /* passes to leave out, comma-separated ("fuse,cse"); NULL: none */
    const char *const *allow_dirs; /* where graph ops may read and write files; NULL: nowhere */
    int n_allow_dirs;
} mf_session_options;

typedef struct mf_run_options {
    int64_t timeout_ms; /* 0: none. After it the run ends with DEADLINE_EXCEEDED */
    const char *trace_path; /* write a Chrome trace of this run; NULL: none */
} mf_run_options;

/* options may be NULL. The graph is copied: later additions need mf_session_extend(). */
MF_API MF_MUST mf_status mf_session_new(const mf_graph *graph, const mf_session_options *options,
                                        mf_session **out);
/* Cancels runs in progress, waits for them, and frees. */
MF_API void mf_session_free(mf_session *session);

/* Add to the session the nodes of `graph` that it does not have yet. */
MF_API MF_MUST mf_status mf_session_extend(mf_session *session, const mf_graph *graph);

/* Run what `fetches` ("node:port") and `targets` ("node") need, with `feeds` replacing outputs.
 * Owns: borrows feeds. results[i] is NULL or a tensor handle of the caller's (from an earlier run,
 * say), which is then used again; in the end the caller frees it. On failure results keep no value.
 * Fails with the failing node's status; the message ends in "[[{{node NAME}}]]". */
MF_API MF_MUST mf_status mf_session_run(mf_session *session, const mf_run_options *options,
                                        const char *const *feed_names,
                                        const mf_tensor *const *feeds, int n_feeds,
                                        const char *const *fetches, int n_fetches,
                                        const char *const *targets, int n_targets,
                                        mf_tensor **results);

/* End all runs in progress with CANCELLED; later runs work again. */
MF_API void mf_session_cancel(mf_session *session);

#ifdef __cplusplus
}
#endif
#endif
