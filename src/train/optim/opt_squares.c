/* SPDX-License-Identifier: Apache-2.0 */
/* opt_squares.c - rates by the squares of past gradients: all of them (Adagrad), or a moving mean
 * (RMSProp). Slots have the names of TensorFlow 1 and the initial values of Keras: RMSProp's mean
 * is 0, where TensorFlow 1 has 1.
 *
 * The optimizers have rows in optimizer_table.c; their update ops are in ops/optim/apply_ops.c, the
 * arithmetic is in ops/optim/apply_rules.c. */
#include "train/optim/optimizer_table.h"

void mf_adagrad_apply(const mf_update *u)
{
    const mf_output w = u->weight->handle, rate = u->all->learning_rate;
    const mf_output sum =
        mf_update_slot(u, "Adagrad", mf_options_float(&u->all->o, "initial_accumulator_value"));
    const mf_output epsilon = mf_updates_setting(u->all, "epsilon");

    if (mf_update_is_sparse(u))
        mf_update_apply(u, "ResourceSparseApplyAdagradV2",
                        MF_IN(w, sum, rate, epsilon, u->gradient, u->ids), "");
    else
        mf_update_apply(u, "ResourceApplyAdagradV2", MF_IN(w, sum, rate, epsilon, u->gradient), "");
}

/* With the mean gradient, too. */
static void apply_centered(const mf_update *u, mf_output rate, mf_output rho, mf_output momentum,
                           mf_output epsilon)
{
    const mf_output w = u->weight->handle, ms = mf_update_slot(u, "RMSProp", 0.0),
                    mg = mf_update_slot(u, "RMSProp_1", 0.0),
                    mom = mf_update_slot(u, "RMSProp_2", 0.0);

    if (mf_update_is_sparse(u))
        mf_update_apply(u, "ResourceSparseApplyCenteredRMSProp",
                        MF_IN(w, mg, ms, mom, rate, rho, momentum, epsilon, u->gradient, u->ids),
                        "");
    else
        mf_update_apply(u, "ResourceApplyCenteredRMSProp",
                        MF_IN(w, mg, ms, mom, rate, rho, momentum, epsilon, u->gradient), "");
}

void mf_rmsprop_apply(const mf_update *u)
{
    const mf_output w = u->weight->handle, rate = u->all->learning_rate;
    const mf_output rho = mf_updates_setting(u->all, "rho");
    const mf_output momentum = mf_updates_setting(u->all, "momentum");
    const mf_output epsilon = mf_updates_setting(u->all, "epsilon");
    mf_output ms, mom;

    if (mf_options_bool(&u->all->o, "centered")) {
        apply_centered(u, rate, rho, momentum, epsilon);
        return;
    }
    ms = mf_update_slot(u, "RMSProp", 0.0);
    mom = mf_update_slot(u, "RMSProp_1", 0.0);
    if (mf_update_is_sparse(u))
        mf_update_apply(u, "ResourceSparseApplyRMSProp",
                        MF_IN(w, ms, mom, rate, rho, momentum, epsilon, u->gradient, u->ids), "");
    else
        mf_update_apply(u, "ResourceApplyRMSProp",
                        MF_IN(w, ms, mom, rate, rho, momentum, epsilon, u->gradient), "");
}
