/* SPDX-License-Identifier: Apache-2.0 */
/* bad_sample.h - a step failed because of its samples: finds the sample. */
#ifndef MF_TRAIN_LOOP_BAD_SAMPLE_H
#define MF_TRAIN_LOOP_BAD_SAMPLE_H

#include "data/dataset.h"

/* Add to the message of `st` the first sample of the batch that has NaN/Inf; without one, if the
 * loss is NaN/Inf, possible fixes. Returns st. */
mf_status mf_batch_blame(const mf_dataset *set, const mf_batch *batch, mf_status st);

#endif
