/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - internals of a server, shared by its services. See <meshflow/server.h>. */
#ifndef MF_TF_SERVER_SERVER_H
#define MF_TF_SERVER_SERVER_H

#include "base/buf.h"
#include "base/cancel.h"
#include "base/pool.h"
#include "graph/resource.h"
#include "rpc/rpc.h"
#include "tf_server/task_table.h"

#include <meshflow/server.h>

#include <protobuf-c/protobuf-c.h>

struct mf_clients;
struct mf_group_leader;
struct mf_peer_tasks;
struct mf_rendezvous_tables;
struct mf_step_sequences;
struct mf_worker_partials;
struct mf_worker_service;

struct mf_server {
    const mf_rpc_kind *rpc;
    mf_rpc_server *listening;
    mf_rpc_server *uds; /* Unix socket for tasks of this host; NULL: none */
    mf_server_tasks tasks;
    char target[300];
    uint64_t incarnation; /* of this process's devices */
    mf_pool *pool;
    mf_resources *resources; /* state that outlives sessions */
    char **allow_dirs;
    int n_allow_dirs;
    struct mf_rendezvous_tables *tables; /* rendezvous tables of steps */
    struct mf_group_leader *groups; /* groups that this task leads */
    struct mf_step_sequences *sequences; /* step ids shared with other masters */
    struct mf_peer_tasks *peers;
    struct mf_worker_partials *partials; /* partial runs of masters */
    struct mf_worker_service *workings;
    struct mf_clients *clients;

    pthread_mutex_t lock; /* guards the state of calls and all members below */
    pthread_cond_t changed;
    bool stopped;
};

static inline const mf_server_task *mf_server_self(const mf_server *s)
{
    return &s->tasks.all[s->tasks.self];
}

/* As mf_server_new(), with the given RPC implementation. */
MF_MUST mf_status mf_server_open(const mf_server_options *options, const mf_rpc_kind *rpc,
                                 mf_server **out);

/* ---- requests (rpc_request.c) ---- */

/* A call in progress. */
typedef struct mf_request {
    mf_server *server;
    mf_rpc_call *call;
    mf_arena *arena; /* of the request and the reply */
    mf_cancel cancel; /* raised when the caller no longer waits */
    mf_buf reply; /* the encoded reply */
    mf_iovec content; /* appended to the reply without a copy; data NULL: none */
    int64_t charged; /* bytes charged to the memory quota */
    int refs; /* guarded by the server's lock */
} mf_request;

typedef struct mf_method {
    const char *name; /* "/tensorflow.MasterService/RunStep" */
    const ProtobufCMessageDescriptor *message;
    /* Replies by mf_request_reply(), or fails. May block. */
    mf_status (*run)(mf_request *r, const ProtobufCMessage *message);
    /* For asynchronous methods, instead of run: calls mf_request_done() once, now or later. */
    void (*start)(mf_request *r, const ProtobufCMessage *message);
} mf_method;

/* Handles all calls; ctx: the server. */
extern const mf_rpc_service mf_server_service;

/* Data of the request outlives it: its bytes remain charged and are added to *kept, to be returned
 * later (base/quota.h). Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_request_keep(const mf_request *r, int64_t *kept);
/* Sets the reply. */
MF_MUST mf_status mf_request_reply(mf_request *r, const ProtobufCMessage *answer);
/* Completes the call with the reply or the thread's error; the request is freed. */
void mf_request_done(mf_request *r, mf_status status);

/* Fails with RESOURCE_EXHAUSTED if `count` sessions of a kind are the maximum. */
MF_MUST mf_status mf_server_check_sessions(const mf_server *s, int64_t count);
/* Deletes the resources of these containers; none given: of the default one. */
void mf_server_clear(mf_server *s, const char *const *containers, int n);

/* ---- devices (device_attributes.c) ---- */

struct Tensorflow__ConfigProto;
/* The leader of groups: the configured one, else the first task. config: may be NULL. Fails:
 * INVALID_ARGUMENT (no such task). */
MF_MUST mf_status mf_server_leader(const mf_server *s, const struct Tensorflow__ConfigProto *config,
                                   int *out);

struct Tensorflow__DeviceAttributes;
/* The attributes of this process's device, in the arena. */
MF_MUST mf_status mf_server_device(const mf_server *s, mf_arena *arena,
                                   struct Tensorflow__DeviceAttributes **out);

#endif
