/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - sorted tables of byte strings in one file: the subset of LevelDB's format that
 * TensorFlow's checkpoints use, without compression and filters.
 *
 *   file    = block* metaindex-block index-block footer
 *   block   = entry* restart:u32* n_restarts:u32  type:u8(0) masked-crc32c:u32
 *   entry   = shared:varint rest:varint value_len:varint key-rest value
 *   footer  = metaindex-handle index-handle, padded to 40 bytes, then the magic number:u64
 *   handle  = offset:varint size:varint (of a block without its last five bytes) */
#ifndef MF_FORMATS_TABLE_H
#define MF_FORMATS_TABLE_H

#include "base/buf.h"
#include "base/mem.h"

typedef struct mf_table_entry {
    const char *key, *value; /* key: in the arena; value: in the file's bytes */
    size_t key_len, value_len;
} mf_table_entry;

/* All entries in order. Checksums, lengths and the order of keys are verified.
 * Owns: *out is allocated in the arena and refers to `data`. Fails: DATA_LOSS, RESOURCE_EXHAUSTED.
 */
MF_MUST mf_status mf_table_decode(const void *data, size_t len, mf_arena *arena,
                                  mf_table_entry **out, int64_t *n);

/* Append the file of these entries, which must have strictly ascending keys. */
void mf_table_encode(const mf_table_entry *entries, int64_t n, mf_buf *out);

/* Varints, also for other formats: false if the bytes end or the number is too large. */
bool mf_varint_read(const char **p, const char *end, uint64_t *out);
void mf_varint_write(mf_buf *out, uint64_t value);

#endif
