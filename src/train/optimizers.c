/* SPDX-License-Identifier: Apache-2.0 */
/* optimizers.c - the table of optimizers. */
#include "train/optimizer.h"

static bool is_sparse(const mf_update *u)
{
    return u->ids.node != NULL;
}

static void sgd_apply(const mf_update *u)
{
    mf_graph *g = u->all->graph;

    if (is_sparse(u)) {
        mf_output step = mf_apply(g, "Mul", MF_IN(u->all->learning_rate, u->gradient));

        mf_update_apply(u, "ResourceScatterSub", MF_IN(u->weight->handle, u->ids, step),
                        "dtype=float");
        return;
    }
    mf_update_apply(u, "ResourceApplyGradientDescent",
                    MF_IN(u->weight->handle, u->all->learning_rate, u->gradient), "");
}

static void momentum_apply(const mf_update *u)
{
    const char *attributes =
        mf_options_bool(&u->all->o, "nesterov") ? "use_nesterov=true" : "use_nesterov=false";
    const mf_output slot = mf_update_slot(u, "Momentum", 0.0);
    const mf_output momentum = mf_updates_setting(u->all, "momentum");

    if (is_sparse(u))
        mf_update_apply(
            u, "ResourceSparseApplyMomentum",
            MF_IN(u->weight->handle, slot, u->all->learning_rate, u->gradient, u->ids, momentum),
            attributes);
    else
        mf_update_apply(
            u, "ResourceApplyMomentum",
            MF_IN(u->weight->handle, slot, u->all->learning_rate, u->gradient, momentum),
            attributes);
}

const mf_optimizer_kind mf_optimizers[] = {
    { "sgd", "{learning_rate: float = 0.01}", "steps against the gradient", sgd_apply, NULL },
    { "momentum", "{learning_rate: float = 0.01, momentum: float = 0.9, nesterov: bool = false}",
      "steps that keep part of the last direction", momentum_apply, NULL },
    { 0 },
};
