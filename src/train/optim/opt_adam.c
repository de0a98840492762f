/* SPDX-License-Identifier: Apache-2.0 */
/* opt_adam.c - Adam, AMSGrad, AdamW (whose decay is that of all optimizers, see optimizer.c).
 *
 * Sparse gradients, as in TensorFlow 1: rows that were not looked up have a gradient of 0, so their
 * means fall and they move on. With `lazy` they do not change, which costs only the rows that were
 * looked up: for large tables.
 *
 * The optimizers have rows in optimizer_table.c; their update ops are in ops/optim/apply_ops.c, the
 * arithmetic is in ops/optim/apply_rules.c. */
#include "train/optim/optimizer_table.h"

typedef struct adam {
    const mf_update *u;
    mf_output m, v; /* slots */
    mf_output power_1, power_2; /* beta to the number of this step */
    mf_output beta_1, beta_2, epsilon;
} adam;

static mf_output opt_adam_op2(const adam *a, const char *op, mf_output x, mf_output y)
{
    return mf_apply(a->u->all->graph, op, MF_IN(x, y));
}

static mf_output opt_adam_number(const adam *a, double value)
{
    return mf_scalar(a->u->all->graph, MF_DTYPE_F32, value);
}

/* mean += (x - mean) * (1 - beta) in the rows `ids`. Returns the new rows. */
static mf_output follow_rows(const adam *a, mf_output slot, mf_output x, mf_output beta)
{
    const mf_update *u = a->u;
    const mf_output old =
        mf_applyf(u->all->graph, "ResourceGather", MF_IN(slot, u->ids), "dtype=float");
    const mf_output rest = opt_adam_op2(a, "Sub", opt_adam_number(a, 1.0), beta);
    const mf_output rows =
        opt_adam_op2(a, "AddV2", old, opt_adam_op2(a, "Mul", opt_adam_op2(a, "Sub", x, old), rest));

    mf_update_apply(u, "ResourceScatterUpdate", MF_IN(slot, u->ids, rows), "dtype=float");
    return rows;
}

/* The rule of ResourceApplyAdam on some rows. */
static void apply_lazy(const adam *a)
{
    const mf_update *u = a->u;
    mf_graph *g = u->all->graph;
    const mf_output one = opt_adam_number(a, 1.0);
    const mf_output m = follow_rows(a, a->m, u->gradient, a->beta_1);
    const mf_output v = follow_rows(a, a->v, mf_apply(g, "Square", MF_IN(u->gradient)), a->beta_2);
    const mf_output root = mf_apply(g, "Sqrt", MF_IN(opt_adam_op2(a, "Sub", one, a->power_2)));
    const mf_output alpha =
        opt_adam_op2(a, "RealDiv", opt_adam_op2(a, "Mul", u->all->learning_rate, root),
                     opt_adam_op2(a, "Sub", one, a->power_1));
    const mf_output size = opt_adam_op2(a, "AddV2", mf_apply(g, "Sqrt", MF_IN(v)), a->epsilon);

    mf_update_apply(u, "ResourceScatterSub",
                    MF_IN(u->weight->handle, u->ids,
                          opt_adam_op2(a, "RealDiv", opt_adam_op2(a, "Mul", m, alpha), size)),
                    "dtype=float");
}

static void opt_adam_apply(const mf_update *u, const char *slot, const char *slot_1,
                           const char *slot_2)
{
    mf_updates *all = u->all;
    const mf_options *o = &all->o;
    const mf_output w = u->weight->handle, rate = all->learning_rate;
    adam a = { .u = u };

    a.m = mf_update_slot(u, slot, 0.0);
    a.v = mf_update_slot(u, slot_1, 0.0);
    a.power_1 = mf_updates_scalar(all, "beta1_power", mf_options_float(o, "beta_1"));
    a.power_2 = mf_updates_scalar(all, "beta2_power", mf_options_float(o, "beta_2"));
    a.beta_1 = mf_updates_setting(all, "beta_1");
    a.beta_2 = mf_updates_setting(all, "beta_2");
    a.epsilon = mf_updates_setting(all, "epsilon");
    if (mf_options_bool(o, "amsgrad"))
        mf_update_apply(u, "ResourceApplyAdamWithAmsgrad",
                        MF_IN(w, a.m, a.v, mf_update_slot(u, slot_2, 0.0), a.power_1, a.power_2,
                              rate, a.beta_1, a.beta_2, a.epsilon, mf_update_dense_gradient(u)),
                        "");
    else if (mf_update_is_sparse(u) && mf_options_bool(o, "lazy"))
        apply_lazy(&a);
    else
        mf_update_apply(u, "ResourceApplyAdam",
                        MF_IN(w, a.m, a.v, a.power_1, a.power_2, rate, a.beta_1, a.beta_2,
                              a.epsilon, mf_update_dense_gradient(u)),
                        "");
}

void mf_adam_apply(const mf_update *u)
{
    opt_adam_apply(u, "Adam", "Adam_1", "Adam_2");
}

void mf_adamw_apply(const mf_update *u)
{
    opt_adam_apply(u, "AdamW", "AdamW_1", "AdamW_2");
}

static void next_power(mf_updates *all, const char *name, const char *setting)
{
    const mf_output beta = mf_updates_setting(all, setting);
    const mf_output power = mf_updates_scalar(all, name, mf_options_float(&all->o, setting));

    mf_updates_scalar_set(all, name, mf_apply(all->graph, "Mul", MF_IN(power, beta)));
}

void mf_adam_finish(mf_updates *all)
{
    next_power(all, "beta1_power", "beta_1");
    next_power(all, "beta2_power", "beta_2");
}
