/* SPDX-License-Identifier: Apache-2.0 */
/* class_labels.h - what stands in a file as a label becomes a class number. */
#ifndef MF_DATA_CLASS_LABELS_H
#define MF_DATA_CLASS_LABELS_H

#include "data/schema.h"

/* What a label is: one of several classes, or a number to predict. AUTO: numbers of which one is
 * written with a decimal point or an exponent are numbers to predict; all else are classes. */
typedef enum mf_target { MF_TARGET_AUTO, MF_TARGET_CLASS, MF_TARGET_NUMBER } mf_target;

typedef struct mf_labels {
    mf_tensor *tensor; /* int32 [n] of classes, or float [n] of numbers */
    int64_t classes; /* 0 for numbers */
    char **names; /* by class; NULL: the labels are 0, 1, 2 ... themselves */
    int64_t wrong; /* after INVALID_ARGUMENT: the label that is to blame; -1: none alone */
} mf_labels;

#define MF_TARGETS "target: string in ['auto','class','number'] = 'auto'"

/* What the setting of MF_TARGETS says; a model that is known says it better. */
mf_target mf_target_of(const char *setting, const mf_schema_column *known);
void mf_labels_deinit(mf_labels *l);
/* Classes: whole numbers from 0 to a million stay what they are; other texts (and numbers, -1 and 1
 * among them) are sorted and counted, and give the classes their names. known: the label of a
 * trained model, whose classes count; NULL: there is none. Fails: INVALID_ARGUMENT: a label is
 * empty, no number, or unknown to the model. Owns: mf_labels_deinit(), also after a failure. */
MF_MUST mf_status mf_labels_of_texts(const char *const *texts, int64_t n, mf_target target,
                                     const mf_schema_column *known, mf_labels *out);
MF_MUST mf_status mf_labels_of_numbers(const float *values, int64_t n, mf_target target,
                                       const mf_schema_column *known, mf_labels *out);
/* Tell a set its classes. */
MF_MUST mf_status mf_labels_apply(const mf_labels *l, mf_dataset *set);

#endif
