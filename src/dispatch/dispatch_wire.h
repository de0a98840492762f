/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_wire.h - the protocol between a master and its workers: encoded calls and results.
 *
 * All messages are MF_MESSAGE_REQUEST with the same key, so they arrive in the order of sending;
 * the flags of the frame hold the kind of the message. */
#ifndef MF_DISPATCH_DISPATCH_WIRE_H
#define MF_DISPATCH_DISPATCH_WIRE_H

#include "base/buf.h"
#include "base/mem.h"
#include "net/net.h"
#include "tensor/tensor.h"

typedef enum mf_dispatch_message {
    MF_DISPATCH_READY = 1, /* worker, its first message: meshflow.Ready */
    MF_DISPATCH_PING, /* both, periodically: alive */
    MF_DISPATCH_GRAPH, /* master, before the first call of the graph: a GraphDef */
    MF_DISPATCH_CALL, /* meshflow.Call */
    MF_DISPATCH_RESULT, /* meshflow.Result */
    MF_DISPATCH_STOP, /* master, its last message */
} mf_dispatch_message;

enum { MF_DISPATCH_GROUP = 0x2001, MF_DIGEST_BYTES = 32, MF_SLOTS_MAX = 4096 };

/* Identifies a graph. */
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

/* Sends a message. */
MF_MUST mf_status mf_dispatch_send(mf_net *net, int to, mf_dispatch_message what, const void *data,
                                   size_t size, int64_t timeout_ns);

/* Appends to `out`. Fails: UNIMPLEMENTED (a tensor that cannot be sent), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_dispatch_call_encode(const mf_dispatch_call *call, mf_buf *out);
MF_MUST mf_status mf_answer_encode(const mf_answer *result, mf_buf *out);
MF_MUST mf_status mf_ready_encode(int slots, mf_buf *out);

/* Bytes of a peer. Decoded data is in the arena; tensors until they are cleared, which is allowed
 * after a failure, too. Fails: DATA_LOSS saying what is invalid, RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_dispatch_call_decode(const void *data, size_t len, mf_arena *arena,
                                          mf_dispatch_call *out);
MF_MUST mf_status mf_answer_decode(const void *data, size_t len, mf_arena *arena, mf_answer *out);
MF_MUST mf_status mf_ready_decode(const void *data, size_t len, mf_arena *arena, int *slots);
void mf_tensors_clear(mf_tensor **tensors, int n);

#endif
