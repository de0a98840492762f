/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_dtype.h - the type of weights in checkpoints, if it differs from the type of the variables.
 */
#ifndef MF_TRAIN_CHECKPOINT_CKPT_DTYPE_H
#define MF_TRAIN_CHECKPOINT_CKPT_DTYPE_H

#include "tensor/tensor.h"

/* The value of weight `name` in the checkpoint's type, rounded to nearest even; values that are not
 * float32, or exempt, do not change. Fails: OUT_OF_RANGE (a finite number is too large for the
 * type), RESOURCE_EXHAUSTED; then *value does not change. Owns: its reference is replaced. */
MF_MUST mf_status mf_ckpt_dtype_narrow(mf_dtype stored, const char *name, mf_tensor *value);
/* The inverse, without loss: 16 bits become float32 where that is wanted; other types do not
 * change. */
MF_MUST mf_status mf_ckpt_dtype_widen(mf_dtype wanted, mf_tensor *value);

#endif
