/* SPDX-License-Identifier: Apache-2.0 */
/* precision.h - computing in 16 bits, with 32-bit weights; and the type of stored weights.
 *
 * A rewrite of the model's graph, before loss and gradients are added: products and convolutions
 * compute in the low type, ops after them too if they lose no precision by it; everything else
 * stays float. Weights are cast where they are used, so gradients and updates are floats. */
#ifndef MF_TRAIN_STEP_PRECISION_H
#define MF_TRAIN_STEP_PRECISION_H

#include "models/model.h"

typedef struct mf_precision {
    mf_dtype compute; /* float: no rewrite */
    mf_dtype stored; /* of weights in checkpoints, see ckpt_dtype.h */
    double loss_scale; /* initial value; 0: none is needed */
    int64_t growth; /* steps without trouble until the scale is doubled */
    const char *keep; /* layers whose name matches stay float; "": none */
} mf_precision;

/* "fp32", "bf16", "fp16", with settings: "bf16 keep=dense_1*", "fp16 loss_scale=1024", "fp32
 * stored=bf16". NULL: fp32.
 * Fails: INVALID_ARGUMENT. */
MF_MUST mf_status mf_precision_parse(const char *text, mf_arena *arena, mf_precision *out);
/* Errors of building go to the graph. */
MF_MUST mf_status mf_precision_apply(mf_model *model, const mf_precision *precision);

#endif
