/* SPDX-License-Identifier: Apache-2.0 */
/* opt_lamb.c - LAMB (You et al. 2019), with the formulas of Keras: Adam's step, scaled to the
 * length of the weight. TensorFlow has no op for it. Sparse gradients are made dense: the length is
 * that of the complete weight.
 *
 * The optimizer has a row in optimizer_table.c; its update is built here from elementwise ops. */
#include "train/optim/optimizer_table.h"

static mf_output opt_lamb_op2(mf_graph *g, const char *op, mf_output x, mf_output y)
{
    return mf_apply(g, op, MF_IN(x, y));
}

static mf_output opt_lamb_f32(mf_graph *g, double value)
{
    return mf_scalar(g, MF_DTYPE_F32, value);
}

/* slot += (x - slot) * (1 - beta). Returns slot / (1 - beta^step). */
static mf_output opt_lamb_follow(const mf_update *u, mf_output slot, mf_output x,
                                 const char *setting)
{
    mf_graph *g = u->all->graph;
    const double beta = mf_options_float(&u->all->o, setting);
    const mf_output old = mf_update_read(u, slot);
    const mf_output next = opt_lamb_op2(
        g, "AddV2", old,
        opt_lamb_op2(g, "Mul", opt_lamb_op2(g, "Sub", x, old), opt_lamb_f32(g, 1.0 - beta)));
    const mf_output power = opt_lamb_op2(g, "Pow", opt_lamb_f32(g, beta), mf_updates_count(u->all));

    mf_update_apply(u, "AssignVariableOp", MF_IN(slot, next), "");
    return opt_lamb_op2(g, "RealDiv", next, opt_lamb_op2(g, "Sub", opt_lamb_f32(g, 1.0), power));
}

static mf_output opt_lamb_length(mf_graph *g, mf_output x)
{
    const mf_output flat = mf_apply(g, "Reshape", MF_IN(x, mf_ints(g, (int64_t[]){ -1 }, 1)));
    const mf_output sum = mf_apply(
        g, "Sum", MF_IN(mf_apply(g, "Square", MF_IN(flat)), mf_ints(g, (int64_t[]){ 0 }, 1)));

    return mf_apply(g, "Sqrt", MF_IN(sum));
}

/* The length of the weight divided by that of the step; 1 where one of them is 0. */
static mf_output opt_lamb_ratio_of(mf_graph *g, mf_output weight, mf_output step)
{
    const mf_output zero = opt_lamb_f32(g, 0.0), one = opt_lamb_f32(g, 1.0);
    const mf_output w = opt_lamb_length(g, weight), s = opt_lamb_length(g, step);
    const mf_output both = opt_lamb_op2(g, "LogicalAnd", opt_lamb_op2(g, "Greater", w, zero),
                                        opt_lamb_op2(g, "Greater", s, zero));

    return mf_apply(g, "SelectV2", MF_IN(both, opt_lamb_op2(g, "RealDiv", w, s), one));
}

void mf_lamb_apply(const mf_update *u)
{
    mf_graph *g = u->all->graph;
    const mf_output gradient = mf_update_dense_gradient(u);
    const mf_output m = opt_lamb_follow(u, mf_update_slot(u, "Lamb", 0.0), gradient, "beta_1");
    const mf_output v = opt_lamb_follow(u, mf_update_slot(u, "Lamb_1", 0.0),
                                        mf_apply(g, "Square", MF_IN(gradient)), "beta_2");
    const mf_output size = opt_lamb_op2(g, "AddV2", mf_apply(g, "Sqrt", MF_IN(v)),
                                        mf_updates_setting(u->all, "epsilon"));
    const mf_output step = opt_lamb_op2(g, "RealDiv", m, size);
    const mf_output rate = opt_lamb_op2(g, "Mul", opt_lamb_ratio_of(g, mf_update_value(u), step),
                                        u->all->learning_rate);

    mf_update_apply(u, "AssignSubVariableOp",
                    MF_IN(u->weight->handle, opt_lamb_op2(g, "Mul", rate, step)), "");
}
