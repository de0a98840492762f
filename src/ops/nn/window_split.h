/* SPDX-License-Identifier: Apache-2.0 */
/* window_split.h - split rules of convolutions and poolings over images. */
#ifndef MF_OPS_NN_WINDOW_SPLIT_H
#define MF_OPS_NN_WINDOW_SPLIT_H

#include "graph/split.h"
#include "ops/nn/window.h"

/* Samples, input and output channels, and positions; a convolution and its gradients differ in
 * which of them is summed. */
void mf_conv_split(mf_split *s);
/* Samples, channels that are pooled separately, and positions (pooling_split.c). */
void mf_pool_split(mf_split *s);

/* A gradient of an image is computed from the windows that read it. Returns the grain of its rows:
 * the stride or, if that does not divide the rows, 1 if all rows are read. 0: cannot be split. */
int64_t mf_window_rows(const mf_window *w, int d);
/* The windows that read `rows` rows of the image per index of the letter. */
mf_split_dim mf_window_seen(const mf_window *w, int d, int letter, int64_t rows);

/* Sets an attribute of shards (window.h): before and after, by spatial dimension. */
MF_MUST mf_status mf_window_sides(const char *name, const int64_t *sides, int nd,
                                  mf_named_attr *attrs, int *n, mf_arena *arena);

#endif
