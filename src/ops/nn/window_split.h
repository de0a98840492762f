/* SPDX-License-Identifier: Apache-2.0 */
/* window_split.h - how convolutions and poolings over images may be cut. */
#ifndef MF_OPS_NN_WINDOW_SPLIT_H
#define MF_OPS_NN_WINDOW_SPLIT_H

#include "graph/split.h"
#include "ops/nn/window.h"

/* Samples, channels that go in and come out, and places; which of them is summed over is what tells
 * a convolution from its gradients. */
void mf_conv_split(mf_split *s);
/* Samples, channels that are pooled one by one, and places (pooling_split.c). */
void mf_pool_split(mf_split *s);

/* A gradient of an image is made of the windows that see it. So many rows of it stay together: a
 * stride, or, where that does not divide it, one, if all are seen. 0: it cannot be cut. */
int64_t mf_window_rows(const mf_window *w, int d);
/* Which windows are needed: those that see `rows` rows of the image for each index of the letter.
 */
mf_split_dim mf_window_seen(const mf_window *w, int d, int letter, int64_t rows);

/* Give a piece an attribute of pieces (window.h): before and after, by spatial dimension. */
MF_MUST mf_status mf_window_sides(const char *name, const int64_t *sides, int nd,
                                  mf_named_attr *attrs, int *n, mf_arena *arena);

#endif
