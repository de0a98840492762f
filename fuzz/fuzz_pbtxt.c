/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_pbtxt.c - a GraphDef as text: parse, print, parse, print; both texts must be equal. */
#include "formats/pbtxt.h"
#include "proto/graph.pb-c.h"
#include "proto/wire.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const ProtobufCMessageDescriptor *desc = &tensorflow__graph_def__descriptor;
    mf_arena *arena = mf_arena_new();
    ProtobufCMessage *message;
    mf_buf first = { 0 }, second = { 0 }, bytes = { 0 };

    if (mf_pbtxt_decode(desc, (const char *)data, size, arena, &message) == MF_OK) {
        MF_ASSERT(mf_pbtxt_encode(message, &first) == MF_OK);
        MF_ASSERT(mf_wire_encode(message, &bytes) == MF_OK);
        MF_ASSERT(mf_wire_check(desc, bytes.data, bytes.len, NULL) == MF_OK);
        MF_ASSERT(mf_pbtxt_decode(desc, first.data, first.len, arena, &message) == MF_OK);
        MF_ASSERT(mf_pbtxt_encode(message, &second) == MF_OK);
        MF_ASSERT(first.len == second.len);
        MF_ASSERT(first.len == 0 || memcmp(first.data, second.data, first.len) == 0);
    }
    mf_buf_deinit(&first);
    mf_buf_deinit(&second);
    mf_buf_deinit(&bytes);
    mf_arena_free(arena);
    return 0;
}
