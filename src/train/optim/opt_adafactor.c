/* SPDX-License-Identifier: Apache-2.0 */
/* opt_adafactor.c - Adafactor (Shazeer, Stern 2018), with the formulas of Keras. TensorFlow has no
 * op for it. Of a weight of two dimensions or more, mean squares are stored by rows and by columns
 * only; Keras's velocity follows from them and is not stored. Sparse gradients are made dense.
 *
 * The optimizer has a row in optimizer_table.c; its update is built here from elementwise ops. */
#include "train/optim/optimizer_table.h"

static mf_output opt_adafactor_op2(mf_graph *g, const char *op, mf_output x, mf_output y)
{
    return mf_apply(g, op, MF_IN(x, y));
}

static mf_output opt_adafactor_f32(mf_graph *g, double value)
{
    return mf_scalar(g, MF_DTYPE_F32, value);
}

static mf_output opt_adafactor_mean(mf_graph *g, mf_output x, int axis, bool keep)
{
    return mf_applyf(g, "Mean", MF_IN(x, mf_ints(g, (int64_t[]){ axis }, 1)), "keep_dims=%s",
                     keep ? "true" : "false");
}

static mf_output root_mean_square(mf_graph *g, mf_output x)
{
    const mf_output flat = mf_apply(g, "Reshape", MF_IN(x, mf_ints(g, (int64_t[]){ -1 }, 1)));

    return mf_apply(g, "Sqrt",
                    MF_IN(opt_adafactor_mean(g, mf_apply(g, "Square", MF_IN(flat)), 0, false)));
}

/* slot = decay * slot + (1 - decay) * x. Returns it. */
static mf_output opt_adafactor_follow(const mf_update *u, mf_output slot, mf_output x,
                                      mf_output keep)
{
    mf_graph *g = u->all->graph;
    const mf_output next = opt_adafactor_op2(
        g, "AddV2", opt_adafactor_op2(g, "Mul", keep, mf_update_read(u, slot)),
        opt_adafactor_op2(g, "Mul", opt_adafactor_op2(g, "Sub", opt_adafactor_f32(g, 1.0), keep),
                          x));

    mf_update_apply(u, "AssignVariableOp", MF_IN(slot, next), "");
    return next;
}

/* x by the root of its dimension's part of the mean squares. */
static mf_output by_root(mf_graph *g, mf_output x, mf_output part, int axis)
{
    const mf_output root = mf_apply(g, "Sqrt", MF_IN(part));

    return opt_adafactor_op2(
        g, "RealDiv", x, mf_apply(g, "ExpandDims", MF_IN(root, mf_scalar(g, MF_DTYPE_I32, axis))));
}

/* gradient / sqrt(v) where v = r / mean(r) * c would be the mean squares if they were a product.
 * Two divisions: v itself underflows where a row and a column without gradients meet. */
static mf_output factored_step(const mf_update *u, mf_output gradient, mf_output squares,
                               mf_output keep)
{
    mf_graph *g = u->all->graph;
    const int rank = u->weight->shape.rank;
    mf_shape rows = u->weight->shape, columns = rows;
    mf_output r, c;

    rows.rank = columns.rank = rank - 1;
    columns.dims[rank - 2] = u->weight->shape.dims[rank - 1];
    r = opt_adafactor_follow(u, mf_update_slot_shaped(u, "Adafactor", &rows, 0.0),
                             opt_adafactor_mean(g, squares, rank - 1, false), keep);
    c = opt_adafactor_follow(u, mf_update_slot_shaped(u, "Adafactor_1", &columns, 0.0),
                             opt_adafactor_mean(g, squares, rank - 2, false), keep);
    r = opt_adafactor_op2(g, "RealDiv", r, opt_adafactor_mean(g, r, rank - 2, true));
    return by_root(g, by_root(g, gradient, r, -1), c, -2);
}

static mf_output plain_step(const mf_update *u, mf_output gradient, mf_output squares,
                            mf_output keep)
{
    mf_graph *g = u->all->graph;
    const mf_output v = opt_adafactor_follow(u, mf_update_slot(u, "Adafactor", 0.0), squares, keep);

    return opt_adafactor_op2(g, "RealDiv", gradient, mf_apply(g, "Sqrt", MF_IN(v)));
}

/* max(epsilon_2, size of the weight) * min(rate, 1 / sqrt(step)). */
static mf_output rate_of(const mf_update *u, mf_output count)
{
    mf_graph *g = u->all->graph;
    const mf_output most = opt_adafactor_op2(g, "RealDiv", opt_adafactor_f32(g, 1.0),
                                             mf_apply(g, "Sqrt", MF_IN(count)));
    const mf_output size = opt_adafactor_op2(g, "Maximum", mf_updates_setting(u->all, "epsilon_2"),
                                             root_mean_square(g, mf_update_value(u)));

    return opt_adafactor_op2(g, "Mul", size,
                             opt_adafactor_op2(g, "Minimum", u->all->learning_rate, most));
}

void mf_adafactor_apply(const mf_update *u)
{
    mf_graph *g = u->all->graph;
    const mf_output gradient = mf_update_dense_gradient(u), count = mf_updates_count(u->all);
    const mf_output squares = opt_adafactor_op2(g, "AddV2", mf_apply(g, "Square", MF_IN(gradient)),
                                                mf_updates_setting(u->all, "epsilon_1"));
    const mf_output keep = opt_adafactor_op2(
        g, "Sub", opt_adafactor_f32(g, 1.0),
        opt_adafactor_op2(g, "Pow", count, mf_updates_setting(u->all, "beta_2_decay")));
    const mf_output step = u->weight->shape.rank >= 2 ? factored_step(u, gradient, squares, keep)
                                                      : plain_step(u, gradient, squares, keep);
    const mf_output over = opt_adafactor_op2(g, "RealDiv", root_mean_square(g, step),
                                             mf_updates_setting(u->all, "clip_threshold"));
    const mf_output clipped = opt_adafactor_op2(
        g, "RealDiv", step, opt_adafactor_op2(g, "Maximum", opt_adafactor_f32(g, 1.0), over));

    mf_update_apply(
        u, "AssignSubVariableOp",
        MF_IN(u->weight->handle, opt_adafactor_op2(g, "Mul", rate_of(u, count), clipped)), "");
}
