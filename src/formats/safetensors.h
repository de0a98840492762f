/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - Hugging Face's files of named tensors.
 *
 *     offset  bytes  content
 *     0       8      length of the header, little-endian, at most 100,000,000
 *     8       n      header, JSON: {"NAME": {"dtype": "F32", "shape": [2,3],
 *                    "data_offsets": [begin, end]}, ..., "__metadata__": {"KEY": "text"}}
 *                    and spaces up to a multiple of 8
 *     8 + n          elements, row by row, little-endian; offsets count from here
 *
 * Tensors cover the data without gaps and overlaps. The format has no checksums and no string
 * tensors. Entries of __metadata__ are presented as string scalars, so that string scalars of
 * checkpoints survive a conversion. */
#ifndef MF_FORMATS_SAFETENSORS_H
#define MF_FORMATS_SAFETENSORS_H

#include "base/mem.h"
#include "tensor/tensor.h"

typedef struct mf_safetensor {
    const char *name;
    mf_dtype dtype; /* MF_DTYPE_STRING: from the metadata */
    mf_shape shape;
    int64_t offset, size; /* in the data; 0 for metadata */
    const char *text; /* of metadata; else NULL */
    size_t text_len;
} mf_safetensor;

typedef struct mf_safetensors mf_safetensors;

/* Read the header. Thread: one at a time.
 * Fails: NOT_FOUND, PERMISSION_DENIED, DATA_LOSS (lengths, offsets, JSON), UNIMPLEMENTED
 * (unsupported type), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_safetensors_open(const char *path, mf_safetensors **out);
void mf_safetensors_close(mf_safetensors *s);
int64_t mf_safetensors_count(const mf_safetensors *s);
/* Ordered by name. */
const mf_safetensor *mf_safetensors_at(const mf_safetensors *s, int64_t i);
/* Owns: *out is an empty slot before, and stays one on failure. Fails: DATA_LOSS,
 * RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_safetensors_read(mf_safetensors *s, int64_t i, mf_tensor *out);

/* Replace the file atomically. Equal tensors give equal bytes.
 * Fails: UNIMPLEMENTED (a type that the format does not have), INVALID_ARGUMENT (a name that is not
 * UTF-8, is duplicate or is "__metadata__"), and as mf_file_write(). */
MF_MUST mf_status mf_safetensors_write(const char *path, const char *const *names,
                                       const mf_tensor *const *tensors, int64_t n);

/* Decodes the header alone; also for the fuzzer. data_bytes: number of bytes after it. Owns: *out
 * is allocated in the arena. */
MF_MUST mf_status mf_safetensors_decode(const char *json, size_t len, int64_t data_bytes,
                                        mf_arena *arena, mf_safetensor **out, int64_t *n);
/* Length and header, padded; *order: the tensors in the order of the data, terminated by -1. Owns:
 * the caller calls mf_free(*order). */
MF_MUST mf_status mf_safetensors_encode(const char *const *names, const mf_tensor *const *tensors,
                                        int64_t n, mf_buf *out, int64_t **order);

#endif
