/* SPDX-License-Identifier: Apache-2.0 */
/* conv_correlation.h - convolutions and input gradients as correlations: every result is a sum over
 * taps of an image, out[q] = sum over taps t of in[q * stride + t] * filter[t].
 *
 * A convolution is one correlation of its input. An input gradient is a correlation of the output's
 * gradient with the transposed filter: one for each remainder of the position modulo the stride,
 * because such positions see the same taps. Images have their channels last. */
#ifndef MF_OPS_NN_CONV_CORRELATION_H
#define MF_OPS_NN_CONV_CORRELATION_H

#include "ops/nn/conv.h"

/* The taps along one dimension: tap `tap[i]` of the filter reads position q * stride + at[i] - lo,
 * with at[] ascending from 0. */
typedef struct mf_tap_line {
    int64_t n;
    const int64_t *tap, *at;
} mf_tap_line;

typedef struct mf_correlation {
    int nd;
    int64_t in[MF_WINDOW_DIMS], channels; /* size and channels of the image that is read */
    int64_t out[MF_WINDOW_DIMS]; /* positions to compute */
    int64_t stride[MF_WINDOW_DIMS], lo[MF_WINDOW_DIMS];
    int64_t extent[MF_WINDOW_DIMS]; /* what all positions read: from -lo on */
    mf_tap_line line[MF_WINDOW_DIMS];
    int64_t out_size[MF_WINDOW_DIMS], out_channels; /* size and channels of the resulting image */
    int64_t out_first[MF_WINDOW_DIMS], out_step[MF_WINDOW_DIMS]; /* where position q is in it */
    bool transposed; /* the filter is read as [..., channels out, channels in] */
} mf_correlation;

/* Number of correlations that a convolution or input gradient consists of. */
int64_t mf_correlation_count(const mf_conv *conv);
/* Integers of storage for mf_correlation_init(). */
int64_t mf_correlation_storage(const mf_conv *conv);
/* Correlation i. Some positions may have no taps at all (line[d].n == 0): their results are 0. */
void mf_correlation_init(const mf_conv *conv, int64_t i, int64_t *storage, mf_correlation *out);
/* Product of line[d].n: taps of one position. */
int64_t mf_correlation_taps(const mf_correlation *c);

/* Consecutive channels or taps that a position reads: `length` cells from offset `at` of its first
 * cell on. */
typedef struct mf_tap_run {
    int64_t at, length;
} mf_tap_run;

/* The runs of a position in an image with these strides, of `channels` consecutive cells for each
 * tap; runs[] has room for mf_correlation_taps(). Adjacent runs of the last dimension are merged
 * (if `merge`). Returns their number. */
int mf_correlation_runs(const mf_correlation *c, const int64_t *step, int64_t channels, bool merge,
                        mf_tap_run *runs);

#endif
