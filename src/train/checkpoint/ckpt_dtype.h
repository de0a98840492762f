/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_dtype.h - the type that weights have in checkpoints, if it is not the one they are updated
 * in.
 */
#ifndef MF_TRAIN_CHECKPOINT_CKPT_DTYPE_H
#define MF_TRAIN_CHECKPOINT_CKPT_DTYPE_H

#include "tensor/tensor.h"

/* The value of weight `name` as checkpoints have it, rounded to nearest even; what is no float32,
 * or is to stay one, stays. Fails: OUT_OF_RANGE (a finite number is too large for the type),
 * RESOURCE_EXHAUSTED; then *value is as it was. Owns: its reference is replaced. */
MF_MUST mf_status mf_ckpt_dtype_narrow(mf_dtype stored, const char *name, mf_tensor *value);
/* The other way, which loses nothing: 16 bits become a float32 where that is wanted; what is of
 * another type stays. */
MF_MUST mf_status mf_ckpt_dtype_widen(mf_dtype wanted, mf_tensor *value);

#endif
