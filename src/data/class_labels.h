/* SPDX-License-Identifier: Apache-2.0 */
/* class_labels.h - converts labels of a file to class numbers. */
#ifndef MF_DATA_CLASS_LABELS_H
#define MF_DATA_CLASS_LABELS_H

#include "data/schema.h"

/* The kind of a label: one of several classes, or a number to predict. AUTO: if all are numbers and
 * one has a decimal point or an exponent, they are numbers to predict; otherwise classes. */
typedef enum mf_target { MF_TARGET_AUTO, MF_TARGET_CLASS, MF_TARGET_NUMBER } mf_target;

typedef struct mf_labels {
    mf_tensor *tensor; /* int32 [n] classes, or float [n] numbers */
    int64_t classes; /* 0 for numbers */
    char **names; /* by class; NULL: the labels are 0, 1, 2 ... */
    int64_t wrong; /* after INVALID_ARGUMENT: index of the offending label; -1: no single one */
} mf_labels;

#define MF_TARGETS "target: string in ['auto','class','number'] = 'auto'"

/* The kind that the setting of MF_TARGETS selects; the schema of a trained model takes precedence.
 */
mf_target mf_target_of(const char *setting, const mf_schema_column *known);
void mf_labels_deinit(mf_labels *l);
/* Classes: whole numbers from 0 to a million are kept; other labels (texts, and numbers such as -1
 * and 1) are sorted and numbered, and become the class names. known: the label of a trained model,
 * whose classes are used; NULL: none. Fails: INVALID_ARGUMENT (a label is empty, not a number, or
 * unknown to the model). Owns: mf_labels_deinit(), even after a failure. */
MF_MUST mf_status mf_labels_of_texts(const char *const *texts, int64_t n, mf_target target,
                                     const mf_schema_column *known, mf_labels *out);
MF_MUST mf_status mf_labels_of_numbers(const float *values, int64_t n, mf_target target,
                                       const mf_schema_column *known, mf_labels *out);
/* Sets the classes of a data set. */
MF_MUST mf_status mf_labels_apply(const mf_labels *l, mf_dataset *set);

#endif
