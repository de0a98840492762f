/* SPDX-License-Identifier: Apache-2.0 */
/* conv_direct.h - convolutions of float and bfloat16 without a matrix of windows: blocks of
 * registers read the image itself. Channels are last. A result is one chain of multiply-adds over
 * the taps, so its bits depend on nothing but its window and its filter. */
#ifndef MF_OPS_NN_CONV_DIRECT_H
#define MF_OPS_NN_CONV_DIRECT_H

#include "ops/nn/conv.h"

/* y, or the gradient x (conv->kind), of filter w. type: float, or bfloat16 without groups and with
 * channels last, if mf_conv_tiles_bf16() exists. Calls k->then with finished parts of it. */
MF_MUST mf_status mf_conv_direct(const mf_kernel *k, const mf_conv *conv, mf_dtype type, void *x,
                                 const void *w, void *y);

/* k->then, if there is one, for all `count` elements of the result. */
MF_MUST mf_status mf_conv_then(const mf_kernel *k, int64_t count);

#endif
