/* SPDX-License-Identifier: Apache-2.0 */
/* grad_util.c - gradient functions that many ops share: broadcasting, no gradient, missing
 * gradient. */
#include "ops/control/grad_util.h"

mf_status mf_grad_none(mf_grad *g)
{
    (void)g;
    return MF_OK;
}

/* The name of the loop whose control flow contains `n`; NULL: none. */
static const char *grad_util_loop_of(const mf_node *n)
{
    for (int i = 0; i < 4; i++) { /* Exit, Switch, Merge, Enter */
        if (n->op && n->op->control == MF_CONTROL_ENTER)
            return mf_node_string(n, "frame_name");
        if (!n->op || n->op->control == MF_CONTROL_NONE || n->n_inputs == 0)
            return NULL;
        n = n->inputs[0].node;
    }
    return NULL;
}

mf_status mf_grad_missing(mf_grad *g)
{
    const char *loop = grad_util_loop_of(g->node);

    if (loop)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "no gradient through the loop '%s' of Enter, Exit and NextIteration "
                       "({{node %s}}); built as While it has one (tf.enable_control_flow_v2)",
                       loop, g->node->name);
    return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no gradient ({{node %s}})", g->node->op_name,
                   g->node->name);
}

static mf_output sum_to(mf_grad *g, mf_output dx, mf_output axes, mf_output shape)
{
    return MF_G2("Reshape", MF_G2("Sum", dx, axes), shape);
}

void mf_grad_broadcast2(mf_grad *g, mf_output dx0, mf_output dx1)
{
    const mf_output s0 = MF_G1("Shape", g->x[0]), s1 = MF_G1("Shape", g->x[1]);
    const mf_output axes = MF_G2("BroadcastGradientArgs", s0, s1);

    g->dx[0] = sum_to(g, dx0, axes, s0);
    g->dx[1] = sum_to(g, dx1, (mf_output){ axes.node, 1 }, s1);
}

mf_output mf_grad_conj(mf_grad *g, mf_output x)
{
    return mf_dtype_is_complex(mf_grad_type(x)) ? MF_G1("Conj", x) : x;
}

mf_output mf_grad_scalar(mf_grad *g, mf_output like, double value)
{
    return mf_scalar(g->graph, mf_grad_type(like), value);
}

mf_output mf_grad_batch_dims(mf_grad *g, mf_output shape)
{
    return mf_applyf(g->graph, "StridedSlice",
                     MF_IN(shape, mf_ints(g->graph, (const int64_t[]){ 0 }, 1),
                           mf_ints(g->graph, (const int64_t[]){ -2 }, 1),
                           mf_ints(g->graph, (const int64_t[]){ 1 }, 1)),
                     "begin_mask=1");
}
