/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - validates untrusted protobuf bytes before protobuf-c decodes them: nesting depth,
 * repeated sub-messages, text, memory.
 *
 * The walk mirrors protobuf_c_message_unpack() of protobuf-c 1.4.1 field by field, and counts what
 * that function will allocate. */
#include "proto/wire.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    WIRE_VARINT = 0,
    WIRE_64BIT = 1,
    WIRE_LEN = 2,
    WIRE_32BIT = 5,
    VARINT_MAX = 10, /* bytes of a 64-bit varint */
    SHORT_VARINT = 5, /* bytes of a tag or a length */
    FIELDS_MAX = 256, /* maximum in one of our descriptors */
    PATH_TEXT = 512,
    SCANNED_BYTES = 32, /* bytes that protobuf-c allocates per field */
    SCANNED_FREE = 16, /* number of fields that it keeps on the stack */
};

typedef struct wire_walker {
    int max_depth;
    size_t max_alloc;
    size_t alloc; /* bytes protobuf-c will allocate */
} wire_walker;

/* One message of the descent; on the stack of walk_message(). */
typedef struct frame {
    const struct frame *parent;
    const ProtobufCMessageDescriptor *desc;
    const ProtobufCFieldDescriptor
        *field; /* current field; NULL: unknown, or its tag has not been read yet */
    const uint8_t *start, *end;
    const uint8_t *tag_at; /* first byte of the field being read */
    const uint8_t *at; /* next byte */
    uint32_t tag; /* number and wire type; 0: not read yet */
    int depth;
    int64_t fields, scanned_room; /* fields read so far; fields that protobuf-c has allocated slots
                                     for */
    uint64_t seen[FIELDS_MAX / 64];
} frame;

/* ---- bytes ---- */

/* Bytes of the varint at p, or 0 when it does not end within `max` bytes or before `end`. */
static int varint_len(const uint8_t *p, const uint8_t *end, int max)
{
    for (int i = 0; i < max && p + i < end; i++) {
        if (!(p[i] & 0x80))
            return i + 1;
    }
    return 0;
}

static uint64_t varint_value(const uint8_t *p, int len)
{
    uint64_t v = 0;

    for (int i = 0; i < len; i++)
        v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
    return v;
}

/* Length of the well-formed UTF-8 sequence at s (Unicode 15, table 3-7), or 0. */
static size_t utf8_one(const uint8_t *s, size_t left)
{
    const size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    uint8_t low = 0x80, high = 0xbf;

    if (n == 0 || s[0] > 0xf4 || n > left)
        return 0;
    if (s[0] == 0xe0)
        low = 0xa0; /* no overlong forms */
    else if (s[0] == 0xed)
        high = 0x9f; /* no surrogates */
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4)
        high = 0x8f; /* not above U+10FFFF */
    for (size_t i = 1; i < n; i++) {
        if (s[i] < low || s[i] > high)
            return 0;
        low = 0x80;
        high = 0xbf;
    }
    return n;
}

size_t mf_utf8_span(const void *s, size_t len)
{
    const uint8_t *p = s;
    size_t i = 0;

    while (i < len) {
        const size_t n = utf8_one(p + i, len - i);

        if (n == 0)
            break;
        i += n;
    }
    return i;
}

/* ---- errors ---- */

/* How many fields with this frame's tag number precede the current one. Runs once, for an error
 * message; the bytes it skips have been checked. */
static int64_t field_index(const frame *f)
{
    int64_t index = 0;

    for (const uint8_t *p = f->start; p < f->tag_at;) {
        const int tag_len = varint_len(p, f->end, SHORT_VARINT);
        const uint64_t tag = varint_value(p, tag_len);
        int len;

        index += tag >> 3 == f->tag >> 3;
        p += tag_len;
        len = varint_len(p, f->end, VARINT_MAX);
        switch (tag & 7) {
        case WIRE_VARINT:
            p += len;
            break;
        case WIRE_64BIT:
            p += 8;
            break;
        case WIRE_32BIT:
            p += 4;
            break;
        default:
            p += (uint64_t)len + varint_value(p, len);
        }
    }
    return index;
}

static size_t path_append(const frame *f, char text[PATH_TEXT])
{
    size_t at = f->parent ? path_append(f->parent, text) : 0;
    int n;

    if (f->tag == 0 || at >= PATH_TEXT - 1)
        return at;
    if (!f->field)
        n = snprintf(text + at, PATH_TEXT - at, "%sfield %u", at ? "." : "", f->tag >> 3);
    else if (f->field->label == PROTOBUF_C_LABEL_REPEATED)
        n = snprintf(text + at, PATH_TEXT - at, "%s%s[%lld]", at ? "." : "", f->field->name,
                     (long long)field_index(f));
    else
        n = snprintf(text + at, PATH_TEXT - at, "%s%s", at ? "." : "", f->field->name);
    at += n < 0 ? 0 : (size_t)n;
    return at < PATH_TEXT ? at : PATH_TEXT - 1;
}

