/* SPDX-License-Identifier: Apache-2.0 */
/* labels.h - what stands in a file as a label becomes a class number. */
#ifndef MF_DATA_LABELS_H
#define MF_DATA_LABELS_H

#include "data/dataset.h"

typedef struct mf_labels {
    mf_tensor *tensor; /* int32 [n] of classes, or float [n] where numbers are wanted */
    int64_t classes; /* 0 for numbers */
    char **names; /* by class; NULL: the labels are 0, 1, 2 ... themselves */
} mf_labels;

void mf_labels_deinit(mf_labels *l);
/* Classes: whole numbers from 0 to a million stay what they are; other texts (and numbers, -1 and 1
 * among them) are sorted and counted, and give the classes their names.
 * as_numbers: floats. INVALID_ARGUMENT naming the sample: one is no number. */
MF_MUST mf_status mf_labels_of_texts(const char *const *texts, int64_t n, bool as_numbers,
                                     mf_labels *out);
MF_MUST mf_status mf_labels_of_numbers(const float *values, int64_t n, bool as_numbers,
                                       mf_labels *out);
/* Tell a set its classes. */
MF_MUST mf_status mf_labels_apply(const mf_labels *l, mf_dataset *set);

#endif
