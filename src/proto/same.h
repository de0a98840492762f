/* SPDX-License-Identifier: Apache-2.0 */
/* same.h - compares two messages. */
#ifndef MF_PROTO_SAME_H
#define MF_PROTO_SAME_H

#include "proto/wire.h"

/* Both of one type, decoded by mf_wire_decode(). The order of map entries (messages whose names end
 * in "Entry") is ignored, and they are sorted in place; everything else is compared, unknown fields
 * included. Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_wire_same(ProtobufCMessage *a, ProtobufCMessage *b, bool *same);

#endif
