/* SPDX-License-Identifier: Apache-2.0 */
/* conv_partial.h - the filter's gradient is a sum over images. The batch is divided into parts, by
 * shape alone; each part has a product of its own, and the products are added: those of shards by
 * the reduction tree, others in order. */
#ifndef MF_OPS_NN_CONV_PARTIAL_H
#define MF_OPS_NN_CONV_PARTIAL_H

#include "ops/nn/conv.h"

typedef struct mf_conv_parts {
    int64_t n, batch, images, shards; /* number of parts; images of a part without shards */
    mf_dtype type; /* of the sums: float, double or uint32 */
    int64_t count; /* elements of a product */
    char *first; /* product 0: the result */
    mf_tensor others;
} mf_conv_parts;

/* first: the gradient, `type` elements. Clear with mf_conv_parts_deinit() even on failure. */
MF_MUST mf_status mf_conv_parts_init(const mf_conv *conv, int64_t shards, mf_dtype type,
                                     void *first, mf_conv_parts *out);
void mf_conv_parts_deinit(mf_conv_parts *parts);
/* First image of a part; that of part n is the number of images. */
int64_t mf_conv_part_begin(const mf_conv_parts *parts, int64_t part);
/* The product of a part. */
void *mf_conv_partial(const mf_conv_parts *parts, int64_t part);
/* Adds all products to the first. */
MF_MUST mf_status mf_conv_parts_sum(const mf_kernel *k, mf_conv_parts *parts);

#endif
