/* SPDX-License-Identifier: Apache-2.0 */
/* loss_scale.c - dynamic loss scaling for float16 gradients. */
#include "train/step/loss_scale.h"

static const char factor_name[] = "loss_scale", good_name[] = "loss_scale_good_steps";

static mf_output loss_scale_f32(mf_graph *g, double value)
{
    return mf_scalar(g, MF_DTYPE_F32, value);
}

static mf_output loss_scale_op2(mf_graph *g, const char *op, mf_output x, mf_output y)
{
    return mf_apply(g, op, MF_IN(x, y));
}

void mf_loss_scale_init(mf_loss_scale *s, mf_updates *all, const mf_precision *p)
{
    *s = (mf_loss_scale){ .growth = p->growth };
    if (p->loss_scale == 0.0)
        return;
    s->factor = mf_updates_scalar(all, factor_name, p->loss_scale);
    s->good_steps = mf_updates_scalar(all, good_name, 0.0);
}

void mf_loss_scale_undo(const mf_loss_scale *s, mf_graph *g, mf_update *updates, int n)
{
    mf_output undo;

    if (!s->factor.node)
        return;
    undo = loss_scale_op2(g, "RealDiv", loss_scale_f32(g, 1.0), s->factor);
    for (int i = 0; i < n; i++)
        updates[i].gradient = loss_scale_op2(g, "Mul", updates[i].gradient, undo);
}

static mf_output loss_scale_choose(mf_graph *g, mf_output condition, mf_output yes, mf_output no)
{
    return mf_apply(g, "SelectV2", MF_IN(condition, yes, no));
}

void mf_loss_scale_adjust(const mf_loss_scale *s, mf_updates *all, mf_output finite)
{
    mf_graph *g = all->graph;
    mf_output good, grown, next;

    if (!s->factor.node)
        return;
    good = loss_scale_choose(g, finite,
                             loss_scale_op2(g, "AddV2", s->good_steps, loss_scale_f32(g, 1.0)),
                             loss_scale_f32(g, 0.0));
    grown = loss_scale_op2(g, "GreaterEqual", good, loss_scale_f32(g, (double)s->growth));
    next = loss_scale_choose(g, grown, loss_scale_op2(g, "Mul", s->factor, loss_scale_f32(g, 2.0)),
                             s->factor);
    next = loss_scale_choose(
        g, finite, next,
        loss_scale_op2(g, "Maximum", loss_scale_op2(g, "Mul", s->factor, loss_scale_f32(g, 0.5)),
                       loss_scale_f32(g, 1.0)));
    mf_updates_scalar_set(all, factor_name, next);
    mf_updates_scalar_set(all, good_name,
                          loss_scale_choose(g, grown, loss_scale_f32(g, 0.0), good));
}
