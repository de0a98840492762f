/* SPDX-License-Identifier: Apache-2.0 */
/* window_grad.h - builds gradients of convolutions and poolings. */
#ifndef MF_OPS_NN_WINDOW_GRAD_H
#define MF_OPS_NN_WINDOW_GRAD_H

#include "ops/control/grad_util.h"

/* Adds `op` with the window attributes of the differentiated node. */
mf_output mf_window_apply(mf_grad *g, const char *op, const mf_output *inputs);

#endif
