/* SPDX-License-Identifier: Apache-2.0 */
/* group_leader.h - the leader of groups: it resolves the members of a group and checks that they
 * agree. One task leads all groups of a session. Members call it with TensorFlow's RPCs before
 * their first collective. */
#ifndef MF_TF_SERVER_GROUP_LEADER_H
#define MF_TF_SERVER_GROUP_LEADER_H

#include "proto/worker.pb-c.h"
#include "rpc/rpc_stub.h"
#include "tf_server/server.h"

typedef struct mf_group_leader mf_group_leader;

MF_MUST mf_status mf_group_leader_new(const mf_server_tasks *tasks, mf_group_leader **out);
/* No member waits any more. */
void mf_group_leader_free(mf_group_leader *g);

/* Deadline and completion of a call. */
typedef struct mf_leader_call {
    mf_cancel *cancel;
    int64_t deadline_ns; /* 0: none */
    mf_rpc_answer_fn *done; /* called once, now or later, by any thread; no thread is held until
                               then */
    void *ctx;
} mf_leader_call;

/* Replies once all members of the group have called. Fails: INVALID_ARGUMENT (they disagree). */
void mf_group_leader_complete_group(mf_group_leader *g, const Tensorflow__CompleteGroupRequest *q,
                                    const mf_leader_call *a);
/* The same for one of its collectives; also finds the sender of a broadcast. Fails: ABORTED (no
 * such group). */
void mf_group_leader_complete_instance(mf_group_leader *g,
                                       const Tensorflow__CompleteInstanceRequest *q,
                                       const mf_leader_call *a);

/* A member reports that another one has changed: if a new process answers at its address, the group
 * is dissolved and must be formed again. */
void mf_group_leader_suspect(mf_server *s, int32_t group, const char *device, uint64_t incarnation);

/* TensorFlow's order of members: by job, task and device. */
int mf_group_compare(const char *device, const char *other);
/* Index of the device's task; -1: not in the cluster. */
int mf_group_task(const mf_server_tasks *tasks, const char *device);

/* RPC handlers. */
void mf_group_leader_group_called(mf_request *r, const ProtobufCMessage *message);
void mf_group_leader_instance_called(mf_request *r, const ProtobufCMessage *message);

#endif
