/* SPDX-License-Identifier: Apache-2.0 */
/* cifar.h - the binary files of CIFAR-10 and CIFAR-100, records of
 *
 *   one label (CIFAR-100: a coarse one, then a fine one), 1024 bytes red, 1024 green, 1024 blue
 *
 * each colour 32 x 32, row by row. */
#ifndef MF_FORMATS_CIFAR_H
#define MF_FORMATS_CIFAR_H

#include "tensor/tensor.h"

enum { MF_CIFAR_SIDE = 32, MF_CIFAR_CHANNELS = 3, MF_CIFAR_IMAGE = 3072 };

/* A whole file (gzipped or not) with `labels` bytes in front of each picture, of which the one at
 * `label` is wanted: images uint8 [n,32,32,3], labels int32 [n].
 * Owns: both are empty before, and stay so on failure.
 * Fails: as reading files does; DATA_LOSS (no whole number of records). */
MF_MUST mf_status mf_cifar_read(const char *path, int n_labels, int label, mf_tensor *images,
                                mf_tensor *labels);

#endif
