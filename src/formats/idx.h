/* SPDX-License-Identifier: Apache-2.0 */
/* idx.h - the array files of the MNIST family:
 *
 *   0, 0, type, rank, then for each dimension a big-endian uint32, then the elements, big-endian
 *
 * types: 8 uint8, 9 int8, 11 int16, 12 int32, 13 float, 14 double. Often gzipped. */
#ifndef MF_FORMATS_IDX_H
#define MF_FORMATS_IDX_H

#include "formats/stream.h"
#include "tensor/tensor.h"

/* Reads the complete file. Owns: *out is empty before, and stays empty on failure.
 * Fails: as reading files does; INVALID_ARGUMENT (not an IDX file), DATA_LOSS (truncated, trailing
 * bytes). */
MF_MUST mf_status mf_idx_read(const char *path, mf_tensor *out);

/* ---- streaming ---- */

typedef struct mf_idx {
    mf_reader *reader;
    mf_dtype dtype;
    mf_shape shape;
    size_t bytes; /* of all elements, in memory */
} mf_idx;

/* Read the header. Fails: DATA_LOSS (the file cannot hold what its header says).
 * Owns: the caller calls mf_idx_close(), also after a failure. */
MF_MUST mf_status mf_idx_open(const char *path, mf_idx *out);
void mf_idx_close(mf_idx *idx);
/* The next n bytes, a whole number of elements, in the machine's byte order. */
MF_MUST mf_status mf_idx_next(mf_idx *idx, void *to, size_t n);
/* After the last element. Fails: DATA_LOSS (trailing bytes). */
MF_MUST mf_status mf_idx_end(mf_idx *idx);

#endif
