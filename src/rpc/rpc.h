/* SPDX-License-Identifier: Apache-2.0 */
/* rpc.h - remote procedure calls between processes: one request, one reply. TensorFlow's services
 * use them. A plugin (`grpc`) carries them; mf_rpc_find() opens it. Tasks of one host and user use
 * Unix sockets (uds_rpc.h).
 *
 * Requests and replies are bytes in several parts: parts with a release function are sent without a
 * copy, others are copied. Statuses have gRPC's numbers, as mf_status does everywhere. */
#ifndef MF_RPC_RPC_H
#define MF_RPC_RPC_H

#include "base/iovec.h"
#include "net/transport.h"

#include <stdatomic.h>

/* ---- server ---- */

typedef struct mf_rpc_server mf_rpc_server;
/* A call in flight. */
typedef struct mf_rpc_call {
    const struct mf_rpc_kind *kind; /* the implementation that received it, for the reply */
    void *state; /* for the service */
    int64_t deadline_ns; /* by mf_clock_ns(); INT64_MAX: none */
    atomic_bool gone; /* the caller does not wait any more */
    const char *tasks; /* tasks for which the caller's certificate is valid, one per line; NULL: it
                          names
                          none, or there is no certificate */
} mf_rpc_call;

typedef struct mf_rpc_service {
    /* A request has arrived. It is answered once, immediately or later, by any thread; `data` is
     * valid until then. The function may block: other calls are served meanwhile. Thread: any. */
    void (*called)(void *ctx, mf_rpc_call *call, const char *method, const void *data, size_t size);
    /* The caller does not wait any more: the deadline has passed, or the caller has cancelled or is
     * lost. A reply is still required. This may be called while called() is running and
     * concurrently with a reply, but not after it. Thread: any. */
    void (*cancelled)(void *ctx, mf_rpc_call *call);
} mf_rpc_service;

typedef struct mf_rpc_server_options {
    const char *address; /* where to listen: "host:port"; port 0: any */
    mf_security security;
    size_t request_max; /* bytes; default: 2 GiB - 1 */
    size_t memory; /* approximate limit in bytes for connections and calls: beyond it connections
                      are
                      closed; 0: no limit */
    const mf_rpc_service *service;
    void *ctx;
} mf_rpc_server_options;

/* ---- client ---- */

typedef struct mf_rpc_channel mf_rpc_channel;
typedef void mf_rpc_done_fn(void *ctx, mf_status status, const char *message, mf_iovec *parts,
                            int n_parts);

typedef struct mf_rpc_question {
    const char *method; /* "/tensorflow.MasterService/RunStep" */
    const mf_iovec *parts;
    int n_parts;
    int64_t deadline_ns; /* INT64_MAX: none */
    bool waits; /* wait until the server is up; false: fail with UNAVAILABLE at once */
    /* Called with the reply or the failure. The function takes ownership of the parts and must
     * release those with a release function. Thread: one of the channel's, which must neither wait
     * for another reply nor send a large one. */
    mf_rpc_done_fn *done;
    void *ctx;
} mf_rpc_question;

typedef struct mf_rpc_kind {
    /* Listens on return. Owns: borrows the options, copies what it keeps. */
    mf_status (*serve)(const mf_rpc_server_options *o, mf_rpc_server **out);
    /* "host:port" as requested, with the actual port. */
    const char *(*address)(const mf_rpc_server *s);
    /* Sends the reply: MF_OK and its parts, or a failure. */
    void (*answer)(mf_rpc_call *call, mf_status status, const char *message, const mf_iovec *parts,
                   int n_parts);
    /* Stops listening, cancels all calls and waits until they are answered, and frees the server.
     * The port is free on return. */
    void (*stop)(mf_rpc_server *s);

    /* Connects on first use. */
    mf_status (*connect)(const char *address, const mf_security *security, mf_rpc_channel **out);
    /* True: a server is up. NULL: not supported. Thread: any. */
    bool (*reaches)(mf_rpc_channel *c);
    /* Thread: any. Returns the handle for cancel(), valid until done() has been called. */
    void *(*ask)(mf_rpc_channel *c, const mf_rpc_question *q);
    /* done() is called soon, with CANCELLED, unless it was called already. */
    void (*cancel)(mf_rpc_channel *c, void *asked);
    /* Cancels all requests, waits until they are done, and frees the channel. */
    void (*disconnect)(mf_rpc_channel *c);
} mf_rpc_kind;

/* The plugin's implementation. Fails: as mf_plugin_get(). */
MF_MUST mf_status mf_rpc_find(const mf_rpc_kind **out);

#endif
