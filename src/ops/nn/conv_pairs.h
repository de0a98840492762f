/* SPDX-License-Identifier: Apache-2.0 */
/* conv_pairs.h - two positions in one cell: the filter's gradient in bfloat16 sums over positions,
 * two of them with one instruction. Images of two dimensions, channels last. */
#ifndef MF_OPS_NN_CONV_PAIRS_H
#define MF_OPS_NN_CONV_PAIRS_H

#include "ops/nn/conv_correlation.h"

/* Cells of a line: c->extent[1] pixels; if the number of positions is odd, also the pixels that the
 * last position reads. */
int64_t mf_conv_pair_cells(const mf_correlation *c);
/* What `rows` rows of positions read, from row `from` on, with its padding: cell (h, w, channel) of
 * `to` has pixels w and w + stride of line h. The pixels of a last, odd position are without a
 * partner, which might be infinite. */
void mf_conv_pair_pixels(const mf_correlation *c, const uint16_t *image, int64_t from, int64_t rows,
                         uint32_t *to);
/* `lines` lines of n positions with `channels` channels: cell (line, i, channel) has positions 2i
 * and 2i + 1 (or 0), with channels up to `width`, as 0. */
void mf_conv_pair_positions(const uint16_t *y, int64_t lines, int64_t n, int64_t channels,
                            int64_t width, uint32_t *to);

#endif
