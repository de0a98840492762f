/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_wire.c - encodes and decodes calls, results and errors between a master and its workers.
 */
#include "dispatch/dispatch_wire.h"

#include "base/clock.h"
#include "proto/dispatch.pb-c.h"
#include "proto/tensor_codec.h"
#include "proto/wire.h"

#include <nettle/sha2.h>
#include <string.h>

/* Memory that tensors may use for each byte of their message: an empty string takes two bytes
 * there. */
enum { TENSOR_FACTOR = 32 };

mf_digest mf_digest_of(const void *data, size_t len)
{
    struct sha256_ctx sha;
    mf_digest d;

    sha256_init(&sha);
    sha256_update(&sha, len, data);
    sha256_digest(&sha, sizeof d.bytes, d.bytes);
    return d;
}

mf_status mf_dispatch_send(mf_net *net, int to, mf_dispatch_message what, const void *data,
                           size_t size, int64_t timeout_ns)
{
    const mf_frame f = { .kind = MF_MESSAGE_REQUEST,
                         .flags = (uint16_t)what,
                         .group = MF_DISPATCH_GROUP,
                         .size = size };

    return mf_net_send(net, to, &f, data, mf_clock_ns() + timeout_ns);
}

/* ---- encoding ---- */

static mf_status encode_tensors(mf_tensor *const *tensors, int n, mf_arena *arena,
                                Tensorflow__TensorProto ***out)
{
    *out = MF_ARENA_ARRAY(arena, Tensorflow__TensorProto *, n);
    if (n > 0 && !*out)
        return MF_NOMEM("tensors");
    for (int i = 0; i < n; i++)
        MF_TRY(mf_tensor_encode(tensors[i], arena, &(*out)[i]));
    return MF_OK;
}

static char **dispatch_wire_names(const char *const *list)
{
    return (char **)(uintptr_t)list; /* protobuf-c does not change them */
}

mf_status mf_dispatch_call_encode(const mf_dispatch_call *call, mf_buf *out)
{
    mf_arena *arena = mf_arena_new();
    Meshflow__Call m = MESHFLOW__CALL__INIT;
    mf_digest graph = call->graph;
    mf_status st =
        arena ? encode_tensors(call->feeds, call->n_feeds, arena, &m.feeds) : MF_NOMEM("a call");

    m.id = call->id;
    m.graph = (ProtobufCBinaryData){ sizeof graph.bytes, graph.bytes };
    m.n_feeds = m.n_feed_names = (size_t)call->n_feeds;
    m.feed_names = dispatch_wire_names(call->feed_names);
    m.n_fetches = (size_t)call->n_fetches;
    m.fetches = dispatch_wire_names(call->fetches);
    m.n_targets = (size_t)call->n_targets;
    m.targets = dispatch_wire_names(call->targets);
    if (st == MF_OK)
        st = mf_wire_encode(&m.base, out);
    mf_arena_free(arena);
    return st;
}

mf_status mf_answer_encode(const mf_answer *result, mf_buf *out)
{
    mf_arena *arena = mf_arena_new();
    Meshflow__Result m = MESHFLOW__RESULT__INIT;
    mf_status st = arena ? encode_tensors(result->values, result->n_values, arena, &m.values)
                         : MF_NOMEM("a result");

    m.id = result->id;
    m.status = (int32_t)result->status;
    if (result->message)
        m.message =
            (ProtobufCBinaryData){ strlen(result->message), (uint8_t *)(uintptr_t)result->message };
    m.n_values = (size_t)result->n_values;
    m.nanoseconds = result->ns;
    if (st == MF_OK)
        st = mf_wire_encode(&m.base, out);
    mf_arena_free(arena);
    return st;
}

mf_status mf_ready_encode(int slots, mf_buf *out)
{
    Meshflow__Ready m = MESHFLOW__READY__INIT;

    m.slots = slots;
    return mf_wire_encode(&m.base, out);
}

/* ---- decoding ---- */

static mf_status dispatch_wire_decode(const ProtobufCMessageDescriptor *kind, const void *data,
                                      size_t len, mf_arena *arena, ProtobufCMessage **out)
{
    const mf_status st = mf_wire_decode(kind, data, len, NULL, arena, out);

    if (st != MF_INVALID_ARGUMENT)
        return st;
    return MF_FAIL(MF_DATA_LOSS, "invalid message: %.900s", mf_error_message());
}

/* Including its strings; at most `most`. */
static size_t dispatch_wire_bytes_of(const mf_tensor *t, size_t most)
{
    const mf_string *strings = t->data;
    size_t bytes = mf_tensor_bytes(t);

    for (int64_t i = 0; t->dtype == MF_DTYPE_STRING && i < t->count; i++)
        bytes += strings[i].len;
    return bytes < most ? bytes : most;
}