/* "node[3].attr[0].value"; the message's name if no field was started. */
static const char *wire_path_of(const frame *f, char text[PATH_TEXT])
{
    if (path_append(f, text) == 0)
        (void)snprintf(text, PATH_TEXT, "%s", f->desc->short_name);
    return text;
}

#define FAIL_AT(f, code, ...) fail_at((f), (code), __FILE__, __LINE__, __func__, __VA_ARGS__)

static mf_status fail_at(const frame *f, mf_status code, const char *file, int line,
                         const char *func, const char *fmt, ...) MF_PRINTF(6, 7)
    __attribute__((cold));

static mf_status fail_at(const frame *f, mf_status code, const char *file, int line,
                         const char *func, const char *fmt, ...)
{
    char path[PATH_TEXT], what[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return mf_error_new(code, file, line, func, "%s: %s", wire_path_of(f, path), what);
}

/* ---- the allocation budget ---- */

static mf_status spend(wire_walker *w, const frame *f, size_t bytes)
{
    w->alloc += (bytes + 15) / 16 * 16; /* cannot wrap: every step is bounded by the message */
    if (w->alloc > w->max_alloc)
        return FAIL_AT(f, MF_RESOURCE_EXHAUSTED,
                       "the decoded message would need more than %zu bytes of memory",
                       w->max_alloc);
    return MF_OK;
}

/* protobuf-c notes fields in slabs of 32, 64, 128, ... after the first 16. */
static mf_status spend_scanned(wire_walker *w, frame *f)
{
    int64_t slab = SCANNED_FREE;

    if (f->fields++ < f->scanned_room)
        return MF_OK;
    while (f->scanned_room > slab * 2 - SCANNED_FREE)
        slab *= 2;
    if (f->scanned_room > 0)
        slab *= 2;
    f->scanned_room += slab;
    return f->fields == 1 ? MF_OK : spend(w, f, (size_t)slab * SCANNED_BYTES);
}

size_t mf_wire_element_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

/* ---- fields ---- */

/* The wire type of one value; -1: the descriptor is not one of ours. */
static int wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
        return WIRE_VARINT;
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_32BIT;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_64BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_LEN;
    default:
        return -1;
    }
}

static mf_status read_tag(frame *f)
{
    const int len = varint_len(f->at, f->end, SHORT_VARINT);
    uint64_t tag;

    f->tag_at = f->at;
    f->tag = 0;
    f->field = NULL;
    if (len == 0)
        return FAIL_AT(f, MF_INVALID_ARGUMENT,
                       "byte %td: the tag of a field is cut off or too long", f->at - f->start);
    tag = varint_value(f->at, len);
    if (tag > UINT32_MAX || tag >> 3 == 0)
        return FAIL_AT(f, MF_INVALID_ARGUMENT, "byte %td: %llu is not a field number",
                       f->at - f->start, (unsigned long long)(tag >> 3));
    f->tag = (uint32_t)tag;
    f->at += len;
    f->field = protobuf_c_message_descriptor_get_field(f->desc, f->tag >> 3);
    return MF_OK;
}

/* Skip the value at f->at. *value and *len: its bytes, without the length prefix. */
static mf_status wire_read_value(frame *f, const uint8_t **value, size_t *len)
{
    const size_t left = (size_t)(f->end - f->at);
    int n = 0;
    uint64_t bytes;

    switch (f->tag & 7) {
    case WIRE_VARINT:
        n = varint_len(f->at, f->end, VARINT_MAX);
        bytes = (uint64_t)n;
        if (n == 0)
            return FAIL_AT(f, MF_INVALID_ARGUMENT, "the number is cut off or too long");
        n = 0;
        break;
    case WIRE_64BIT:
        bytes = 8;
        break;
    case WIRE_32BIT:
        bytes = 4;
        break;
    case WIRE_LEN:
        n = varint_len(f->at, f->end, SHORT_VARINT);
        if (n == 0)
            return FAIL_AT(f, MF_INVALID_ARGUMENT, "the length is cut off or too long");
        bytes = varint_value(f->at, n);
        break;
    default:
        return FAIL_AT(f, MF_INVALID_ARGUMENT, "wire type %u is not supported", f->tag & 7);
    }
    if (bytes > left - (size_t)n)
        return FAIL_AT(f, MF_INVALID_ARGUMENT, "length %llu runs past the end of the message",
                       (unsigned long long)bytes);
    *value = f->at + n;
    *len = (size_t)bytes;
    f->at = *value + bytes;
    return MF_OK;
}

