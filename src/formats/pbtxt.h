/* SPDX-License-Identifier: Apache-2.0 */
/* pbtxt.h - protobuf's text format, for any message with a protobuf-c descriptor.
 *
 * The output equals that of google.protobuf.text_format, byte for byte. The reader supports
 * everything that TensorFlow's files use: comments, both kinds of brackets, lists, joined strings,
 * all escapes, enum names. Element types are plain int32 in our messages; in text they are DT_FLOAT
 * and so on.
 *
 * Fields that our descriptors do not have (src/proto/graph.proto lists them) are not supported.
 * Fields that TensorFlow writes are skipped when read; other unknown names are refused. */
#ifndef MF_FORMATS_PBTXT_H
#define MF_FORMATS_PBTXT_H

#include "base/buf.h"
#include "base/mem.h"
#include "base/status.h"

#include <protobuf-c/protobuf-c.h>

enum { MF_PBTXT_DEPTH = 64 }; /* maximum nesting of messages */

/* Time and memory are linear in `len`; limit the arena to limit the memory.
 * Owns: *out is allocated in the arena.
 * Fails: INVALID_ARGUMENT "line 3, column 7: NodeDef has no field 'nam'", RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_pbtxt_decode(const ProtobufCMessageDescriptor *desc, const char *text,
                                  size_t len, mf_arena *arena, ProtobufCMessage **out);

/* Append the message as text. Map entries are sorted by key, so equal messages have equal text.
 * Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_pbtxt_encode(const ProtobufCMessage *message, mf_buf *out);

#endif
