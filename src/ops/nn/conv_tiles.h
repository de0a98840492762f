/* SPDX-License-Identifier: Apache-2.0 */
/* conv_tiles.h - the inner loops of convolutions: blocks of positions and channels that fit the
 * registers, for the instruction set that this file is compiled for. Images have their channels
 * last; strides count cells of 32 bits. */
#ifndef MF_OPS_NN_CONV_TILES_H
#define MF_OPS_NN_CONV_TILES_H

#include "ops/nn/conv_correlation.h"

#if defined(__AVX512F__)
enum { MF_CONV_ROWS = 14, MF_CONV_VECTORS = 4 }; /* 32 registers */
#else
enum { MF_CONV_ROWS = 12, MF_CONV_VECTORS = 2 }; /* 16 */
#endif

/* Some positions in a row of the image, and some vectors of result channels. */
typedef struct mf_conv_tile {
    const void *in; /* first cell that position 0 reads */
    int64_t in_step; /* from one position to the next */
    const mf_tap_run *runs;
    int n_runs;
    const void *w; /* the filter: one row of vectors for each cell, in the order of the runs */
    int64_t w_step;
    float *out;
    int64_t out_step;
    bool add; /* continue the sums that are in out */
} mf_conv_tile;

/* Some cells of the window (rows of the filter), and some vectors of result channels; `rows` rows
 * of n positions. Sums continue those in dw. */
typedef struct mf_conv_filter_tile {
    const void *x, *dy;
    int64_t x_step, x_row, dy_step, dy_row; /* from one position to the next, and to the next row */
    int64_t n, rows;
    float *dw;
    int64_t dw_step;
} mf_conv_filter_tile;

typedef struct mf_conv_tiles {
    int lanes; /* of a vector */
    int rows[MF_CONV_VECTORS]; /* maximum by number of vectors - 1 */
    void (*tile[MF_CONV_VECTORS][MF_CONV_ROWS])(const mf_conv_tile *t);
    void (*filter[MF_CONV_VECTORS][MF_CONV_ROWS])(const mf_conv_filter_tile *t);
} mf_conv_tiles;

/* For cells of one float. */
const mf_conv_tiles *mf_conv_tiles_float(void);
/* For cells of two bfloat16; NULL if the instruction set has no fast instruction for them. A sum is
 * one chain of the instruction VDPBF16PS: it adds the product of the second elements and then that
 * of the first ones, each with one rounding, and treats denormals as 0. */
const mf_conv_tiles *mf_conv_tiles_bf16(void);

#endif
