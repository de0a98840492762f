/* SPDX-License-Identifier: Apache-2.0 */
/* session_workers.h - the tasks of a client's session. */
#ifndef MF_TF_SERVER_SESSION_WORKERS_H
#define MF_TF_SERVER_SESSION_WORKERS_H

#include "proto/master.pb-c.h"
#include "rpc/rpc_stub.h"
#include "tf_server/server.h"

typedef struct mf_session_workers {
    mf_server *server;
    mf_arena *arena;
    bool *available; /* by task: belongs to the session */
    uint64_t *incarnations;
    const char **devices; /* "/job:ps/replica:0/task:0/device:CPU:0" */
    Tensorflow__DeviceAttributes **attributes; /* NULL: not in the session */
    bool *is_ours; /* by task: a Meshflow server */
    bool is_created; /* the remote tasks have the session */
} mf_session_workers;

/* Asks all tasks that match the filters (TensorFlow's: names of jobs and tasks; none: all) for
 * their devices. Waits for tasks that have not started, with messages, until the caller gives up or
 * the timeout expires. Owns: mf_session_workers_deinit(), even after a failure. Fails: UNAVAILABLE,
 * DEADLINE_EXCEEDED naming a task. */
MF_MUST mf_status mf_session_workers_gather(mf_request *r, char *const *filters, size_t n_filters,
                                            mf_session_workers *out);
void mf_session_workers_deinit(mf_session_workers *c);
/* True if the session has remote tasks. */
bool mf_session_workers_is_several(const mf_session_workers *c);
/* Creates the session on the remote tasks; deletes it there, if they have it. */
MF_MUST mf_status mf_session_workers_begin(mf_session_workers *c, const char *session,
                                           bool isolated, mf_cancel *cancel);
void mf_session_workers_end(mf_session_workers *c, const char *session);
/* Clears containers on the remote tasks. */
MF_MUST mf_status mf_session_workers_clear(mf_request *r, const Tensorflow__ResetRequest *q);

/* Calls a task without waiting for the reply. */
void mf_server_notify(mf_server *s, int task, const char *method, const ProtobufCMessage *message,
                      const ProtobufCMessageDescriptor *reply);
/* Calls a task and waits; errors name the task. */
MF_MUST mf_status mf_server_ask(mf_server *s, int task, const mf_rpc_stub_call *q, mf_arena *arena,
                                ProtobufCMessage **out);

#endif
