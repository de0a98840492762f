/* SPDX-License-Identifier: Apache-2.0 */
/* window_split.h - how convolutions and poolings over images may be cut. */
#ifndef MF_OPS_WINDOW_SPLIT_H
#define MF_OPS_WINDOW_SPLIT_H

#include "graph/split.h"

/* Samples, channels that go in and come out, and places; which of them is summed over is what tells
 * a convolution from its gradients. */
void mf_conv_split(mf_split *s);
/* Samples, channels that are pooled one by one, and places where windows lie side by side. */
void mf_pool_split(mf_split *s);

#endif
