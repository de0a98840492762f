/* SPDX-License-Identifier: Apache-2.0 */
/* batch_norm_grad.h - the gradient of batch normalisation's gradient. */
#ifndef MF_OPS_NN_BATCH_NORM_GRAD_H
#define MF_OPS_NN_BATCH_NORM_GRAD_H

#include "graph/op.h"

/* Of FusedBatchNormGrad and its successors. */
mf_grad_fn mf_batch_norm_grad_grad;

#endif
