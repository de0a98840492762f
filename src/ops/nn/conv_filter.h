/* SPDX-License-Identifier: Apache-2.0 */
/* conv_filter.h - the filter's gradient of a convolution of floats, by blocks of registers that
 * read the image itself. Channels are last. */
#ifndef MF_OPS_NN_CONV_FILTER_H
#define MF_OPS_NN_CONV_FILTER_H

#include "ops/nn/conv.h"

/* w: the gradient. With shards > 0 it is a product for each shard of the batch, added by the
 * reduction tree; else one for each group of images, added in order. An element of a product is one
 * chain of multiply-adds over the positions. */
MF_MUST mf_status mf_conv_filter(const mf_kernel *k, const mf_conv *conv, int64_t shards,
                                 const float *x, float *w, const float *y);

#endif
