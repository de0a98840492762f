/* SPDX-License-Identifier: Apache-2.0 */
/* npz.h - NumPy's archives: zip files whose members are .npy files. */
#ifndef MF_FORMATS_NPZ_H
#define MF_FORMATS_NPZ_H

#include "tensor/tensor.h"

typedef struct mf_npz mf_npz;

/* Read the list of members. Thread: one at a time.
 * Fails: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (not a zip archive), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_npz_open(const char *path, mf_npz **out);
void mf_npz_close(mf_npz *npz);

int64_t mf_npz_count(const mf_npz *npz);
/* Of member i in [0, count), without ".npy". Owns: borrowed until mf_npz_close(). */
const char *mf_npz_name(const mf_npz *npz, int64_t i);

/* The array of that name. max_bytes: limit for its unpacked file (archives can expand a
 * thousandfold); 0: 2 GiB.
 * Owns: *out is an empty slot before, and stays one on failure; the caller clears it.
 * Fails: NOT_FOUND, RESOURCE_EXHAUSTED, DATA_LOSS (checksum), as mf_npy_decode(). */
MF_MUST mf_status mf_npz_read(mf_npz *npz, const char *name, size_t max_bytes, mf_tensor *out);

/* Write n arrays, replacing the file atomically. Equal arrays give equal bytes.
 * Fails: as mf_npy_encode() and mf_file_write(); ALREADY_EXISTS (duplicate name). */
MF_MUST mf_status mf_npz_write(const char *path, const char *const *names,
                               const mf_tensor *const *tensors, int64_t n, bool compress);

#endif
