/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_packed.c - a packed file: decode, unpack small tensors, pack them again, compare. The
 * checksum is
 * fixed first, so that mutations pass it. */
#include "formats/crc32c.h"
#include "formats/packed.h"

#include <string.h>

enum { MOST = 1 << 16 };

static void round_trip(const char *name, const mf_tensor *t, mf_arena *arena)
{
    mf_packed_entry *again;
    mf_tensor back = { 0 };
    mf_buf file = { 0 };
    int64_t n;

    MF_ASSERT(mf_packed_encode(&name, &t, 1, &file) == MF_OK);
    MF_ASSERT(mf_packed_decode(file.data, file.len, arena, &again, &n) == MF_OK && n == 1);
    MF_ASSERT(mf_packed_unpack(&again[0], &back) == MF_OK);
    MF_ASSERT(back.dtype == t->dtype && mf_shape_equal(&back.shape, &t->shape));
    if (mf_dtype_is_plain(t->dtype) && t->count > 0)
        MF_ASSERT(memcmp(t->data, back.data, (size_t)t->count * mf_dtype_size(t->dtype)) == 0);
    mf_tensor_clear(&back);
    mf_buf_deinit(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_arena *arena = mf_arena_new();
    uint8_t *file = mf_calloc((int64_t)size + 1, 1);
    mf_packed_entry *entries;
    int64_t n;

    if (size > 0)
        memcpy(file, data, size);
    if (size >= MF_PACKED_HEAD) {
        const uint32_t crc = mf_crc32c(0, file + MF_PACKED_HEAD, size - MF_PACKED_HEAD);

        memcpy(file + sizeof mf_packed_magic, &crc, sizeof crc);
    }
    if (mf_packed_decode(file, size, arena, &entries, &n) == MF_OK) {
        for (int64_t i = 0; i < n; i++) {
            mf_tensor t = { 0 };

            if (entries[i].count <= MOST && mf_packed_unpack(&entries[i], &t) == MF_OK)
                round_trip(entries[i].name, &t, arena);
            mf_tensor_clear(&t);
        }
    }
    mf_free(file);
    mf_arena_free(arena);
    return 0;
}
