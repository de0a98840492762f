/* SPDX-License-Identifier: Apache-2.0 */
/* idx.h - the arrays of the MNIST family:
 *
 *   0, 0, type, rank, then for each dimension a big-endian uint32, then the elements, big-endian
 *
 * types: 8 uint8, 9 int8, 11 int16, 12 int32, 13 float, 14 double. Often gzipped. */
#ifndef MF_FORMATS_IDX_H
#define MF_FORMATS_IDX_H

#include "tensor/tensor.h"

/* Owns: *out is empty before, and stays so on failure.
 * Fails: as reading files does; INVALID_ARGUMENT (no such file), DATA_LOSS (cut, bytes left over).
 */
MF_MUST mf_status mf_idx_read(const char *path, mf_tensor *out);

#endif
