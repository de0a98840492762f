/* SPDX-License-Identifier: Apache-2.0 */
/* conv_run.h - runs a convolution or one of its gradients. */
#ifndef MF_OPS_NN_CONV_RUN_H
#define MF_OPS_NN_CONV_RUN_H

#include "ops/nn/conv.h"

/* Is this convolution computed in bfloat16? */
bool mf_conv_reads_bf16(const mf_conv *conv);

/* x, w, y: input, filter, output or their gradients, of one type (float, double or int32; bfloat16
 * if mf_conv_reads_bf16(), but the filter's gradient is then float); conv->kind determines which is
 * written. shards: of the batch; the filter's gradient is then added
 * by the reduction tree (1: the batch is one shard); 0: none, parts of any size. */
MF_MUST mf_status mf_conv_run(const mf_kernel *k, const mf_conv *conv, int64_t shards,
                              const mf_tensor *x, const mf_tensor *w, const mf_tensor *y);

#endif
