/* SPDX-License-Identifier: Apache-2.0 */
/* rpc.h - calls by name between processes: one request, one answer. TensorFlow's services are made
 * of these. What carries them is a plugin's (`grpc`); mf_rpc_find() opens it. Tasks of one host and
 * user have a shorter way (uds_rpc.h).
 *
 * Requests and answers are bytes, in parts: those that have a release are sent without a copy,
 * others are copied. Statuses are gRPC's numbers, as mf_status is everywhere. */
#ifndef MF_RPC_RPC_H
#define MF_RPC_RPC_H

#include "base/iovec.h"
#include "net/transport.h"

#include <stdatomic.h>

/* ---- those who are called ---- */

typedef struct mf_rpc_server mf_rpc_server;
/* A call that has come and is not answered yet. */
typedef struct mf_rpc_call {
    const struct mf_rpc_kind *kind; /* what it came by: to answer it */
    void *state; /* the service's */
    int64_t deadline_ns; /* by mf_clock_ns(): nobody waits longer; INT64_MAX: none */
    atomic_bool gone; /* nobody waits any more */
    const char *tasks; /* those that the caller's certificate speaks for, one a line; NULL: it names
                          none, or there is none */
} mf_rpc_call;

typedef struct mf_rpc_service {
    /* A request has come. It is answered once, now or later, by any thread; until then `data` is
     * there. It may take its time: others are served meanwhile. Thread: any. */
    void (*called)(void *ctx, mf_rpc_call *call, const char *method, const void *data, size_t size);
    /* Nobody waits for the answer any more: the deadline has passed, or the caller has given up or
     * is gone. It has to be answered all the same. It may come while called() is still under way,
     * and when an answer is just being given; afterwards it does not. Thread: any. */
    void (*cancelled)(void *ctx, mf_rpc_call *call);
} mf_rpc_service;

typedef struct mf_rpc_server_options {
    const char *address; /* where to listen: "host:port"; port 0: any */
    mf_security security;
    size_t request_max; /* bytes; 0: 2 GiB less one */
    size_t memory; /* bytes that are kept for connections and calls, about: beyond that connections
                      are closed; 0: no limit */
    const mf_rpc_service *service;
    void *ctx;
} mf_rpc_server_options;

/* ---- those who call ---- */

typedef struct mf_rpc_channel mf_rpc_channel;
typedef void mf_rpc_done_fn(void *ctx, mf_status status, const char *message, mf_iovec *parts,
                            int n_parts);

typedef struct mf_rpc_question {
    const char *method; /* "/tensorflow.MasterService/RunStep" */
    const mf_iovec *parts;
    int n_parts;
    int64_t deadline_ns; /* INT64_MAX: none */
    bool waits; /* until somebody listens there; else that is UNAVAILABLE at once */
    /* The answer, or why there is none. Whoever is asked takes its parts over: those with a release
     * are to be released. Thread: one of the channel's, that must neither wait for another answer
     * nor give a large one. */
    mf_rpc_done_fn *done;
    void *ctx;
} mf_rpc_question;

typedef struct mf_rpc_kind {
    /* Listens from now on. Owns: borrows the options, copies what it keeps. */
    mf_status (*serve)(const mf_rpc_server_options *o, mf_rpc_server **out);
    /* "host:port", as it was given, with the port that it has. */
    const char *(*address)(const mf_rpc_server *s);
    /* The answer: MF_OK and its parts, or why there is none. */
    void (*answer)(mf_rpc_call *call, mf_status status, const char *message, const mf_iovec *parts,
                   int n_parts);
    /* Nobody is listened to any more; waits until all calls are answered, which it cancels, and
     * frees. The port is free then. */
    void (*stop)(mf_rpc_server *s);

    /* Connects when there is something to ask. */
    mf_status (*connect)(const char *address, const mf_security *security, mf_rpc_channel **out);
    /* Somebody listens there now; NULL: it cannot be said. Thread: any. */
    bool (*reaches)(mf_rpc_channel *c);
    /* Thread: any. Returns what cancel() needs, valid until done() has been called. */
    void *(*ask)(mf_rpc_channel *c, const mf_rpc_question *q);
    /* done() is called soon, with CANCELLED, unless it was already. */
    void (*cancel)(mf_rpc_channel *c, void *asked);
    /* Cancels what was asked, waits until all are done, frees. */
    void (*disconnect)(mf_rpc_channel *c);
} mf_rpc_kind;

/* The plugin's. Fails: as mf_plugin_get(). */
MF_MUST mf_status mf_rpc_find(const mf_rpc_kind **out);

#endif