/* A singular sub-message, and a member of a oneof, may occur once. */
static mf_status check_once(frame *f)
{
    const ProtobufCFieldDescriptor *field = f->field;
    const bool oneof = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    const unsigned index = (unsigned)(field - f->desc->fields);

    if (field->label == PROTOBUF_C_LABEL_REPEATED ||
        (!oneof && field->type != PROTOBUF_C_TYPE_MESSAGE))
        return MF_OK;
    for (unsigned i = 0; i < f->desc->n_fields; i++) {
        const ProtobufCFieldDescriptor *other = &f->desc->fields[i];
        const bool rival = i == index || (oneof && (other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
                                          other->quantifier_offset == field->quantifier_offset);

        if (!rival || !(f->seen[i / 64] >> (i % 64) & 1))
            continue;
        if (i == index)
            return FAIL_AT(f, MF_INVALID_ARGUMENT, "given twice");
        return FAIL_AT(f, MF_INVALID_ARGUMENT, "only one of '%s' and '%s' may be given",
                       other->name, field->name);
    }
    f->seen[index / 64] |= (uint64_t)1 << (index % 64);
    return MF_OK;
}

static mf_status check_text(const frame *f, const uint8_t *value, size_t len)
{
    const size_t good = mf_utf8_span(value, len);

    if (good < len)
        return FAIL_AT(f, MF_INVALID_ARGUMENT, "byte %zu of the text is not UTF-8", good);
    if (len > 0 && memchr(value, 0, len))
        return FAIL_AT(f, MF_INVALID_ARGUMENT, "the text contains a NUL byte");
    return MF_OK;
}

/* *count: elements in the bytes of a packed field. */
static mf_status check_packed(const frame *f, const uint8_t *value, size_t len, size_t *count)
{
    const uint8_t *end = value + len;
    const int wire = wire_type_of(f->field->type);

    *count = 0;
    if (wire != WIRE_VARINT) {
        const size_t size = wire == WIRE_64BIT ? 8 : 4;

        if (len % size != 0)
            return FAIL_AT(f, MF_INVALID_ARGUMENT, "length %zu is not a multiple of %zu", len,
                           size);
        *count = len / size;
        return MF_OK;
    }
    for (const uint8_t *p = value; p < end; ++*count) {
        const int n = varint_len(p, end, VARINT_MAX);

        if (n == 0)
            return FAIL_AT(f, MF_INVALID_ARGUMENT, "value %zu is cut off or too long", *count);
        p += n;
    }
    if (f->field->type == PROTOBUF_C_TYPE_BOOL)
        *count = len; /* protobuf-c allocates by bytes here */
    return MF_OK;
}

static mf_status walk_message(wire_walker *w, const frame *parent,
                              const ProtobufCMessageDescriptor *desc, const uint8_t *data,
                              size_t len);

/* A field the descriptor knows. */
static mf_status walk_field(wire_walker *w, frame *f, const uint8_t *value, size_t len)
{
    const ProtobufCFieldDescriptor *field = f->field;
    const int wire = wire_type_of(field->type);
    const bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    const bool packed = repeated && wire != WIRE_LEN && (f->tag & 7) == WIRE_LEN;
    size_t count = 1;

    if ((int)(f->tag & 7) != wire && !packed)
        return FAIL_AT(f, MF_INVALID_ARGUMENT, "wire type %u instead of %d", f->tag & 7, wire);
    MF_TRY(check_once(f));
    if (packed)
        MF_TRY(check_packed(f, value, len, &count));
    if (repeated)
        MF_TRY(spend(w, f, count * mf_wire_element_size(field->type)));
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        MF_TRY(check_text(f, value, len));
        return spend(w, f, len + 1);
    case PROTOBUF_C_TYPE_BYTES:
        return spend(w, f, len);
    case PROTOBUF_C_TYPE_MESSAGE:
        return walk_message(w, f, field->descriptor, value, len);
    default:
        return MF_OK;
    }
}

