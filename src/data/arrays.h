/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.h - samples as rows of tensors in memory, where most small data sets end up. */
#ifndef MF_DATA_ARRAYS_H
#define MF_DATA_ARRAYS_H

#include "data/dataset.h"
#include "data/loading.h"

typedef struct mf_rows {
    const char *name;
    mf_tensor *tensor; /* taken over: its first dimension counts the samples */
    mf_loading *loading; /* taken over: fills the tensor; NULL: it is filled */
} mf_rows;

/* Owns: takes tensors and loadings out of `columns`, also on failure. INVALID_ARGUMENT: the first
 * dimensions differ (naming both columns), a column is a scalar. */
MF_MUST mf_status mf_arrays_new(mf_rows *columns, int n, mf_dataset **out);
/* Make the column of this name (int32, one number per sample) tell the number of classes: its
 * largest value and one. INVALID_ARGUMENT: negative labels. */
MF_MUST mf_status mf_arrays_count_classes(mf_dataset *set, const char *column);
/* Integers of any type as an int32 tensor of the same shape. INVALID_ARGUMENT: too large. */
MF_MUST mf_status mf_arrays_to_int32(const mf_tensor *from, mf_tensor **out);

#endif
