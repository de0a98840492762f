/* SPDX-License-Identifier: Apache-2.0 */
/* channel_sum.h - sums over all positions of a feature map, per channel: short blocks in float,
 * blocks in double.
 *
 * The order of additions depends only on the shape. */
#ifndef MF_OPS_NN_CHANNEL_SUM_H
#define MF_OPS_NN_CHANNEL_SUM_H

#include "graph/op.h"

/* Element (image, pixel, channel) is at ((image * groups + channel / run) * pixels + pixel) * run +
 * channel % run. */
typedef struct mf_channels {
    int64_t images, groups, pixels, run;
} mf_channels;

/* Channels last or first. x has at least rank 2. */
mf_channels mf_channels_last(const mf_shape *x);
mf_channels mf_channels_first(const mf_shape *x);

typedef enum mf_channel_term {
    MF_TERM_X, /* x */
    MF_TERM_SQUARE, /* (x - mean)^2 */
    MF_TERM_GRAD, /* dy, and dy * (x - mean) */
} mf_channel_term;

typedef struct mf_channel_sums {
    mf_channels at;
    const float *x, *dy, *mean;
    mf_channel_term term;
    int64_t channels, rows; /* a row: one position (channels first: one image) */
    int64_t rows_per_piece, pieces;
    mf_tensor partial; /* [pieces][2][channels] of double; sums end up in the first two rows */
} mf_channel_sums;

/* Divides the work and allocates. mf_tensor_clear(&s->partial) is required even on failure. */
MF_MUST mf_status mf_channel_sums_init(mf_channel_sums *s, const mf_channels *at);
/* The sums of `term`; the second row is 0 unless it is MF_TERM_GRAD. */
const double *mf_channel_sums_run(const mf_kernel *k, mf_channel_sums *s, mf_channel_term term);
/* fn(ctx, piece) for each piece. */
void mf_channel_pieces(const mf_kernel *k, const mf_channel_sums *s, void (*fn)(void *, int64_t),
                       void *ctx);
/* The rows of a piece. */
void mf_channel_rows(const mf_channel_sums *s, int64_t piece, int64_t *from, int64_t *to);
/* Address and number of contiguous rows of one group, from row `from` to the end of its image (at
 * most up to `to`). Not for channels first. */
int64_t mf_channel_run(const mf_channels *at, int64_t group, int64_t from, int64_t to,
                       int64_t *rows);

#endif
