/* SPDX-License-Identifier: Apache-2.0 */
/* batch_norm_grad.h - the second derivative of batch normalisation. */
#ifndef MF_OPS_NN_BATCH_NORM_GRAD_H
#define MF_OPS_NN_BATCH_NORM_GRAD_H

#include "graph/op.h"

/* For FusedBatchNormGrad and its later versions. */
mf_grad_fn mf_batch_norm_grad_grad;

#endif
