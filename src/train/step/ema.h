/* SPDX-License-Identifier: Apache-2.0 */
/* ema.h - moving averages of the weights, as separate variables: "W/ExponentialMovingAverage", like
 * tf.train.ExponentialMovingAverage. */
#ifndef MF_TRAIN_STEP_EMA_H
#define MF_TRAIN_STEP_EMA_H

#include "train/optim/optimizer.h"

/* The average of this weight follows after the updates done[first..] of the weight. Errors go to
 * the graph. */
void mf_ema_add(const mf_update *u, int64_t first);

/* Swap weights and averages. No value is copied. Thread: no other thread may train or read weights
 * meanwhile. */
void mf_ema_swap(mf_trainer *t);
/* Averages that were not loaded (values[i].data is NULL) restart at the weights. values: one for
 * each variable of the trainer. */
MF_MUST mf_status mf_ema_restart(mf_trainer *t, const mf_tensor *values);

#endif
