/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_cache.h - decompressed copies of large files, kept between runs: decompressing
 * Fashion-MNIST takes longer than everything else before the first training step, mapping a copy
 * takes no time.
 *
 * Copies are in $XDG_CACHE_HOME/meshflow (~/.cache/meshflow), may be deleted at any time, and are
 * used only if the original is still the same (path, inode, size, time) and the checksum is valid.
 * No function here fails: without a copy the file is decompressed. */
#ifndef MF_DATA_UNPACK_CACHE_H
#define MF_DATA_UNPACK_CACHE_H

#include "tensor/tensor.h"

/* The copy of `path` as an array of this type and shape; NULL: none. Owned by the caller; its
 * memory is mapped read-only. */
mf_tensor *mf_unpack_cache_find(const char *path, mf_dtype dtype, const mf_shape *shape);
/* Saves a copy; the oldest ones are removed to make room (parameter data_cache_mib). */
void mf_unpack_cache_save(const char *path, mf_dtype dtype, const mf_shape *shape, const void *data,
                          size_t bytes);

#endif
