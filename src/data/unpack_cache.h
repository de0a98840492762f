/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_cache.h - unpacked copies of large compressed files, kept between runs: unpacking
 * Fashion-MNIST takes longer than everything else before the first training step, mapping a copy
 * takes nothing.
 *
 * Copies live in $XDG_CACHE_HOME/meshflow (~/.cache/meshflow), may be deleted at any time, and are
 * used only when the file they were made from is still the same (path, inode, size, time) and their
 * checksum fits. Nothing here ever fails: without a copy the file is unpacked. */
#ifndef MF_DATA_UNPACK_CACHE_H
#define MF_DATA_UNPACK_CACHE_H

#include "tensor/tensor.h"

/* The copy of `path`, as an array of this type and shape; NULL: there is none.
 * Owns: the caller frees it; its memory is mapped and must not be written. */
mf_tensor *mf_kept_find(const char *path, mf_dtype dtype, const mf_shape *shape);
/* Keep one, if there is a place; the oldest ones make room (parameter data_cache_mib). */
void mf_kept_save(const char *path, mf_dtype dtype, const mf_shape *shape, const void *data,
                  size_t bytes);

#endif
