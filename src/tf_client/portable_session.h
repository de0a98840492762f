/* SPDX-License-Identifier: Apache-2.0 */
/* portable_session.h - a session for graphs with ops of our own, at servers that have TensorFlow's
 * only. For each run that is asked for, by names and shapes, what it needs of the graph is laid out
 * (compiler/rewritten_graph.h), given devices, and becomes a session of its own at the server,
 * where the variables outlive all of them. */
#ifndef MF_TF_CLIENT_PORTABLE_SESSION_H
#define MF_TF_CLIENT_PORTABLE_SESSION_H

#include "runtime/session.h"

typedef struct mf_portable_session_options {
    const mf_session_options *session; /* with a target; must outlive the session */
    /* Give the nodes devices; may be NULL. */
    mf_status (*place)(void *ctx, mf_graph *graph);
    void *ctx;
} mf_portable_session_options;

/* The graph is borrowed and may grow. */
MF_MUST mf_status mf_portable_session_new(const mf_graph *graph,
                                          const mf_portable_session_options *options,
                                          mf_session **out);

#endif
