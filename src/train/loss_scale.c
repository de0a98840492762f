/* SPDX-License-Identifier: Apache-2.0 */
/* loss_scale.c - see loss_scale.h. */
#include "train/loss_scale.h"

#include "graph/gradients.h"

static const char factor_name[] = "loss_scale", good_name[] = "loss_scale_good_steps";

static mf_output f32(mf_graph *g, double value)
{
    return mf_scalar(g, MF_DTYPE_F32, value);
}

static mf_output op2(mf_graph *g, const char *op, mf_output x, mf_output y)
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

/* 0, or NaN where one of the numbers is not finite. */
static mf_output zero_if_finite(mf_graph *g, mf_output x)
{
    const mf_output flat = mf_apply(g, "Reshape", MF_IN(x, mf_ints(g, (int64_t[]){ -1 }, 1)));

    return mf_apply(g, "Sum",
                    MF_IN(op2(g, "Mul", flat, f32(g, 0.0)), mf_ints(g, (int64_t[]){ 0 }, 1)));
}

mf_output mf_loss_scale_gate(const mf_loss_scale *s, mf_graph *graph, mf_output value)
{
    if (!s->finite.node)
        return value;
    value = mf_apply(graph, "Switch", MF_IN(value, s->finite));
    value.port = 1;
    return value;
}

mf_status mf_loss_scale_undo(mf_loss_scale *s, mf_updates *all, mf_update *updates, int n)
{
    mf_graph *g = all->graph;
    const mf_output end = MF_END;
    mf_outputs zeros = { 0 };
    mf_output undo;

    if (!s->factor.node)
        return MF_OK;
    undo = op2(g, "RealDiv", f32(g, 1.0), s->factor);
    for (int i = 0; i < n; i++) {
        MF_TRY(mf_outputs_add(g->arena, &zeros, zero_if_finite(g, updates[i].gradient)));
        updates[i].gradient = op2(g, "Mul", updates[i].gradient, undo);
    }
    MF_TRY(mf_outputs_add(g->arena, &zeros, end));
    s->finite = mf_apply(g, "IsFinite", MF_IN(mf_apply(g, "AddN", zeros.at)));
    for (int i = 0; i < n; i++)
        updates[i].gradient = mf_loss_scale_gate(s, g, updates[i].gradient);
    return mf_graph_status(g);
}

static mf_output choose(mf_graph *g, mf_output condition, mf_output yes, mf_output no)
{
    return mf_apply(g, "SelectV2", MF_IN(condition, yes, no));
}

void mf_loss_scale_adjust(const mf_loss_scale *s, mf_updates *all)
{
    mf_graph *g = all->graph;
    mf_output good, grown, next;

    if (!s->factor.node)
        return;
    good = choose(g, s->finite, op2(g, "AddV2", s->good_steps, f32(g, 1.0)), f32(g, 0.0));
    grown = op2(g, "GreaterEqual", good, f32(g, (double)s->growth));
    next = choose(g, grown, op2(g, "Mul", s->factor, f32(g, 2.0)), s->factor);
    next = choose(g, s->finite, next,
                  op2(g, "Maximum", op2(g, "Mul", s->factor, f32(g, 0.5)), f32(g, 1.0)));
    mf_updates_scalar_set(all, factor_name, next);
    mf_updates_scalar_set(all, good_name, choose(g, grown, f32(g, 0.0), good));
}
