/* SPDX-License-Identifier: Apache-2.0 */
/* cifar.h - the binary files of CIFAR-10 and CIFAR-100. A record is:
 *
 *   one label (CIFAR-100: a coarse one, then a fine one), 1024 bytes red, 1024 green, 1024 blue
 *
 * each colour 32 x 32, row by row. */
#ifndef MF_FORMATS_CIFAR_H
#define MF_FORMATS_CIFAR_H

#include "tensor/tensor.h"

enum { MF_CIFAR_SIDE = 32, MF_CIFAR_CHANNELS = 3, MF_CIFAR_IMAGE = 3072 };

/* Reads a complete file (gzipped or not) with n_labels label bytes in front of each image and
 * returns the label at index `label`: images uint8 [n,32,32,3], labels int32 [n].
 * Owns: both are empty before, and stay empty on failure.
 * Fails: as reading files does; DATA_LOSS (not a whole number of records). */
MF_MUST mf_status mf_cifar_read(const char *path, int n_labels, int label, mf_tensor *images,
                                mf_tensor *labels);

#endif
