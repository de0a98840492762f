/* SPDX-License-Identifier: Apache-2.0 */
/* remote_session.h - sessions on a server: the client side of TensorFlow's MasterService. */
#ifndef MF_TF_CLIENT_REMOTE_SESSION_H
#define MF_TF_CLIENT_REMOTE_SESSION_H

#include "rpc/rpc_stub.h"
#include "runtime/session.h"

extern const mf_session_kind mf_session_remote;

/* options->target is set. Otherwise as mf_session_new(). */
MF_MUST mf_status mf_remote_new(const mf_graph *graph, const mf_session_options *options,
                                mf_session **out);
/* As mf_session_reset(). */
MF_MUST mf_status mf_remote_reset(const mf_session_options *options, const char *const *containers,
                                  int n_containers);

/* ---- parts ---- */

/* Connects to the server of options->target (connect_server.c). Fails: INVALID_ARGUMENT (invalid
 * target). */
MF_MUST mf_status mf_remote_connect(const mf_session_options *options, mf_rpc_stub **out);
/* mf_rpc_stub_ask() that retries while the server refuses connections, for as long as the options
 * allow, and reports on standard error what it waits for. Then it fails with UNAVAILABLE. q->cancel
 * and q->look are not used. */
MF_MUST mf_status mf_remote_ask_first(mf_rpc_stub *c, const mf_rpc_stub_call *q,
                                      const mf_session_options *options, mf_arena *arena,
                                      ProtobufCMessage **out);

/* One step (remote_run.c). */
typedef struct mf_remote_step {
    mf_rpc_stub *caller;
    const char *handle; /* the session's */
    mf_cancel *cancel;
    int64_t timeout_ms; /* 0: none */
    const char *const *feed_names;
    const mf_tensor *const *feeds;
    const char *const *fetches, *const *targets;
    int n_feeds, n_fetches, n_targets;
} mf_remote_step;
MF_MUST mf_status mf_remote_run(const mf_remote_step *s, mf_tensor **results);

#endif
