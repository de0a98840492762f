/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.h - data sets whose samples are rows of tensors in memory. Most small data sets are. */
#ifndef MF_DATA_ARRAYS_H
#define MF_DATA_ARRAYS_H

#include "data/dataset.h"
#include "data/loading.h"

typedef struct mf_rows {
    const char *name;
    mf_tensor *tensor; /* ownership is transferred; its first dimension is the samples */
    mf_loading *loading; /* ownership is transferred; fills the tensor; NULL: already filled */
} mf_rows;

/* Takes ownership of tensors and loadings in `columns`, even on failure. Fails: INVALID_ARGUMENT
 * (the first dimensions differ, naming both columns; a column is a scalar). */
MF_MUST mf_status mf_arrays_new(mf_rows *columns, int n, mf_dataset **out);
/* Derives the number of classes from this column (int32, one number per sample): its maximum plus
 * one.
 * Fails: INVALID_ARGUMENT (negative labels). */
MF_MUST mf_status mf_arrays_count_classes(mf_dataset *set, const char *column);
/* Converts integers of any type to an int32 tensor of the same shape. Fails: INVALID_ARGUMENT (too
 * large). */
MF_MUST mf_status mf_arrays_to_int32(const mf_tensor *from, mf_tensor **out);

#endif
