/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_bundle.c - the index of a checkpoint: decode, encode, decode, compare. The checksums of
 * blocks are
 * fixed first, otherwise no mutation would pass them. */
#include "formats/bundle.h"
#include "formats/crc32c.h"
#include "formats/table.h"

#include <stdint.h>
#include <string.h>

enum { FOOTER = 48, TRAILER = 5 };

/* Sets the checksum of the block that a handle refers to. */
static const char *repair_block(char *file, size_t len, const char *handle, const char *end,
                                size_t *size)
{
    uint64_t offset, n;
    uint32_t crc;

    if (!mf_varint_read(&handle, end, &offset) || !mf_varint_read(&handle, end, &n) ||
        offset > len || n > len - offset || len - offset - n < TRAILER)
        return NULL;
    crc = mf_crc32c_mask(mf_crc32c(0, file + offset, n + 1));
    memcpy(file + offset + n + 1, &crc, 4);
    *size = n;
    return file + offset;
}

/* The index block, and each block that it refers to (keys there have no shared prefixes). */
static void repair(char *file, size_t len)
{
    const char *at, *end, *index;
    uint64_t meta_offset, meta_size, shared, rest, value;
    size_t size;

    if (len < FOOTER)
        return;
    at = file + len - FOOTER;
    end = at + 40;
    if (!mf_varint_read(&at, end, &meta_offset) || !mf_varint_read(&at, end, &meta_size))
        return;
    index = repair_block(file, len - FOOTER, at, end, &size);
    for (const char *p = index, *stop = index ? index + size : NULL; p && p < stop;) {
        if (!mf_varint_read(&p, stop, &shared) || !mf_varint_read(&p, stop, &rest) ||
            !mf_varint_read(&p, stop, &value) || rest > (uint64_t)(stop - p) ||
            value > (uint64_t)(stop - p) - rest)
            return;
        (void)repair_block(file, len - FOOTER, p + rest, p + rest + value, &(size_t){ 0 });
        p += rest + value;
    }
    (void)repair_block(file, len - FOOTER, at, end, &size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_arena *arena = mf_arena_new();
    mf_bundle_entry *entries, *again;
    mf_buf copy = { 0 }, file = { 0 };
    int64_t n, n_again;
    int32_t shards, shards_again;

    mf_arena_limit(arena, (size_t)64 << 20);
    mf_buf_bytes(&copy, data, size);
    repair(copy.data, copy.len);
    if (mf_bundle_index_decode(copy.data, copy.len, arena, &entries, &n, &shards) == MF_OK) {
        MF_ASSERT(mf_bundle_index_encode(entries, n, shards, &file) == MF_OK);
        MF_ASSERT(mf_bundle_index_decode(file.data, file.len, arena, &again, &n_again,
                                         &shards_again) == MF_OK);
        MF_ASSERT(n == n_again && shards == shards_again);
        for (int64_t i = 0; i < n; i++)
            MF_ASSERT(entries[i].offset == again[i].offset &&
                      entries[i].n_slices == again[i].n_slices);
    }
    mf_buf_deinit(&copy);
    mf_buf_deinit(&file);
    mf_arena_free(arena);
    return 0;
}
