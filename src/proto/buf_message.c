/* SPDX-License-Identifier: Apache-2.0 */
/* buf_message.c - encodes and decodes RecvBufResponse without copying large contents. A message in
 * the form that we write is recognised by its first bytes; any other form is decoded as a message.
 */
#include "proto/buf_message.h"

#include "base/mem.h"
#include "proto/wire.h"
#include "proto/worker.pb-c.h"

#include <string.h>

#define TYPE "type.googleapis.com/tensorflow.RecvBufRespExtra"

enum {
    APART = 4096, /* minimum number of bytes to be kept separate */
    ALIGN = 16,
    EXTRA = 4 << 3 | 2, /* tags: of the `extra` field of the response, */
    TYPE_URL = 1 << 3 | 2, /* of the type URL in it, */
    VALUE = 2 << 3 | 2,
    CONTENT = 1 << 3 | 2, /* and of the bytes */
};

/* ---- writing ---- */

/* Everything up to the bytes, which come last. */
static mf_status buf_message_put_head(size_t bytes, mf_buf *out)
{
    const size_t value = 1 + mf_wire_varint_size(bytes) + bytes, type = strlen(TYPE);

    mf_wire_varint(out, EXTRA);
    mf_wire_varint(out,
                   1 + mf_wire_varint_size(type) + type + 1 + mf_wire_varint_size(value) + value);
    mf_wire_varint(out, TYPE_URL);
    mf_wire_varint(out, type);
    mf_buf_bytes(out, TYPE, type);
    mf_wire_varint(out, VALUE);
    mf_wire_varint(out, value);
    mf_wire_varint(out, CONTENT);
    mf_wire_varint(out, bytes);
    return mf_buf_finish(out);
}

mf_status mf_buf_message_make(const mf_tensor *value, mf_buf *head, mf_iovec *content)
{
    const size_t bytes = (size_t)value->count * mf_dtype_cell(value->dtype);

    *content = (mf_iovec){ 0 };
    if (bytes > INT32_MAX - APART)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "a piece of %zu bytes is too large for a message: split the value", bytes);
    MF_TRY(buf_message_put_head(bytes, head));
    if (bytes < APART) {
        mf_buf_bytes(head, value->data, bytes);
        return mf_buf_finish(head);
    }
    *content = mf_buffer_part(mf_buffer_ref(value->buffer), value->data, bytes);
    return MF_OK;
}

/* ---- reading ---- */

static mf_status buf_message_copy_out(const mf_iovec *parts, int n, size_t from, size_t bytes,
                                      mf_iovec *out)
{
    mf_buffer *b;

    MF_TRY(mf_buffer_new(MF_DTYPE_U8, (int64_t)bytes, &b));
    mf_iovec_gather(parts, n, from, bytes, b->data);
    *out = mf_buffer_part(b, b->data, bytes);
    return MF_OK;
}

/* The part that ends with the complete content and may be kept; NULL: none. */
static mf_iovec *buf_message_find_part(mf_iovec *parts, int n, size_t bytes)
{
    mf_iovec *last = n > 0 ? &parts[n - 1] : NULL;

    if (!last || !last->release || last->size < bytes || bytes < APART ||
        ((uintptr_t)last->data + last->size - bytes) % ALIGN != 0)
        return NULL;
    return last;
}

static mf_status buf_message_is_ours(const mf_iovec *parts, int n, size_t bytes, size_t *from,
                                     bool *out)
{
    mf_buf head = { 0 }, begins = { 0 };
    mf_status st = buf_message_put_head(bytes, &head);
    char *room = NULL;

    *out = st == MF_OK && mf_iovec_size(parts, n) == head.len + bytes;
    if (*out)
        room = mf_buf_room(&begins, head.len);
    if (room) {
        mf_iovec_gather(parts, n, 0, head.len, room);
        *out = memcmp(room, head.data, head.len) == 0;
    }
    if (st == MF_OK && *out && !room)
        st = MF_NOMEM("a message");
    *from = head.len;
    mf_buf_deinit(&head);
    mf_buf_deinit(&begins);
    return st;
}

/* Decodes any valid form as a message. */
static mf_status buf_message_read_message(const Tensorflow__RecvBufResponse *m, size_t bytes,
                                          mf_iovec *out)
{
    const Tensorflow__RecvBufContent *c = m->transport_options ? m->transport_options->value : NULL;
    const size_t n = c ? c->n_tensor_content : 0;
    mf_iovec *parts = mf_calloc((int64_t)n, sizeof *parts);
    mf_status st;

    if (!parts && n > 0)
        return MF_NOMEM("a message");
    for (size_t i = 0; i < n; i++)
        parts[i] =
            (mf_iovec){ .data = c->tensor_content[i].data, .size = c->tensor_content[i].len };
    if (mf_iovec_size(parts, (int)n) == bytes)
        st = buf_message_copy_out(parts, (int)n, 0, bytes, out);
    else
        st = MF_FAIL(MF_INVALID_ARGUMENT, "received %zu bytes instead of %zu",
                     mf_iovec_size(parts, (int)n), bytes);
    mf_free(parts);
    return st;
}

static mf_status buf_message_read_complete(const mf_iovec *parts, int n, size_t bytes,
                                           mf_iovec *out)
{
    const size_t total = mf_iovec_size(parts, n);
    mf_arena *arena = mf_arena_new();
    ProtobufCMessage *m = NULL;
    mf_iovec whole = { 0 };
    mf_status st = arena ? buf_message_copy_out(parts, n, 0, total, &whole) : MF_NOMEM("a message");

    if (st == MF_OK)
        st = mf_wire_decode(&tensorflow__recv_buf_response__descriptor, whole.data, total, NULL,
                            arena, &m);
    if (st == MF_OK)
        st = buf_message_read_message((const Tensorflow__RecvBufResponse *)m, bytes, out);
    mf_iovec_release(&whole, 1);
    mf_arena_free(arena);
    return st;
}

static mf_status buf_message_read_parts(mf_iovec *parts, int n, size_t bytes, mf_iovec *out)
{
    mf_iovec *stays;
    size_t from;
    bool ours;

    MF_TRY(buf_message_is_ours(parts, n, bytes, &from, &ours));
    if (!ours)
        return buf_message_read_complete(parts, n, bytes, out);
    stays = buf_message_find_part(parts, n, bytes);
    if (!stays)
        return buf_message_copy_out(parts, n, from, bytes, out);
    *out = (mf_iovec){ .data = (const char *)stays->data + stays->size - bytes,
                       .size = bytes,
                       .release = stays->release,
                       .ctx = stays->ctx };
    stays->release = NULL; /* owned by the content now */
    return MF_OK;
}

mf_status mf_buf_message_read(mf_iovec *parts, int n, size_t bytes, mf_iovec *out)
{
    mf_status st;

    *out = (mf_iovec){ 0 };
    st = buf_message_read_parts(parts, n, bytes, out);
    mf_iovec_release(parts, n);
    return st;
}
