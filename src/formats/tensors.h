/* SPDX-License-Identifier: Apache-2.0 */
/* tensors.h - named tensors in a file of any format: an archive (.npz), a safetensors file
 * (.safetensors), a packed file (.mfz), or, for any other name, TensorFlow's bundle, whose path is
 * the prefix (or one of its two files). */
#ifndef MF_FORMATS_TENSORS_H
#define MF_FORMATS_TENSORS_H

#include "tensor/tensor.h"

#define MF_PACKED_ENDING ".mfz"
/* The name of a packed checkpoint in its folder. */
#define MF_PACKED_NAME "model" MF_PACKED_ENDING

typedef struct mf_tensors mf_tensors;

/* Fails: NOT_FOUND, DATA_LOSS, INVALID_ARGUMENT (not such a file), UNIMPLEMENTED,
 * RESOURCE_EXHAUSTED. Thread: one at a time. */
MF_MUST mf_status mf_tensors_open(const char *path, mf_tensors **out);
void mf_tensors_close(mf_tensors *t);

/* "bundle", "npz", "safetensors", "packed". */
const char *mf_tensors_format(const mf_tensors *t);
/* Does the format have checksums, which are verified when reading? */
bool mf_tensors_has_checksums(const mf_tensors *t);
int64_t mf_tensors_count(const mf_tensors *t);
/* Names are in ascending order. */
const char *mf_tensors_name(const mf_tensors *t, int64_t i);
/* Returns -1 if there is no such tensor. */
int64_t mf_tensors_find(const mf_tensors *t, const char *name);
/* Owns: *out is an empty slot before, and stays one on failure. Fails: DATA_LOSS (a checksum),
 * UNIMPLEMENTED (type), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_tensors_read(mf_tensors *t, int64_t i, mf_tensor *out);

/* Write these tensors atomically, in the format of the path's extension. Fails: UNIMPLEMENTED or
 * INVALID_ARGUMENT naming the tensor that the format does not support, and as writing files does.
 */
MF_MUST mf_status mf_tensors_write(const char *path, const char *const *names,
                                   const mf_tensor *const *tensors, int64_t n);

#endif
