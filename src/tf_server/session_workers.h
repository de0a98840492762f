/* SPDX-License-Identifier: Apache-2.0 */
/* session_workers.h - the tasks that take part in a client's session. */
#ifndef MF_TF_SERVER_SESSION_WORKERS_H
#define MF_TF_SERVER_SESSION_WORKERS_H

#include "proto/master.pb-c.h"
#include "rpc/rpc_stub.h"
#include "tf_server/server.h"

typedef struct mf_session_workers {
    mf_server *server;
    mf_arena *arena;
    bool *available; /* by task: it takes part */
    uint64_t *incarnations;
    const char **devices; /* "/job:ps/replica:0/task:0/device:CPU:0" */
    Tensorflow__DeviceAttributes **attributes; /* NULL: it does not take part */
    bool *is_ours; /* by task: it is one of Meshflow's */
    bool is_told; /* the others know of the session */
} mf_session_workers;

/* Asks all tasks that the filters let in (TensorFlow's: names of jobs and tasks; none: everybody)
 * who they are, and waits for those that are not there yet, saying so, until nobody waits for the
 * answer any more or it has taken too long. Owns: mf_session_workers_deinit(), also after a
 * failure. UNAVAILABLE, DEADLINE_EXCEEDED naming a task. */
MF_MUST mf_status mf_session_workers_gather(mf_request *r, char *const *filters, size_t n_filters,
                                            mf_session_workers *out);
void mf_session_workers_deinit(mf_session_workers *c);
/* There is somebody else. */
bool mf_session_workers_is_several(const mf_session_workers *c);
/* Tell the others that a session begins; that it has ended, if they know of it. */
MF_MUST mf_status mf_session_workers_begin(mf_session_workers *c, const char *session,
                                           bool isolated, mf_cancel *cancel);
void mf_session_workers_end(mf_session_workers *c, const char *session);
/* Let other tasks forget what is kept in containers. */
MF_MUST mf_status mf_session_workers_clear(mf_request *r, const Tensorflow__ResetRequest *q);

/* A question for a task, whose answer nobody waits for. */
void mf_server_tell(mf_server *s, int task, const char *method, const ProtobufCMessage *message,
                    const ProtobufCMessageDescriptor *reply);
/* And one that somebody does wait for; errors name the task. */
MF_MUST mf_status mf_server_ask(mf_server *s, int task, const mf_rpc_stub_call *q, mf_arena *arena,
                                ProtobufCMessage **out);

#endif
