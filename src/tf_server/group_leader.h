/* SPDX-License-Identifier: Apache-2.0 */
/* group_leader.h - what the leader of groups does: it says who is in a group and sees to it that
 * its members mean the same. One task leads all groups of a session, and its members ask it, by
 * TensorFlow's calls, when they do a collective for the first time. */
#ifndef MF_TF_SERVER_GROUP_LEADER_H
#define MF_TF_SERVER_GROUP_LEADER_H

#include "proto/worker.pb-c.h"
#include "rpc/rpc_stub.h"
#include "tf_server/server.h"

typedef struct mf_group_leader mf_group_leader;

MF_MUST mf_status mf_group_leader_new(const mf_server_tasks *tasks, mf_group_leader **out);
/* Nobody waits any more. */
void mf_group_leader_free(mf_group_leader *g);

/* Until when, and who is told. */
typedef struct mf_group_asks {
    mf_cancel *cancel;
    int64_t deadline_ns; /* 0: none */
    mf_rpc_answer_fn *done; /* once, now or later, by any thread; it holds none until then */
    void *ctx;
} mf_group_asks;

/* Answered when as many members as the group has have asked. INVALID_ARGUMENT: they do not agree.
 */
void mf_group_leader_complete_group(mf_group_leader *g, const Tensorflow__CompleteGroupRequest *q,
                                    const mf_group_asks *a);
/* The same for one of its collectives; who sends of a broadcast is found so. ABORTED: there is no
 * such group. */
void mf_group_leader_complete_instance(mf_group_leader *g,
                                       const Tensorflow__CompleteInstanceRequest *q,
                                       const mf_group_asks *a);

/* A member is no more what it was when the group met: if another process answers in its place, the
 * group has to meet again. */
void mf_group_leader_doubt(mf_server *s, int32_t group, const char *device, uint64_t incarnation);

/* The order of members, as TensorFlow has it: by job, task and device. */
int mf_group_compare(const char *device, const char *other);
/* The number of the task a device is on; -1: of none of the cluster. */
int mf_group_task(const mf_server_tasks *tasks, const char *device);

/* The calls. */
void mf_group_leader_group_called(mf_request *r, const ProtobufCMessage *message);
void mf_group_leader_instance_called(mf_request *r, const ProtobufCMessage *message);

#endif
