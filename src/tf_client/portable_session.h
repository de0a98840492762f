/* SPDX-License-Identifier: Apache-2.0 */
/* portable_session.h - runs graphs with Meshflow's own ops on servers that have only TensorFlow's.
 * For each combination of names and shapes, the required part of the graph is rewritten
 * (compiler/rewritten_graph.h), placed, and becomes a session of its own on the server. Variables
 * on the server outlive these sessions. */
#ifndef MF_TF_CLIENT_PORTABLE_SESSION_H
#define MF_TF_CLIENT_PORTABLE_SESSION_H

#include "runtime/session.h"

typedef struct mf_portable_session_options {
    const mf_session_options *session; /* has a target; must outlive the session */
    /* Assigns devices to the nodes; may be NULL. */
    mf_status (*place)(void *ctx, mf_graph *graph);
    void *ctx;
} mf_portable_session_options;

/* The graph is borrowed and may grow. */
MF_MUST mf_status mf_portable_session_new(const mf_graph *graph,
                                          const mf_portable_session_options *options,
                                          mf_session **out);

#endif
