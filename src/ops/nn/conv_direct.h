/* SPDX-License-Identifier: Apache-2.0 */
/* conv_direct.h - convolutions of floats without a matrix of windows: blocks of registers read the
 * image itself. Channels are last. A result is one chain of multiply-adds over the taps, so its
 * bits depend on nothing but its window and its filter. */
#ifndef MF_OPS_NN_CONV_DIRECT_H
#define MF_OPS_NN_CONV_DIRECT_H

#include "ops/nn/conv.h"

/* y, or the gradient x (conv->kind), of filter w. Calls k->then with finished parts
 * of it. */
MF_MUST mf_status mf_conv_direct(const mf_kernel *k, const mf_conv *conv, float *x, const float *w,
                                 float *y);

#endif
