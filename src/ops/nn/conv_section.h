/* SPDX-License-Identifier: Apache-2.0 */
/* conv_section.h - what some rows of positions read of an image: a part of the image itself, or a
 * copy with its padding, so that no position needs a check. Strides count cells of 32 bits. */
#ifndef MF_OPS_NN_CONV_SECTION_H
#define MF_OPS_NN_CONV_SECTION_H

#include "ops/nn/conv_correlation.h"

typedef struct mf_conv_section {
    const mf_correlation *c; /* its channels are cells */
    int64_t pixel_bytes; /* of the image: less than its cells if the last one has one channel */
    bool copies; /* positions read beyond the image, or its pixels are not whole cells */
    int64_t step[MF_WINDOW_DIMS]; /* strides of the dimensions */
    int64_t image_bytes;
    int64_t reach; /* rows of dimension 0 that one position reads */
} mf_conv_section;

void mf_conv_section_init(const mf_correlation *c, int64_t pixel_bytes, mf_conv_section *out);
/* Cells of the buffer for `rows` rows of positions. */
int64_t mf_conv_section_cells(const mf_conv_section *s, int64_t rows);
/* The first cell that position [from, 0, ...] of an image reads. buffer receives the copy of what
 * rows [from, from + rows) read. */
const float *mf_conv_section_read(const mf_conv_section *s, const void *image, int64_t from,
                                  int64_t rows, float *buffer);

#endif
