/* SPDX-License-Identifier: Apache-2.0 */
/* bad_sample.h - a step has failed because of what is in its samples: which one is it? */
#ifndef MF_TRAIN_LOOP_BAD_SAMPLE_H
#define MF_TRAIN_LOOP_BAD_SAMPLE_H

#include "data/dataset.h"

/* Adds to the message of `st` the first sample of the batch that has a NaN or an infinity; where
 * there is none and the loss is no number, what may help. Returns st. */
mf_status mf_batch_blame(const mf_dataset *set, const mf_batch *batch, mf_status st);

#endif
