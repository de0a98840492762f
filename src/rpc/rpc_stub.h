/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_stub.h - asking a server, message by message: one asks, and has the answer at once or later.
 */
#ifndef MF_RPC_RPC_STUB_H
#define MF_RPC_RPC_STUB_H

#include "base/cancel.h"
#include "base/mem.h"
#include "rpc/rpc.h"

#include <protobuf-c/protobuf-c.h>

typedef struct mf_rpc_stub mf_rpc_stub;

/* One question. */
typedef struct mf_rpc_stub_call {
    const char *method; /* "/tensorflow.MasterService/RunStep" */
    const ProtobufCMessage *message;
    const ProtobufCMessageDescriptor *reply; /* what the answer is */
    int64_t deadline_ns; /* 0: none */
    bool waits; /* until somebody listens there; else that is UNAVAILABLE at once */
    mf_cancel *cancel; /* ends it, with CANCELLED; NULL: nothing does */
    /* mf_rpc_stub_ask() calls it several times a second while it waits; NULL: nobody looks. */
    void (*look)(void *ctx);
    void *ctx;
} mf_rpc_stub_call;

/* address: "host:port". Connects when there is something to ask. */
MF_MUST mf_status mf_rpc_stub_new(const mf_rpc_kind *rpc, const char *address,
                                  const mf_security *security, mf_rpc_stub **out);
/* Nothing is being asked any more. */
void mf_rpc_stub_free(mf_rpc_stub *c);
const char *mf_rpc_stub_address(const mf_rpc_stub *c);
/* Somebody listens there now; false where that cannot be said. Thread: any. */
bool mf_rpc_stub_reaches(const mf_rpc_stub *c);

/* The answer, or why there is none: then the thread's error is set. reply: until it returns, unless
 * the arena was given. Thread: any; it must not wait for another answer. */
typedef void mf_rpc_answer_fn(void *ctx, mf_status status, ProtobufCMessage *reply);
/* done() is called once, perhaps before this returns. q is not needed any more then, but q->cancel
 * until done() is called. arena: where the reply goes; NULL: one of its own. Thread: any. */
void mf_rpc_stub_start(mf_rpc_stub *c, const mf_rpc_stub_call *q, mf_arena *arena,
                       mf_rpc_answer_fn *done, void *ctx);

/* The same; the answer is not read: done() takes over its parts. q->reply is not needed. */
typedef void mf_rpc_answer_parts_fn(void *ctx, mf_status status, mf_iovec *parts, int n);
void mf_rpc_stub_start_parts(mf_rpc_stub *c, const mf_rpc_stub_call *q,
                             mf_rpc_answer_parts_fn *done, void *ctx);

/* The same, and waits. Owns: *out lives in the arena. Fails with the server's status and words;
 * without an answer, with UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED. Thread: any, several at a
 * time. */
MF_MUST mf_status mf_rpc_stub_ask(mf_rpc_stub *c, const mf_rpc_stub_call *q, mf_arena *arena,
                                  ProtobufCMessage **out);

#endif
