/* SPDX-License-Identifier: Apache-2.0 */
/* pbtxt.h - protobuf's text format, for any message protobuf-c has a descriptor of.
 *
 * Written as google.protobuf.text_format prints it, byte for byte; read with everything that
 * TensorFlow's files use: comments, both kinds of brackets, lists, joined strings, all escapes,
 * enum names. Element types are plain int32 in our messages; in text they are DT_FLOAT and so on.
 *
 * Not in text: fields our descriptors leave out (src/proto/graph.proto says which). Those that
 * TensorFlow writes are skipped when read; other unknown names are refused. */
#ifndef MF_FORMATS_PBTXT_H
#define MF_FORMATS_PBTXT_H

#include "base/buf.h"
#include "base/mem.h"
#include "base/status.h"

#include <protobuf-c/protobuf-c.h>

enum { MF_PBTXT_DEPTH = 64 }; /* messages inside messages */

/* Time and memory are linear in `len`; limit the arena to limit the memory.
 * Owns: *out lives in the arena.
 * Fails: INVALID_ARGUMENT "line 3, column 7: NodeDef has no field 'nam'", RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_pbtxt_decode(const ProtobufCMessageDescriptor *desc, const char *text,
                                  size_t len, mf_arena *arena, ProtobufCMessage **out);

/* Append the message as text. Entries of maps are sorted by key, so equal messages have equal text.
 * Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_pbtxt_encode(const ProtobufCMessage *message, mf_buf *out);

#endif
