/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - Hugging Face's files of named tensors.
 *
 *     offset  bytes  what
 *     0       8      length of the header, little-endian, at most 100,000,000
 *     8       n      header, JSON: {"NAME": {"dtype": "F32", "shape": [2,3],
 *                    "data_offsets": [begin, end]}, ..., "__metadata__": {"KEY": "text"}}
 *                    and spaces up to a multiple of 8
 *     8 + n          elements, row by row, little-endian; offsets count from here
 *
 * Tensors cover the data without gaps and without overlaps. The format has no checksums and no
 * string tensors; what stands under __metadata__ counts here as scalars of strings, so that such
 * scalars (there are a few in our checkpoints) survive a conversion. */
#ifndef MF_FORMATS_SAFETENSORS_H
#define MF_FORMATS_SAFETENSORS_H

#include "base/mem.h"
#include "tensor/tensor.h"

typedef struct mf_safetensor {
    const char *name;
    mf_dtype dtype; /* MF_DTYPE_STRING: of the metadata */
    mf_shape shape;
    int64_t offset, size; /* in the data; 0 for metadata */
    const char *text; /* of the metadata; else NULL */
    size_t text_len;
} mf_safetensor;

typedef struct mf_safetensors mf_safetensors;

/* Read the header. Thread: any, one at a time.
 * Fails: NOT_FOUND, PERMISSION_DENIED, DATA_LOSS (lengths, offsets, JSON), UNIMPLEMENTED (a type we
 * do not have), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_safetensors_open(const char *path, mf_safetensors **out);
void mf_safetensors_close(mf_safetensors *s);
int64_t mf_safetensors_count(const mf_safetensors *s);
/* By name, in ascending order. */
const mf_safetensor *mf_safetensors_at(const mf_safetensors *s, int64_t i);
/* Owns: *out is an empty slot before, and stays one on failure. Fails: DATA_LOSS, and as
 * allocating does. */
MF_MUST mf_status mf_safetensors_read(mf_safetensors *s, int64_t i, mf_tensor *out);

/* Replace the file whole or not at all. The same tensors give the same bytes.
 * Fails: UNIMPLEMENTED (a type that the format lacks), INVALID_ARGUMENT (a name that is no UTF-8
 * text, occurs twice or is "__metadata__"), and as mf_file_write(). */
MF_MUST mf_status mf_safetensors_write(const char *path, const char *const *names,
                                       const mf_tensor *const *tensors, int64_t n);

/* The header by itself, for the fuzzer too. data_bytes: how many stand behind it. Owns: *out lives
 * in the arena. */
MF_MUST mf_status mf_safetensors_decode(const char *json, size_t len, int64_t data_bytes,
                                        mf_arena *arena, mf_safetensor **out, int64_t *n);
/* Length and header, padded; *order: the tensors in the order of the data, -1 ends it. Owns:
 * mf_free(*order). */
MF_MUST mf_status mf_safetensors_encode(const char *const *names, const mf_tensor *const *tensors,
                                        int64_t n, mf_buf *out, int64_t **order);

#endif
