/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_grad.h - shared by gradients of reductions. */
#ifndef MF_OPS_MATH_REDUCE_GRAD_H
#define MF_OPS_MATH_REDUCE_GRAD_H

#include "ops/control/grad_util.h"

/* `y`, with the shape of g->node's output, reshaped to have ones at the reduced dimensions. */
mf_output mf_grad_keep_dims(mf_grad *g, mf_output y);
mf_status mf_grad_prod(mf_grad *g);

#endif
