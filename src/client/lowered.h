/* SPDX-License-Identifier: Apache-2.0 */
/* lowered.h - a session for graphs with ops of our own, at servers that have TensorFlow's only. For
 * each run that is asked for, by names and shapes, what it needs of the graph is laid out
 * (compile/rewritten.h), given devices, and becomes a session of its own at the server, where the
 * variables outlive all of them. */
#ifndef MF_CLIENT_LOWERED_H
#define MF_CLIENT_LOWERED_H

#include "runtime/session.h"

typedef struct mf_lowered_options {
    const mf_session_options *session; /* with a target; must outlive the session */
    /* Give the nodes devices; may be NULL. */
    mf_status (*place)(void *ctx, mf_graph *graph);
    void *ctx;
} mf_lowered_options;

/* The graph is borrowed and may grow. */
MF_MUST mf_status mf_lowered_new(const mf_graph *graph, const mf_lowered_options *options,
                                 mf_session **out);

#endif
