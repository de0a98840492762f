/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h - NumPy's array files, versions 1.0 to 3.0.
 *
 *     offset  bytes   content
 *     0       6       "\x93NUMPY"
 *     6       1, 1    version: major, minor
 *     8       2 or 4  length of the header, little-endian (2 in version 1)
 *     10, 12          header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), },
 *                     spaces, a newline
 *     then            elements
 *
 * Types: NumPy's numbers in both byte orders; 'S' and 'U' are string tensors (U as UTF-8, both
 * without trailing NULs, as in NumPy); 'V2' is bfloat16, which is how ml_dtypes stores it.
 * Quantised types are written as their integers. Objects (pickles) and records are refused. */
#ifndef MF_FORMATS_NPY_H
#define MF_FORMATS_NPY_H

#include "base/buf.h"
#include "tensor/tensor.h"

/* The array in these bytes; trailing bytes are an error. Memory: at most 64 times `len`.
 * Owns: *out is an empty slot before, and stays one on failure; the caller clears it.
 * Fails: INVALID_ARGUMENT (malformed), UNIMPLEMENTED (unsupported type), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_npy_decode(const void *data, size_t len, mf_tensor *out);

/* Append the file np.save() would write. Strings become 'S' of the longest length.
 * Fails: UNIMPLEMENTED (resource, variant), INVALID_ARGUMENT (a string ends in a NUL byte, which
 * would be lost), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_npy_encode(const mf_tensor *tensor, mf_buf *out);

#endif
