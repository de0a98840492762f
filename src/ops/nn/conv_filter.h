/* SPDX-License-Identifier: Apache-2.0 */
/* conv_filter.h - the filter's gradient of a convolution of float or bfloat16, by blocks of
 * registers that read the image itself. Channels are last. */
#ifndef MF_OPS_NN_CONV_FILTER_H
#define MF_OPS_NN_CONV_FILTER_H

#include "ops/nn/conv.h"

/* w: the gradient. With shards > 0 it is a product for each shard of the batch, added by the
 * reduction tree; else one for each group of images, added in order. An element of a product is one
 * chain of multiply-adds over the positions. type of x and y: float, or bfloat16 for two dimensions
 * without groups if mf_conv_tiles_bf16() exists. */
MF_MUST mf_status mf_conv_filter(const mf_kernel *k, const mf_conv *conv, mf_dtype type,
                                 int64_t shards, const void *x, float *w, const void *y);

#endif