static mf_status decode_tensors(Tensorflow__TensorProto *const *protos, size_t n, size_t len,
                                mf_arena *arena, mf_tensor ***out, int *n_out)
{
    mf_tensor *cells = MF_ARENA_ARRAY(arena, mf_tensor, (int64_t)n);
    size_t left = TENSOR_FACTOR * len; /* of all tensors together */

    *n_out = 0;
    *out = MF_ARENA_ARRAY(arena, mf_tensor *, (int64_t)n);
    if (n > 0 && (!cells || !*out))
        return MF_NOMEM("tensors");
    for (size_t i = 0; i < n; i++) {
        const mf_status st =
            left > 0 ? mf_tensor_decode(protos[i], left, &cells[i])
                     : MF_FAIL(MF_RESOURCE_EXHAUSTED, "%zu tensors would need more than %zu bytes",
                               n, TENSOR_FACTOR * len);

        if (st != MF_OK)
            return st == MF_RESOURCE_EXHAUSTED
                       ? st
                       : MF_FAIL(MF_DATA_LOSS, "tensor %zu: %.900s", i, mf_error_message());
        (*out)[i] = &cells[i];
        ++*n_out;
        left -= dispatch_wire_bytes_of(&cells[i], left);
    }
    return MF_OK;
}

void mf_tensors_clear(mf_tensor **tensors, int n)
{
    for (int i = 0; i < n; i++)
        mf_tensor_clear(tensors[i]);
}

mf_status mf_dispatch_call_decode(const void *data, size_t len, mf_arena *arena,
                                  mf_dispatch_call *out)
{
    ProtobufCMessage *message;
    const Meshflow__Call *m;

    *out = (mf_dispatch_call){ 0 };
    MF_TRY(dispatch_wire_decode(&meshflow__call__descriptor, data, len, arena, &message));
    m = (const Meshflow__Call *)message;
    if (m->graph.len != sizeof out->graph.bytes)
        return MF_FAIL(MF_DATA_LOSS, "a call names its graph with %zu bytes instead of %d",
                       m->graph.len, MF_DIGEST_BYTES);
    if (m->n_feed_names != m->n_feeds)
        return MF_FAIL(MF_DATA_LOSS, "a call has %zu names for %zu feeds", m->n_feed_names,
                       m->n_feeds);
    out->id = m->id;
    memcpy(out->graph.bytes, m->graph.data, sizeof out->graph.bytes);
    out->feed_names = (const char *const *)m->feed_names;
    out->fetches = (const char *const *)m->fetches;
    out->n_fetches = (int)m->n_fetches;
    out->targets = (const char *const *)m->targets;
    out->n_targets = (int)m->n_targets;
    return decode_tensors(m->feeds, m->n_feeds, len, arena, &out->feeds, &out->n_feeds);
}

mf_status mf_answer_decode(const void *data, size_t len, mf_arena *arena, mf_answer *out)
{
    ProtobufCMessage *message;
    const Meshflow__Result *m;

    *out = (mf_answer){ 0 };
    MF_TRY(dispatch_wire_decode(&meshflow__result__descriptor, data, len, arena, &message));
    m = (const Meshflow__Result *)message;
    if (m->status < MF_OK || m->status > MF_UNAUTHENTICATED ||
        (m->status != MF_OK && m->n_values > 0) || m->nanoseconds < 0)
        return MF_FAIL(MF_DATA_LOSS, "invalid result: status %d, %zu values, %lld ns",
                       (int)m->status, m->n_values, (long long)m->nanoseconds);
    out->id = m->id;
    out->status = (mf_status)m->status;
    out->message = m->message.len == 0
                       ? ""
                       : mf_arena_strndup(arena, (const char *)m->message.data, m->message.len);
    if (!out->message)
        return MF_NOMEM("a result");
    out->ns = m->nanoseconds;
    return decode_tensors(m->values, m->n_values, len, arena, &out->values, &out->n_values);
}

mf_status mf_ready_decode(const void *data, size_t len, mf_arena *arena, int *slots)
{
    ProtobufCMessage *message;

    MF_TRY(dispatch_wire_decode(&meshflow__ready__descriptor, data, len, arena, &message));
    *slots = ((const Meshflow__Ready *)message)->slots;
    if (*slots < 0 || *slots > MF_SLOTS_MAX)
        return MF_FAIL(MF_DATA_LOSS, "invalid number of slots of a worker: %d", *slots);
    return MF_OK;
}
