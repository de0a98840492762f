/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_message.c - encodes and decodes RecvTensorResponse without copying large tensors. Valid
 * messages in a form that we do not write (fields in another order or repeated, elements not as
 * bytes) are decoded in one piece. */
#include "proto/tensor_message.h"

#include "proto/wire.h"
#include "proto/worker.pb-c.h"

#include <string.h>

enum {
    APART = 4096, /* minimum number of bytes to be kept separate */
    TENSOR = 1 << 3 | 2, /* tags: of the tensor in the response, of its content */
    CONTENT = 4 << 3 | 2,
};

/* ---- writing ---- */

/* Everything up to the content, which comes last. */
static mf_status tensor_message_put_head(Tensorflow__TensorProto *tensor, mf_buf *out)
{
    const size_t bytes = tensor->tensor_content.len;
    mf_buf inner = { 0 };
    mf_status st;

    tensor->tensor_content = (ProtobufCBinaryData){ 0 };
    st = mf_wire_encode(&tensor->base, &inner);
    mf_wire_varint(out, TENSOR);
    mf_wire_varint(out, inner.len + 1 + mf_wire_varint_size(bytes) + bytes);
    mf_buf_bytes(out, inner.data, inner.len);
    mf_wire_varint(out, CONTENT);
    mf_wire_varint(out, bytes);
    mf_buf_deinit(&inner);
    return st == MF_OK ? mf_buf_finish(out) : st;
}

mf_status mf_tensor_message_make(const mf_tensor *value, mf_arena *arena, mf_buf *head,
                                 mf_iovec *content)
{
    Tensorflow__RecvTensorResponse out = TENSORFLOW__RECV_TENSOR_RESPONSE__INIT;

    *content = (mf_iovec){ 0 };
    out.is_dead = !value;
    if (value)
        MF_TRY(mf_tensor_encode(value, arena, &out.tensor));
    if (!value || out.tensor->tensor_content.len < APART)
        return mf_wire_encode(&out.base, head);
    if (out.tensor->tensor_content.len > INT32_MAX - APART)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "a value of %zu bytes is too large for a message: split it",
                       out.tensor->tensor_content.len);
    MF_TRY(tensor_message_put_head(out.tensor, head));
    *content = mf_buffer_part(mf_buffer_ref(value->buffer), value->data,
                              (size_t)value->count * mf_dtype_size(value->dtype));
    return MF_OK;
}

/* ---- reading ---- */

/* A position in the message. */
typedef struct tensor_message_cursor {
    const mf_iovec *parts;
    int n, i;
    size_t at; /* in parts[i] */
    size_t pos; /* in the message */
} tensor_message_cursor;

static bool next_byte(tensor_message_cursor *c, uint8_t *out)
{
    while (c->i < c->n && c->at == c->parts[c->i].size) {
        c->i++;
        c->at = 0;
    }
    if (c->i == c->n)
        return false;
    *out = ((const uint8_t *)c->parts[c->i].data)[c->at++];
    c->pos++;
    return true;
}

static bool next_varint(tensor_message_cursor *c, uint64_t *out)
{
    uint8_t byte = 0x80;

    *out = 0;
    for (int shift = 0; shift < 64 && byte & 0x80; shift += 7) {
        if (!next_byte(c, &byte))
            return false;
        *out |= (uint64_t)(byte & 0x7f) << shift;
    }
    return !(byte & 0x80);
}

static bool tensor_message_skip(tensor_message_cursor *c, uint64_t bytes)
{
    if (bytes > INT32_MAX)
        return false;
    c->pos += bytes;
    while (c->i < c->n && bytes >= c->parts[c->i].size - c->at) {
        bytes -= c->parts[c->i].size - c->at;
        c->i++;
        c->at = 0;
    }
    if (c->i < c->n) {
        c->at += bytes;
        return true;
    }
    return bytes == 0;
}

static bool tensor_message_skip_value(tensor_message_cursor *c, uint64_t tag)
{
    uint64_t v;

    switch (tag & 7) {
    case 0:
        return next_varint(c, &v);
    case 1:
        return tensor_message_skip(c, 8);
    case 2:
        return next_varint(c, &v) && tensor_message_skip(c, v);
    case 5:
        return tensor_message_skip(c, 4);
    default:
        return false;
    }
}

/* Positions of the fields, in bytes from the beginning. */
typedef struct places {
    size_t tensor, body, end; /* the tensor's tag, its bytes, what follows it; 0, 0, 0: none */
    size_t content, bytes, bytes_end; /* in it: the content's tag, its bytes, what follows */
} places;

/* False: the message must be decoded in one piece. */
static bool find_in_tensor(tensor_message_cursor *c, places *p)
{
    while (c->pos < p->end) {
        const size_t from = c->pos;
        uint64_t tag, len;

        if (!next_varint(c, &tag))
            return false;
        if (tag != CONTENT) {
            if (!tensor_message_skip_value(c, tag))
                return false;
            continue;
        }
        if (p->bytes_end > 0 || !next_varint(c, &len) || len > p->end - c->pos)
            return false;
        *p = (places){ p->tensor, p->body, p->end, from, c->pos, c->pos + len };
        if (!tensor_message_skip(c, len))
            return false;
    }
    return c->pos == p->end;
}

