/* SPDX-License-Identifier: Apache-2.0 */
/* packed.h - files of named tensors, small where tensors have few different values (.mfz): what
 * pruning, shared weights and quantisation leave. Nothing is lost: what is read has the bits of
 * what was written.
 *
 *     offset  bytes  what
 *     0       8      "MFPACK01"
 *     8       4      CRC-32C of all that follows, little-endian
 *     12             number of tensors; for each: name, type's name (each a length and letters),
 *                    rank, dimensions, method (a byte), length of its bytes, its bytes
 *
 * Numbers without another size are varints (7 bits a byte, the lowest first). Methods: 0, elements
 * as they are, little-endian (strings: length and letters); 1, symbols:
 *
 *     1 byte    flags: 1: values are by channel (the last dimension), else by a list;
 *                      2: zeros are left out; 4 (with 2): the others are as they are, without
 *                      symbols
 *     values    by channel: a float s for each; symbol k means (k - 127) * s.
 *               by list: how many, and their elements; symbol k means the k-th
 *     varint    (flag 2) how many elements are not zero; (flag 4) then these
 *     4 bits    for each symbol: length of its Huffman code (huffman.h); 255 symbols by channel
 *     varint, 4 bits each   (flag 2) the same for numbers of zeros before an element, 0 ... 255;
 *               255: so many, and then more of them
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

/* Thread: any, one at a time. Fails: NOT_FOUND, PERMISSION_DENIED, DATA_LOSS, UNIMPLEMENTED (a type
 * that we do not have), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_packed_open(const char *path, mf_packed **out);
void mf_packed_close(mf_packed *p);
int64_t mf_packed_count(const mf_packed *p);
const mf_packed_entry *mf_packed_at(const mf_packed *p, int64_t i);
/* Owns: *out is an empty slot before, and stays one on failure. Fails: DATA_LOSS. */
MF_MUST mf_status mf_packed_unpack(const mf_packed_entry *e, mf_tensor *out);

/* Replace the file whole or not at all. The same tensors give the same bytes. Fails: UNIMPLEMENTED
 * (a type without elements that can be stored), and as mf_file_write(). */
MF_MUST mf_status mf_packed_write(const char *path, const char *const *names,
                                  const mf_tensor *const *tensors, int64_t n);

/* The same from and to memory, which must outlive the entries. Owns: entries are in the arena. */
MF_MUST mf_status mf_packed_decode(const void *data, size_t len, mf_arena *arena,
                                   mf_packed_entry **out, int64_t *n);
MF_MUST mf_status mf_packed_encode(const char *const *names, const mf_tensor *const *tensors,
                                   int64_t n, mf_buf *out);

/* ---- between reading and writing ---- */

enum {
    MF_PACKED_HEAD = 12,
    MF_PACKED_RAW = 0,
    MF_PACKED_SYMBOLS = 1,
    MF_PACKED_BY_CHANNEL = 1, /* flags */
    MF_PACKED_GAPS = 2,
    MF_PACKED_PLAIN = 4,
    MF_PACKED_STEPS = 127, /* of a channel, on both sides of zero */
    MF_PACKED_FAR = 255, /* zeros, and more to come */
};
extern const char mf_packed_magic[8];

#endif
