/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - the inside of a server: what its services share. See <meshflow/server.h>. */
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
    mf_rpc_server *near; /* for tasks of this host; NULL: there is no such way */
    mf_server_tasks tasks;
    char target[300];
    uint64_t incarnation; /* of this process's devices */
    mf_pool *pool;
    mf_resources *resources; /* state that outlives sessions */
    char **allow_dirs;
    int n_allow_dirs;
    struct mf_rendezvous_tables *rooms; /* of steps */
    struct mf_group_leader *groups; /* that this task leads */
    struct mf_step_sequences *sequences; /* numbers of steps */
    struct mf_peer_tasks *peers;
    struct mf_worker_partials *partials; /* runs of masters, fed and fetched step by step */
    struct mf_worker_service *workings;
    struct mf_clients *clients;

    pthread_mutex_t lock; /* of calls' states, and all below */
    pthread_cond_t changed;
    bool stopped;
};

static inline const mf_server_task *mf_server_self(const mf_server *s)
{
    return &s->tasks.all[s->tasks.self];
}

/* As mf_server_new(); what carries its calls is given. */
MF_MUST mf_status mf_server_open(const mf_server_options *options, const mf_rpc_kind *rpc,
                                 mf_server **out);

/* ---- requests (rpc_request.c) ---- */

/* A call that is being answered. */
typedef struct mf_request {
    mf_server *server;
    mf_rpc_call *call;
    mf_arena *arena; /* of its message, and of what the answer is made of */
    mf_cancel cancel; /* raised when nobody waits any more */
    mf_buf reply; /* the answer's bytes */
    mf_iovec content; /* that follow them; data NULL: none */
    int64_t charged; /* bytes, as memory in use */
    int refs; /* guarded by the server's lock */
} mf_request;

typedef struct mf_method {
    const char *name; /* "/tensorflow.MasterService/RunStep" */
    const ProtobufCMessageDescriptor *message;
    /* Answers by mf_request_reply(), or fails. It may wait. */
    mf_status (*run)(mf_request *r, const ProtobufCMessage *message);
    /* Instead of run, for those that hold no thread: calls mf_request_done() once, now or later. */
    void (*start)(mf_request *r, const ProtobufCMessage *message);
} mf_method;

/* The service that all calls come to; ctx: the server. */
extern const mf_rpc_service mf_server_service;

/* What is made of the request stays: as many bytes as it has count on, which are added to *kept, to
 * be given back (base/quota.h). RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_request_keep(const mf_request *r, int64_t *kept);
/* This is the answer. */
MF_MUST mf_status mf_request_reply(mf_request *r, const ProtobufCMessage *answer);
/* It is answered now, by the reply or by the thread's error; the request is gone after that. */
void mf_request_done(mf_request *r, mf_status status);

/* There are `count` sessions of a kind: may there be another one? RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_server_check_sessions(const mf_server *s, int64_t count);
/* Forget all that is kept in these containers; none: in the default one. */
void mf_server_clear(mf_server *s, const char *const *containers, int n);

/* ---- devices (device_attributes.c) ---- */

struct Tensorflow__ConfigProto;
/* The task that leads groups: the one that the configuration names, else the first. config: may be
 * NULL. INVALID_ARGUMENT: there is no such task. */
MF_MUST mf_status mf_server_leader(const mf_server *s, const struct Tensorflow__ConfigProto *config,
                                   int *out);

struct Tensorflow__DeviceAttributes;
/* This process's, in the arena. */
MF_MUST mf_status mf_server_device(const mf_server *s, mf_arena *arena,
                                   struct Tensorflow__DeviceAttributes **out);

#endif
