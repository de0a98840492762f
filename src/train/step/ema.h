/* SPDX-License-Identifier: Apache-2.0 */
/* ema.h - a moving average of the weights, beside them: "W/ExponentialMovingAverage", as
 * tf.train.ExponentialMovingAverage keeps it. */
#ifndef MF_TRAIN_STEP_EMA_H
#define MF_TRAIN_STEP_EMA_H

#include "train/optim/optimizer.h"

/* The average of this weight follows after the updates done[first..] of the weight. Errors go to
 * the graph. */
void mf_ema_add(const mf_update *u, int64_t first);

/* Weights and averages change places. Costs nothing: no value is copied. Thread: nobody may train
 * or read weights meanwhile. */
void mf_ema_swap(mf_trainer *t);
/* Averages that were not among what was loaded (values[i].data is NULL) begin anew, at the weights.
 * values: one for each variable of the trainer. */
MF_MUST mf_status mf_ema_restart(mf_trainer *t, const mf_tensor *values);

#endif
