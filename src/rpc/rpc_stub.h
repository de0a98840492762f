/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_stub.h - calls with protobuf messages: asynchronous or blocking. */
#ifndef MF_RPC_RPC_STUB_H
#define MF_RPC_RPC_STUB_H

#include "base/cancel.h"
#include "base/mem.h"
#include "rpc/rpc.h"

#include <protobuf-c/protobuf-c.h>

typedef struct mf_rpc_stub mf_rpc_stub;

/* A request. */
typedef struct mf_rpc_stub_call {
    const char *method; /* "/tensorflow.MasterService/RunStep" */
    const ProtobufCMessage *message;
    const ProtobufCMessageDescriptor *reply; /* type of the reply */
    int64_t deadline_ns; /* 0: none */
    bool waits; /* wait until the server is up; false: fail with UNAVAILABLE at once */
    mf_cancel *cancel; /* cancels the call, with CANCELLED; NULL: not cancellable */
    /* Called by mf_rpc_stub_ask() several times a second while it waits; may be NULL. */
    void (*poll)(void *ctx);
    void *ctx;
} mf_rpc_stub_call;

/* address: "host:port". Connects on first use. */
MF_MUST mf_status mf_rpc_stub_new(const mf_rpc_kind *rpc, const char *address,
                                  const mf_security *security, mf_rpc_stub **out);
/* Call it when no request is in flight. */
void mf_rpc_stub_free(mf_rpc_stub *c);
const char *mf_rpc_stub_address(const mf_rpc_stub *c);
/* True: a server is up; false also if that is unknown. Thread: any. */
bool mf_rpc_stub_reaches(const mf_rpc_stub *c);

/* Called with the reply; on failure the thread's error is set. reply: valid until the function
 * returns, or as long as the given arena. Thread: any; it must not wait for another reply. */
typedef void mf_rpc_answer_fn(void *ctx, mf_status status, ProtobufCMessage *reply);
/* done() is called once, possibly before this returns. After the return q is not used any more, but
 * q->cancel is until done() is called. arena: memory for the reply; NULL: a temporary one. Thread:
 * any. */
void mf_rpc_stub_start(mf_rpc_stub *c, const mf_rpc_stub_call *q, mf_arena *arena,
                       mf_rpc_answer_fn *done, void *ctx);

/* The same without decoding: done() takes ownership of the reply's parts. q->reply is ignored. */
typedef void mf_rpc_answer_parts_fn(void *ctx, mf_status status, mf_iovec *parts, int n);
void mf_rpc_stub_start_parts(mf_rpc_stub *c, const mf_rpc_stub_call *q,
                             mf_rpc_answer_parts_fn *done, void *ctx);

/* The same, blocking. Owns: *out is allocated in the arena. Fails with the server's status and
 * message; without a reply, with UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED. Thread: any,
 * concurrently. */
MF_MUST mf_status mf_rpc_stub_ask(mf_rpc_stub *c, const mf_rpc_stub_call *q, mf_arena *arena,
                                  ProtobufCMessage **out);

#endif