static mf_status walk_message(wire_walker *w, const frame *parent,
                              const ProtobufCMessageDescriptor *desc, const uint8_t *data,
                              size_t len)
{
    frame f = { .parent = parent,
                .desc = desc,
                .start = data,
                .end = data + len,
                .at = data,
                .depth = parent ? parent->depth + 1 : 1 };

    MF_ASSERT(desc->n_fields <= FIELDS_MAX);
    if (f.depth > w->max_depth)
        return FAIL_AT(&f, MF_INVALID_ARGUMENT, "messages are nested more than %d deep",
                       w->max_depth);
    MF_TRY(spend(w, &f, desc->sizeof_message));
    while (f.at < f.end) {
        const uint8_t *value = NULL;
        size_t value_len = 0;

        MF_TRY(read_tag(&f));
        MF_TRY(wire_read_value(&f, &value, &value_len));
        MF_TRY(spend_scanned(w, &f));
        if (f.field) {
            MF_TRY(walk_field(w, &f, value, value_len));
        } else {
            MF_TRY(spend(w, &f, sizeof(ProtobufCMessageUnknownField)));
            MF_TRY(spend(w, &f, (size_t)(f.at - f.tag_at)));
        }
    }
    return MF_OK;
}

mf_status mf_wire_check(const ProtobufCMessageDescriptor *desc, const void *data, size_t len,
                        const mf_wire_limits *limits)
{
    const mf_wire_limits l = limits ? *limits : (mf_wire_limits){ 0 };
    const size_t max_bytes = l.max_bytes > 0 && l.max_bytes < INT_MAX ? l.max_bytes : INT_MAX;
    wire_walker w = { .max_depth = l.max_depth > 0 ? l.max_depth : MF_WIRE_DEPTH,
                      .max_alloc = l.max_alloc };

    MF_ASSERT(w.max_depth <= MF_WIRE_DEPTH_MAX);
    if (len > max_bytes)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "%s: %zu bytes, more than the limit of %zu",
                       desc->short_name, len, max_bytes);
    if (w.max_alloc == 0)
        w.max_alloc = ((size_t)16 << 20) + 32 * len;
    return walk_message(&w, NULL, desc, len > 0 ? data : (const void *)"", len);
}

/* ---- decoding ---- */

typedef struct arena_source {
    mf_arena *arena;
    bool failed;
} arena_source;

static void *source_alloc(void *ctx, size_t size)
{
    arena_source *source = ctx;
    void *p = size > INT64_MAX ? NULL : mf_arena_alloc(source->arena, (int64_t)size, 1);

    source->failed |= !p;
    return p;
}

static void source_free(void *ctx, void *p)
{
    (void)ctx;
    (void)p;
}

mf_status mf_wire_decode(const ProtobufCMessageDescriptor *desc, const void *data, size_t len,
                         const mf_wire_limits *limits, mf_arena *arena, ProtobufCMessage **out)
{
    arena_source source = { .arena = arena };
    ProtobufCAllocator allocator = { source_alloc, source_free, &source };

    *out = NULL;
    MF_TRY(mf_wire_check(desc, data, len, limits));
    *out = protobuf_c_message_unpack(desc, &allocator, len, len > 0 ? data : (const void *)"");
    if (*out)
        return MF_OK;
    if (source.failed)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "%s: no memory to decode %zu bytes", desc->short_name,
                       len);
    return MF_FAIL(MF_INVALID_ARGUMENT, "%s: protobuf-c refused the message", desc->short_name);
}

/* ---- encoding ---- */

void mf_wire_varint(mf_buf *out, uint64_t v)
{
    uint8_t bytes[VARINT_MAX];
    size_t n = 0;

    do {
        bytes[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        v >>= 7;
    } while (v > 0);
    mf_buf_bytes(out, bytes, n);
}

size_t mf_wire_varint_size(uint64_t v)
{
    size_t n = 1;

    for (; v > 0x7f; v >>= 7)
        n++;
    return n;
}

mf_status mf_wire_encode(const ProtobufCMessage *message, mf_buf *out)
{
    const size_t len = protobuf_c_message_get_packed_size(message);

    if (out->failed)
        return mf_buf_finish(out);
    if (len > INT_MAX)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "%s: %zu bytes are more than protobuf allows",
                       message->descriptor->short_name, len);
    MF_TRY(mf_grow(&out->data, &out->cap, (int64_t)(out->len + len + 1), 1));
    out->len += protobuf_c_message_pack(message, (uint8_t *)out->data + out->len);
    out->data[out->len] = '\0';
    return MF_OK;
}

void mf_utf8_sanitize(char *text)
{
    const size_t len = strlen(text);
    size_t n;

    while ((n = mf_utf8_span(text, len)) < len)
        text[n] = '?';
}
