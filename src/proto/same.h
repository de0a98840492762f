/* SPDX-License-Identifier: Apache-2.0 */
/* same.h - do two messages say the same? */
#ifndef MF_PROTO_SAME_H
#define MF_PROTO_SAME_H

#include "proto/wire.h"

/* Of one type, decoded by mf_wire_decode(). The order of a map's entries (messages whose names end
 * in "Entry") means nothing; everything else does, fields that nobody knows included. They are
 * sorted on the way. Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_wire_same(ProtobufCMessage *a, ProtobufCMessage *b, bool *same);

#endif