static bool find_content(const mf_iovec *parts, int n, places *p)
{
    const size_t total = mf_iovec_size(parts, n);
    tensor_message_cursor c = { .parts = parts, .n = n };

    *p = (places){ 0 };
    while (c.pos < total) {
        const size_t from = c.pos;
        uint64_t tag, len;

        if (!next_varint(&c, &tag))
            return false;
        if (tag != TENSOR) {
            if (!tensor_message_skip_value(&c, tag))
                return false;
            continue;
        }
        if (p->end > 0 || !next_varint(&c, &len) || len > total - c.pos)
            return false;
        *p = (places){ .tensor = from, .body = c.pos, .end = c.pos + len };
        if (!find_in_tensor(&c, p))
            return false;
    }
    return p->bytes_end > 0 && p->bytes_end - p->bytes >= APART;
}

static void tensor_message_append(const mf_iovec *parts, int n, size_t from, size_t to, mf_buf *out)
{
    void *room = to > from ? mf_buf_room(out, to - from) : NULL;

    if (room)
        mf_iovec_gather(parts, n, from, to - from, room);
}

static mf_status tensor_message_decode(mf_buf *bytes, mf_arena *arena,
                                       Tensorflow__RecvTensorResponse **out)
{
    ProtobufCMessage *m;

    MF_TRY(mf_buf_finish(bytes));
    MF_TRY(mf_wire_decode(&tensorflow__recv_tensor_response__descriptor, bytes->data, bytes->len,
                          NULL, arena, &m));
    *out = (Tensorflow__RecvTensorResponse *)m;
    return MF_OK;
}

static mf_status tensor_message_read_complete(const mf_iovec *parts, int n, mf_arena *arena,
                                              size_t max_bytes, mf_tensor *out, bool *dead)
{
    static const Tensorflow__TensorProto none = TENSORFLOW__TENSOR_PROTO__INIT;
    Tensorflow__RecvTensorResponse *m = NULL;
    mf_buf bytes = { 0 };
    mf_status st;

    tensor_message_append(parts, n, 0, mf_iovec_size(parts, n), &bytes);
    st = tensor_message_decode(&bytes, arena, &m);
    *dead = st == MF_OK && m->is_dead;
    if (st == MF_OK && !*dead)
        st = mf_tensor_decode(m->tensor ? m->tensor : &none, max_bytes, out);
    mf_buf_deinit(&bytes);
    return st;
}

/* The message without the content. */
static mf_status read_head(const mf_iovec *parts, int n, const places *p, mf_arena *arena,
                           Tensorflow__RecvTensorResponse **out)
{
    mf_buf bytes = { 0 };
    mf_status st;

    tensor_message_append(parts, n, 0, p->tensor, &bytes);
    mf_wire_varint(&bytes, TENSOR);
    mf_wire_varint(&bytes, p->end - p->body - (p->bytes_end - p->content));
    tensor_message_append(parts, n, p->body, p->content, &bytes);
    tensor_message_append(parts, n, p->bytes_end, mf_iovec_size(parts, n), &bytes);
    st = tensor_message_decode(&bytes, arena, out);
    mf_buf_deinit(&bytes);
    return st;
}

/* The part that is exactly the content; NULL: none. */
static mf_iovec *tensor_message_part_of(mf_iovec *parts, int n, const places *p)
{
    size_t at = 0;

    for (int i = 0; i < n && at <= p->bytes; at += parts[i++].size) {
        if (at == p->bytes && parts[i].size == p->bytes_end - p->bytes)
            return &parts[i];
    }
    return NULL;
}

/* *apart false: the message must be decoded in one piece. */
static mf_status read_apart(mf_iovec *parts, int n, const places *p, mf_arena *arena,
                            size_t max_bytes, mf_tensor *out, bool *apart)
{
    mf_iovec *stays = tensor_message_part_of(parts, n, p);
    Tensorflow__RecvTensorResponse *m;

    MF_TRY(read_head(parts, n, p, arena, &m));
    *apart = m->tensor && !m->is_dead && m->tensor->dtype != MF_DTYPE_STRING &&
             m->tensor->dtype != MF_DTYPE_BOOL;
    if (!*apart)
        return MF_OK;
    MF_TRY(mf_tensor_decode_apart(m->tensor, p->bytes_end - p->bytes, max_bytes, stays, out));
    if (out->buffer->read_only)
        stays->release = NULL; /* owned by the tensor now */
    else
        mf_iovec_gather(parts, n, p->bytes, p->bytes_end - p->bytes, out->data);
    return MF_OK;
}

static mf_status tensor_message_read_parts(mf_iovec *parts, int n, size_t max_bytes, mf_tensor *out,
                                           bool *dead)
{
    mf_arena *arena = mf_arena_new();
    bool apart = false;
    mf_status st = MF_OK;
    places p;

    *dead = false;
    if (!arena)
        return MF_NOMEM("a tensor");
    if (find_content(parts, n, &p))
        st = read_apart(parts, n, &p, arena, max_bytes, out, &apart);
    if (st == MF_OK && !apart)
        st = tensor_message_read_complete(parts, n, arena, max_bytes, out, dead);
    mf_arena_free(arena);
    return st;
}

mf_status mf_tensor_message_read(mf_iovec *parts, int n, size_t max_bytes, mf_tensor *out,
                                 bool *dead)
{
    const mf_status st = tensor_message_read_parts(parts, n, max_bytes, out, dead);

    mf_iovec_release(parts, n);
    return st;
}
