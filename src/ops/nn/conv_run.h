/* SPDX-License-Identifier: Apache-2.0 */
/* conv_run.h - carrying out a convolution: pieces of a few images each, computed by oneDNN or,
 * where that has nothing, as a product with the matrix of all windows. */
#ifndef MF_OPS_NN_CONV_RUN_H
#define MF_OPS_NN_CONV_RUN_H

#include "ops/dnnl/conv_plan.h"

/* x, w, y: input, filter, output or their gradients, of one type (float, double or int32); which of
 * them is written follows from conv->kind. plans may be NULL. shards: of the batch; the filter's
 * gradient is then the sum of theirs in the fixed tree (1: the batch is one shard); 0: none, pieces
 * as it suits. */
MF_MUST mf_status mf_conv_run(const mf_kernel *k, mf_conv_plans *plans, const mf_conv *conv,
                              int64_t shards, const mf_tensor *x, const mf_tensor *w,
                              const mf_tensor *y);

#endif
