/* SPDX-License-Identifier: Apache-2.0 */
/* window_grad.h - building the gradients of convolutions and poolings. */
#ifndef MF_OPS_NN_WINDOW_GRAD_H
#define MF_OPS_NN_WINDOW_GRAD_H

#include "ops/control/grad_util.h"

/* Apply `op` with the window's attributes of the node being differentiated. */
mf_output mf_window_apply(mf_grad *g, const char *op, const mf_output *inputs);

#endif
