/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_grad.h - what gradients of reductions share. */
#ifndef MF_OPS_MATH_REDUCE_GRAD_H
#define MF_OPS_MATH_REDUCE_GRAD_H

#include "ops/control/grad_util.h"

/* `y`, shaped as the output of the reduction g->node, with the reduced dimensions as ones. */
mf_output mf_grad_keep_dims(mf_grad *g, mf_output y);
mf_status mf_grad_prod(mf_grad *g);

#endif
