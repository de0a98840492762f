/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - decodes untrusted protobuf bytes.
 *
 * protobuf-c handles well-formed messages, but it recurses without limit, merges a sub-message
 * given n times in n^2 steps, accepts text with NUL bytes, and turns two bytes into several
 * hundred. The bytes are therefore first checked along the message's descriptor, and protobuf-c
 * sees only bytes that passed. After mf_wire_decode() these hold for every message in the tree:
 *
 *   1. nested at most max_depth deep;
 *   2. `string` fields are UTF-8 without NUL;
 *   3. a singular sub-message, and a member of a oneof, occurred at most once;
 *   4. fields have the wire type of their declaration; there are no groups;
 *   5. its memory stays within max_alloc.
 *
 * Fields that the descriptor does not know are kept and written again by mf_wire_encode(); only
 * their framing is checked. */
#ifndef MF_PROTO_WIRE_H
#define MF_PROTO_WIRE_H

#include "base/buf.h"
#include "base/mem.h"
#include "base/status.h"

#include <protobuf-c/protobuf-c.h>

enum { MF_WIRE_DEPTH = 64, MF_WIRE_DEPTH_MAX = 200 };

/* 0 in a field selects its default. */
typedef struct mf_wire_limits {
    int max_depth; /* nesting of messages, the outermost counts as 1; at most MF_WIRE_DEPTH_MAX.
                      Default: MF_WIRE_DEPTH */
    size_t max_bytes; /* of the complete message. Default: 2 GiB - 1, the maximum of protobuf */
    size_t max_alloc; /* memory of the decoded form. Default: 16 MiB plus 32 times the message;
                         graphs take about 10 times their bytes */
} mf_wire_limits;

/* Would mf_wire_decode() accept these bytes? Time linear in `len`, no allocation. limits: NULL for
 * the defaults.
 * Fails: INVALID_ARGUMENT "node[3].attr[0].value.tensor: length 99 runs past the end of the
 * message", RESOURCE_EXHAUSTED (max_bytes, max_alloc). */
MF_MUST mf_status mf_wire_check(const ProtobufCMessageDescriptor *desc, const void *data,
                                size_t len, const mf_wire_limits *limits);

/* Check, then decode into memory of `arena`. The result does not refer to `data`.
 * Owns: *out is valid as long as the arena; never call protobuf-c's free on it.
 * Fails: as mf_wire_check(), and RESOURCE_EXHAUSTED (arena). */
MF_MUST mf_status mf_wire_decode(const ProtobufCMessageDescriptor *desc, const void *data,
                                 size_t len, const mf_wire_limits *limits, mf_arena *arena,
                                 ProtobufCMessage **out);

/* Append the message's bytes. Fails: RESOURCE_EXHAUSTED (memory; more than 2 GiB - 1). */
MF_MUST mf_status mf_wire_encode(const ProtobufCMessage *message, mf_buf *out);

/* Append a varint, for messages built from separate buffers; and the number of its bytes. */
void mf_wire_varint(mf_buf *out, uint64_t v);
size_t mf_wire_varint_size(uint64_t v);

/* Bytes of one element in a repeated field of a decoded message. */
size_t mf_wire_element_size(ProtobufCType type);

/* Length of the well-formed UTF-8 prefix of s[0..len): len if all of it is well-formed. */
size_t mf_utf8_span(const void *s, size_t len);
/* Replace invalid bytes by '?': error messages may contain bytes of tensors, and `string` fields
 * must be UTF-8. */
void mf_utf8_sanitize(char *text);

#endif
