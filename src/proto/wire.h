/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - protobuf bytes from strangers.
 *
 * protobuf-c reads well-formed messages well, but it recurses as deep as the bytes say, merges a
 * sub-message given n times in n^2 steps, takes text with NUL bytes, and turns two bytes into
 * several hundred. So the bytes are walked along the message's descriptor first, and protobuf-c
 * sees only what passed. After mf_wire_decode() these hold for every message in the tree:
 *
 *   1. nested at most max_depth deep;
 *   2. `string` fields are UTF-8 without NUL;
 *   3. a singular sub-message, and a member of a oneof, stood there at most once;
 *   4. fields have the wire type of their declaration; there are no groups;
 *   5. its memory stays within max_alloc.
 *
 * Fields the descriptor does not know are kept and written again by mf_wire_encode(); only their
 * framing is checked. */
#ifndef MF_PROTO_WIRE_H
#define MF_PROTO_WIRE_H

#include "base/buf.h"
#include "base/mem.h"
#include "base/status.h"

#include <protobuf-c/protobuf-c.h>

enum { MF_WIRE_DEPTH = 64, MF_WIRE_DEPTH_MAX = 200 };

/* 0 in a field: the default. */
typedef struct mf_wire_limits {
    int max_depth; /* messages inside messages, the outermost counts 1; at most
                      MF_WIRE_DEPTH_MAX. Default: MF_WIRE_DEPTH */
    size_t
        max_bytes; /* of the whole message; protobuf allows no more than the default, 2 GiB - 1 */
    size_t max_alloc; /* bytes of memory the decoded form may take. Default: 16 MiB and 32 times the
                         message; graphs take about 10 times their bytes */
} mf_wire_limits;

/* Would mf_wire_decode() accept these bytes? Time linear in `len`, no allocation.
 * limits: NULL for the defaults.
 * Fails: INVALID_ARGUMENT "node[3].attr[0].value.tensor: length 99 runs past the end of the
 * message", RESOURCE_EXHAUSTED (max_bytes, max_alloc). */
MF_MUST mf_status mf_wire_check(const ProtobufCMessageDescriptor *desc, const void *data,
                                size_t len, const mf_wire_limits *limits);

/* Check, then decode into memory of `arena`. Nothing of `data` is referred to afterwards.
 * Owns: *out lives as long as the arena; never call protobuf-c's free on it.
 * Fails: as mf_wire_check(), and RESOURCE_EXHAUSTED (arena). */
MF_MUST mf_status mf_wire_decode(const ProtobufCMessageDescriptor *desc, const void *data,
                                 size_t len, const mf_wire_limits *limits, mf_arena *arena,
                                 ProtobufCMessage **out);

/* Append the message's bytes. Fails: RESOURCE_EXHAUSTED (memory; more than 2 GiB - 1). */
MF_MUST mf_status mf_wire_encode(const ProtobufCMessage *message, mf_buf *out);

/* A number as protobuf writes it, for messages whose parts lie apart; and how many bytes that is.
 */
void mf_wire_varint(mf_buf *out, uint64_t v);
size_t mf_wire_varint_size(uint64_t v);

/* Bytes of one element in a repeated field of a decoded message. */
size_t mf_wire_element_size(ProtobufCType type);

/* Length of the well-formed UTF-8 prefix of s[0..len): equal to len when all of it is. */
size_t mf_utf8_span(const void *s, size_t len);
/* Bytes that are none become '?': messages may name bytes of tensors, and `string` fields must be
 * UTF-8. */
void mf_utf8_mend(char *text);

#endif
