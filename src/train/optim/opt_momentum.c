/* SPDX-License-Identifier: Apache-2.0 */
/* opt_momentum.c - gradient descent, plain and with momentum.
 *
 * The optimizers have rows in optimizer_table.c; their update ops are in ops/optim/apply_ops.c, the
 * arithmetic is in ops/optim/apply_rules.c. */
#include "train/optim/optimizer_table.h"

/* Sparse: TensorFlow 1 scatters -rate * gradient. The proximal op without l1 and l2 gives the same
 * bits in one op, and as an Apply op it can run without locks. */
void mf_sgd_apply(const mf_update *u)
{
    const mf_output rate = u->all->learning_rate;
    const mf_output zero = mf_scalar(u->all->graph, MF_DTYPE_F32, 0.0);

    if (mf_update_is_sparse(u))
        mf_update_apply(u, "ResourceSparseApplyProximalGradientDescent",
                        MF_IN(u->weight->handle, rate, zero, zero, u->gradient, u->ids), "");
    else
        mf_update_apply(u, "ResourceApplyGradientDescent",
                        MF_IN(u->weight->handle, rate, u->gradient), "");
}

void mf_momentum_apply(const mf_update *u)
{
    const char *attributes =
        mf_options_bool(&u->all->o, "nesterov") ? "use_nesterov=true" : "use_nesterov=false";
    const mf_output slot = mf_update_slot(u, "Momentum", 0.0);
    const mf_output momentum = mf_updates_setting(u->all, "momentum");
    const mf_output rate = u->all->learning_rate;

    if (mf_update_is_sparse(u))
        mf_update_apply(u, "ResourceSparseApplyMomentum",
                        MF_IN(u->weight->handle, slot, rate, u->gradient, u->ids, momentum),
                        attributes);
    else
        mf_update_apply(u, "ResourceApplyMomentum",
                        MF_IN(u->weight->handle, slot, rate, u->gradient, momentum), attributes);
}
