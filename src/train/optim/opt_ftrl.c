/* SPDX-License-Identifier: Apache-2.0 */
/* opt_ftrl.c - FTRL-proximal: follow the regularised leader.
 *
 * The optimizer has a row in optimizer_table.c; its update op is in ops/optim/apply_ops.c, the
 * arithmetic is in ops/optim/apply_rules.c. */
#include "train/optim/optimizer_table.h"

/* Keras's beta adds beta / (2 * rate) to l2. */
static mf_output l2_of(const mf_updates *all)
{
    mf_graph *g = all->graph;
    const double beta = mf_options_float(&all->o, "beta");
    const mf_output l2 = mf_updates_setting(all, "l2_regularization_strength");

    if (beta == 0.0)
        return l2;
    return mf_apply(
        g, "AddV2",
        MF_IN(l2, mf_apply(g, "RealDiv",
                           MF_IN(mf_scalar(g, MF_DTYPE_F32, beta / 2.0), all->learning_rate))));
}

void mf_ftrl_apply(const mf_update *u)
{
    const mf_updates *all = u->all;
    const mf_output w = u->weight->handle, rate = all->learning_rate, l2 = l2_of(all);
    const mf_output l1 = mf_updates_setting(all, "l1_regularization_strength");
    const mf_output shrink = mf_updates_setting(all, "l2_shrinkage_regularization_strength");
    const mf_output power = mf_updates_setting(all, "learning_rate_power");
    const mf_output sum =
        mf_update_slot(u, "Ftrl", mf_options_float(&all->o, "initial_accumulator_value"));
    const mf_output linear = mf_update_slot(u, "Ftrl_1", 0.0);

    if (mf_update_is_sparse(u))
        mf_update_apply(u, "ResourceSparseApplyFtrlV2",
                        MF_IN(w, sum, linear, u->gradient, u->ids, rate, l1, l2, shrink, power),
                        "");
    else
        mf_update_apply(u, "ResourceApplyFtrlV2",
                        MF_IN(w, sum, linear, u->gradient, rate, l1, l2, shrink, power), "");
}
