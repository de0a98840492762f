/* SPDX-License-Identifier: Apache-2.0 */
/* packed.h - lossless files of named tensors that are small for tensors with few distinct values
 * (.mfz), such as the results of pruning, weight sharing and quantisation.
 *
 *     offset  bytes  content
 *     0       8      "MFPACK01"
 *     8       4      CRC-32C of all that follows, little-endian
 *     12             number of tensors; for each: name, type name (each a length and bytes),
 *                    rank, dimensions, method (a byte), length of its data, its data
 *
 * Numbers without a stated size are varints (7 bits per byte, lowest first). Method 0: plain
 * elements, little-endian (strings: length and bytes). Method 1: symbols:
 *
 *     1 byte    flags: 1: values per channel (the last dimension), else a list of values;
 *                      2: zeros are skipped; 4 (with 2): the other elements are plain,
 *                      without symbols
 *     values    per channel: a float s for each; symbol k means (k - 127) * s.
 *               list: their number, and their elements; symbol k means the k-th
 *     varint    (flag 2) number of nonzero elements; (flag 4) then these elements
 *     4 bits    for each symbol: length of its Huffman code (huffman.h); 255 symbols per channel
 *     varint, 4 bits each   (flag 2) the same for the number of zeros before an element,
 *               0 ... 255; 255: that many zeros, and more follow
 *     bits      (flag 2) zeros before it, then its symbol, for each element; else symbols alone */
#ifndef MF_FORMATS_PACKED_H
#define MF_FORMATS_PACKED_H

#include "base/mem.h"
#include "tensor/tensor.h"

typedef struct mf_packed_entry {
    const char *name;
    mf_dtype dtype;
    mf_shape shape;
    int64_t count; /* elements */
    int method;
    const uint8_t *data;
    size_t len;
} mf_packed_entry;

typedef struct mf_packed mf_packed;

/* Thread: one at a time. Fails: NOT_FOUND, PERMISSION_DENIED, DATA_LOSS, UNIMPLEMENTED (unsupported
 * type), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_packed_open(const char *path, mf_packed **out);
void mf_packed_close(mf_packed *p);
int64_t mf_packed_count(const mf_packed *p);
const mf_packed_entry *mf_packed_at(const mf_packed *p, int64_t i);
/* Owns: *out is an empty slot before, and stays one on failure. Fails: DATA_LOSS. */
MF_MUST mf_status mf_packed_unpack(const mf_packed_entry *e, mf_tensor *out);

/* Replace the file atomically. Equal tensors give equal bytes. Fails: UNIMPLEMENTED (a type whose
 * elements cannot be stored), and as mf_file_write(). */
MF_MUST mf_status mf_packed_write(const char *path, const char *const *names,
                                  const mf_tensor *const *tensors, int64_t n);

/* Decode from memory, which must outlive the entries, and encode to memory. Owns: entries are in
 * the arena. */
MF_MUST mf_status mf_packed_decode(const void *data, size_t len, mf_arena *arena,
                                   mf_packed_entry **out, int64_t *n);
MF_MUST mf_status mf_packed_encode(const char *const *names, const mf_tensor *const *tensors,
                                   int64_t n, mf_buf *out);

/* ---- shared by reader and writer ---- */

enum {
    MF_PACKED_HEAD = 12,
    MF_PACKED_RAW = 0,
    MF_PACKED_SYMBOLS = 1,
    MF_PACKED_BY_CHANNEL = 1, /* flags */
    MF_PACKED_GAPS = 2,
    MF_PACKED_PLAIN = 4,
    MF_PACKED_STEPS = 127, /* steps per channel on each side of zero */
    MF_PACKED_FAR = 255, /* 255 zeros, and more follow */
};
extern const char mf_packed_magic[8];

#endif
