/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_dispatch.c - messages between a master and a worker. The first byte selects the message; if
 * it parses, it is encoded and parsed again. */
#include "dispatch/dispatch_wire.h"

#include <stdint.h>
#include <string.h>

static void fuzz_call(const uint8_t *data, size_t size, mf_arena *arena)
{
    mf_dispatch_call a, b = { 0 };
    mf_buf again = { 0 };

    if (mf_dispatch_call_decode(data, size, arena, &a) == MF_OK) {
        MF_ASSERT(mf_dispatch_call_encode(&a, &again) == MF_OK);
        MF_ASSERT(mf_dispatch_call_decode(again.data, again.len, arena, &b) == MF_OK);
        MF_ASSERT(a.id == b.id && a.n_feeds == b.n_feeds && a.n_fetches == b.n_fetches &&
                  a.n_targets == b.n_targets);
        MF_ASSERT(memcmp(&a.graph, &b.graph, sizeof a.graph) == 0);
        for (int i = 0; i < a.n_feeds; i++)
            MF_ASSERT(strcmp(a.feed_names[i], b.feed_names[i]) == 0 &&
                      a.feeds[i]->count == b.feeds[i]->count);
    }
    mf_tensors_clear(a.feeds, a.n_feeds);
    mf_tensors_clear(b.feeds, b.n_feeds);
    mf_buf_deinit(&again);
}

static void fuzz_answer(const uint8_t *data, size_t size, mf_arena *arena)
{
    mf_answer a, b = { 0 };
    mf_buf again = { 0 };

    if (mf_answer_decode(data, size, arena, &a) == MF_OK) {
        MF_ASSERT(mf_answer_encode(&a, &again) == MF_OK);
        MF_ASSERT(mf_answer_decode(again.data, again.len, arena, &b) == MF_OK);
        MF_ASSERT(a.id == b.id && a.status == b.status && a.ns == b.ns &&
                  a.n_values == b.n_values && strcmp(a.message, b.message) == 0);
    }
    mf_tensors_clear(a.values, a.n_values);
    mf_tensors_clear(b.values, b.n_values);
    mf_buf_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_arena *arena = mf_arena_new();
    int slots = 0;

    MF_ASSERT(arena);
    if (size > 0 && data[0] == MF_DISPATCH_CALL)
        fuzz_call(data + 1, size - 1, arena);
    else if (size > 0 && data[0] == MF_DISPATCH_RESULT)
        fuzz_answer(data + 1, size - 1, arena);
    else if (size > 0 && mf_ready_decode(data + 1, size - 1, arena, &slots) == MF_OK)
        MF_ASSERT(slots >= 0 && slots <= MF_SLOTS_MAX);
    mf_arena_free(arena);
    return 0;
}
