/* SPDX-License-Identifier: Apache-2.0 */
/* grad_util.h - shared by gradients of many ops. */
#ifndef MF_OPS_CONTROL_GRAD_UTIL_H
#define MF_OPS_CONTROL_GRAD_UTIL_H

#include "graph/op.h"

/* Short forms for gradients; they use g->graph. */
#define MF_G1(op, a) mf_apply(g->graph, op, MF_IN(a))
#define MF_G2(op, a, b) mf_apply(g->graph, op, MF_IN(a, b))
#define MF_G3(op, a, b, c) mf_apply(g->graph, op, MF_IN(a, b, c))

/* dx[0] and dx[1] of a broadcasting binary op, from gradients of the broadcast shape: sums over
 * repeated dimensions. */
void mf_grad_broadcast2(mf_grad *g, mf_output dx0, mf_output dx1);
/* The complex conjugate of complex types, otherwise x itself. */
mf_output mf_grad_conj(mf_grad *g, mf_output x);
/* A scalar constant of the type of `like`. */
mf_output mf_grad_scalar(mf_grad *g, mf_output like, double value);
/* All but the last two elements of a shape. */
mf_output mf_grad_batch_dims(mf_grad *g, mf_output shape);
/* Element type of an output. */
static inline mf_dtype mf_grad_type(mf_output x)
{
    return x.node ? mf_type_base(x.node->out_types[x.port]) : MF_DTYPE_INVALID;
}

#endif
