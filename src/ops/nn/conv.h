/* SPDX-License-Identifier: Apache-2.0 */
/* conv.h - a convolution or one of its gradients, as the kernels see it.
 *
 * The filter is [spatial..., channels in per group, channels out]. */
#ifndef MF_OPS_NN_CONV_H
#define MF_OPS_NN_CONV_H

#include "ops/nn/window.h"

typedef enum mf_conv_kind { MF_CONV_FORWARD, MF_CONV_INPUT, MF_CONV_FILTER } mf_conv_kind;

/* A convolution of `window.batch` images of window.channels. */
typedef struct mf_conv {
    mf_window window;
    int64_t out_channels, groups;
    mf_conv_kind kind; /* the result: output, gradient of input or gradient of filter */
} mf_conv;

#endif
