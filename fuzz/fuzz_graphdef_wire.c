/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_graphdef_wire.c - an untrusted GraphDef: scan, decode, encode, and decode again. */
#include "proto/graph.pb-c.h"
#include "proto/wire.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const ProtobufCMessageDescriptor *desc = &tensorflow__graph_def__descriptor;
    const mf_wire_limits limits = { .max_alloc = (size_t)64 << 20 };
    mf_arena *arena = mf_arena_new();
    ProtobufCMessage *message, *again;
    mf_buf first = { 0 }, second = { 0 };

    /* The scan's estimate must cover what protobuf-c allocates. */
    mf_arena_limit(arena, limits.max_alloc);
    if (mf_wire_decode(desc, data, size, &limits, arena, &message) == MF_OK) {
        MF_ASSERT(mf_wire_encode(message, &first) == MF_OK);
        mf_arena_limit(arena, 0);
        MF_ASSERT(mf_wire_decode(desc, first.data, first.len, NULL, arena, &again) == MF_OK);
        MF_ASSERT(mf_wire_encode(again, &second) == MF_OK);
        MF_ASSERT(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    } else {
        MF_ASSERT(strstr(mf_error_message(), "protobuf-c refused") == NULL);
        MF_ASSERT(strstr(mf_error_message(), "no memory to decode") == NULL);
    }
    mf_buf_deinit(&first);
    mf_buf_deinit(&second);
    mf_arena_free(arena);
    return 0;
}
