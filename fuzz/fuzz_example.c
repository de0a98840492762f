/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_example.c - a tf.Example: decode, encode, decode, compare. */
#include "formats/example.h"

#include <stdint.h>
#include <string.h>

static void same(const mf_feature *a, const mf_feature *b)
{
    MF_ASSERT(strcmp(a->name, b->name) == 0 && a->type == b->type && a->n == b->n);
    if (a->n == 0)
        return;
    if (a->type == MF_DTYPE_F32)
        MF_ASSERT(memcmp(a->floats, b->floats, (size_t)a->n * sizeof(float)) == 0);
    if (a->type == MF_DTYPE_I64)
        MF_ASSERT(memcmp(a->ints, b->ints, (size_t)a->n * sizeof(int64_t)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_arena *arena = mf_arena_new();
    mf_example e, back;
    mf_buf bytes = { 0 };

    if (arena && mf_example_decode(data, size, arena, &e) == MF_OK) {
        MF_ASSERT(mf_example_encode(&e, &bytes) == MF_OK);
        MF_ASSERT(mf_example_decode(bytes.data, bytes.len, arena, &back) == MF_OK);
        MF_ASSERT(back.n == e.n);
        for (int64_t i = 0; i < e.n; i++)
            same(&e.features[i], &back.features[i]);
    }
    mf_buf_deinit(&bytes);
    mf_arena_free(arena);
    return 0;
}
