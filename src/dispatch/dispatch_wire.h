/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_wire.h - what a master and its workers say to each other: calls and results as bytes.
 *
 * All messages are MF_MESSAGE_REQUEST of one key, so they arrive in the order in which they were
 * sent; which one it is stands in the frame's flags. */
#ifndef MF_DISPATCH_DISPATCH_WIRE_H
#define MF_DISPATCH_DISPATCH_WIRE_H

#include "base/buf.h"
#include "base/mem.h"
#include "net/net.h"
#include "tensor/tensor.h"

typedef enum mf_dispatch_message {
    MF_DISPATCH_READY = 1, /* of a worker, the first: meshflow.Ready */
    MF_DISPATCH_PING, /* of both, now and then: still here */
    MF_DISPATCH_GRAPH, /* of the master, before the first call of it: a GraphDef */
    MF_DISPATCH_CALL, /* meshflow.Call */
    MF_DISPATCH_RESULT, /* meshflow.Result */
    MF_DISPATCH_STOP, /* of the master, the last */
} mf_dispatch_message;

enum { MF_DISPATCH_GROUP = 0x2001, MF_DIGEST_BYTES = 32, MF_SLOTS_MAX = 4096 };

/* How a graph is known. */
typedef struct mf_digest {
    uint8_t bytes[MF_DIGEST_BYTES];
} mf_digest;

mf_digest mf_digest_of(const void *data, size_t len); /* SHA-256 */

typedef struct mf_dispatch_call {
    int64_t id;
    mf_digest graph;
    const char *const *feed_names, *const *fetches, *const *targets;
    int n_feeds, n_fetches, n_targets;
    mf_tensor **feeds;
} mf_dispatch_call;

typedef struct mf_answer {
    int64_t id;
    mf_status status;
    const char *message; /* of a failure */
    mf_tensor **values;
    int n_values;
    int64_t ns; /* spent computing */
} mf_answer;

/* Send one. */
MF_MUST mf_status mf_dispatch_send(mf_net *net, int to, mf_dispatch_message what, const void *data,
                                   size_t size, int64_t timeout_ns);

/* Appended to `out`. Fails: UNIMPLEMENTED (a tensor that cannot travel), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_dispatch_call_encode(const mf_dispatch_call *call, mf_buf *out);
MF_MUST mf_status mf_answer_encode(const mf_answer *result, mf_buf *out);
MF_MUST mf_status mf_ready_encode(int slots, mf_buf *out);

/* Bytes of a peer. What is decoded lives in the arena, tensors until they are cleared, which is
 * allowed after a failure, too. Fails: DATA_LOSS saying what makes no sense, RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_dispatch_call_decode(const void *data, size_t len, mf_arena *arena,
                                          mf_dispatch_call *out);
MF_MUST mf_status mf_answer_decode(const void *data, size_t len, mf_arena *arena, mf_answer *out);
MF_MUST mf_status mf_ready_decode(const void *data, size_t len, mf_arena *arena, int *slots);
void mf_tensors_clear(mf_tensor **tensors, int n);

#endif
