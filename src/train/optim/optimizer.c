/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.c - finding an optimizer, and the common part of all: slots, scalars, settings, decay.
 */
#include "train/optim/optimizer.h"

#include "spmd/propagate/sharding_table.h"
#include "train/step/ema.h"

#include <string.h>

/* ---- settings ---- */

typedef struct optimizer_range {
    const char *name;
    double low, high; /* low <= value < high */
} optimizer_range;

/* The valid ranges of settings; settings that are not listed must be 0 or more. */
static const optimizer_range ranges[] = {
    { "beta_1", 0.0, 1.0 },   { "beta_2", 0.0, 1.0 },        { "rho", 0.0, 1.0 },
    { "momentum", 0.0, 1.0 }, { "beta_2_decay", -1e9, 0.0 }, { "learning_rate_power", -1e9, 1e-30 },
};

static mf_status check_settings(const mf_options *o)
{
    for (int i = 0; i < o->n; i++) {
        optimizer_range r = { o->attrs[i].name, 0.0, 1e30 };
        double value;

        if (o->attrs[i].value.kind != MF_ATTR_FLOAT)
            continue;
        for (int k = 0; k < MF_COUNT(ranges); k++) {
            if (strcmp(ranges[k].name, r.name) == 0)
                r = ranges[k];
        }
        value = mf_options_float(o, r.name);
        if (!(value >= r.low && value < r.high))
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s: %s=%g is out of range; it must be %s",
                           o->subject, r.name, value,
                           r.low < 0.0     ? "below 0"
                           : r.high == 1.0 ? "at least 0 and below 1"
                                           : "0 or more");
    }
    return MF_OK;
}

mf_status mf_optimizer_parse(const char *text, mf_arena *arena, const mf_optimizer_kind **kind,
                             mf_options *out)
{
    static const mf_kinds kinds = { "optimizer", mf_optimizers, sizeof *mf_optimizers };
    const void *row;
    const char *rest;

    *kind = NULL;
    MF_TRY(mf_kinds_find(&kinds, text, arena, &row, &rest));
    *kind = row;
    MF_TRY(mf_options_parse((*kind)->name, (*kind)->settings, rest, arena, out));
    return check_settings(out);
}

mf_status mf_updates_begin(mf_updates *all, mf_model *model, const mf_compile_options *options)
{
    mf_graph *g = model->graph;

    all->model = model;
    all->graph = g;
    MF_TRY(mf_optimizer_parse(options->optimizer ? options->optimizer : "sgd", g->arena, &all->kind,
                              &all->o));
    if (!(options->weight_decay >= 0.0))
        return MF_FAIL(MF_INVALID_ARGUMENT, "weight_decay is %g; it must be 0 or more",
                       options->weight_decay);
    if (!(options->ema >= 0.0 && options->ema < 1.0))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "ema, the decay of the moving average, is %g; it must be below 1",
                       options->ema);
    all->weight_decay = options->weight_decay;
    if (all->weight_decay == 0.0 && mf_options_has(&all->o, "weight_decay"))
        all->weight_decay = mf_options_float(&all->o, "weight_decay");
    all->ema = options->ema;
    all->hogwild = options->hogwild;
    all->step = mf_applyf(g, "StridedSlice",
                          MF_IN(model->clock, mf_ints(g, (int64_t[]){ 1 }, 1),
                                mf_ints(g, (int64_t[]){ 2 }, 1), mf_ints(g, (int64_t[]){ 1 }, 1)),
                          "shrink_axis_mask=1");
    return mf_graph_status(g);
}

mf_output mf_updates_setting(const mf_updates *all, const char *name)
{
    return mf_scalar(all->graph, MF_DTYPE_F32, mf_options_float(&all->o, name));
}

mf_output mf_updates_count(const mf_updates *all)
{
    mf_graph *g = all->graph;
    const mf_output next = mf_apply(g, "AddV2", MF_IN(all->step, mf_scalar(g, MF_DTYPE_I64, 1)));

    return mf_applyf(g, "Cast", MF_IN(next), "DstT=float");
}

/* ---- state ---- */

static mf_output new_state(mf_updates *all, const char *name, const mf_shape *shape,
                           mf_output initial)
{
    char text[MF_SHAPE_TEXT];
    mf_state s = { .name = name, .dtype = MF_DTYPE_F32, .shape = *shape, .initial = initial };

    if (!name ||
        mf_grow(&all->states, &all->cap_states, all->n_states + 1, sizeof(mf_state)) != MF_OK) {
        mf_graph_fail(all->graph, MF_NOMEM("a slot"));
        return (mf_output){ 0 };
    }
    s.handle =
        mf_applyf(all->graph, "VarHandleOp", MF_NO_IN,
                  "dtype=float shape=shape%s shared_name='%s' name='%s' " MF_SLOT_ATTR "=true",
                  mf_shape_text(shape, text), name, name);
    all->states[all->n_states++] = s;
    return s.handle;
}

static const char *slot_name(const mf_update *u, const char *name)
{
    return mf_arena_printf(u->all->graph->arena, "%s/%s", u->weight->name, name);
}

mf_output mf_update_slot_like(const mf_update *u, const char *name, mf_output initial)
{
    return new_state(u->all, slot_name(u, name), &u->weight->shape, initial);
}

mf_output mf_update_slot_shaped(const mf_update *u, const char *name, const mf_shape *shape,
                                double value)
{
    mf_graph *g = u->all->graph;

    return new_state(
        u->all, slot_name(u, name), shape,
        mf_apply(g, "Fill",
                 MF_IN(mf_ints(g, shape->dims, shape->rank), mf_scalar(g, MF_DTYPE_F32, value))));
}

mf_output mf_update_slot(const mf_update *u, const char *name, double value)
{
    return mf_update_slot_shaped(u, name, &u->weight->shape, value);
}

mf_output mf_update_read(const mf_update *u, mf_output slot)
{
    return mf_applyf(u->all->graph, "ReadVariableOp", MF_IN(slot), "dtype=float");
}

static mf_state *optimizer_find_state(const mf_updates *all, const char *name)
{
    for (int64_t i = 0; i < all->n_states; i++) {
        if (strcmp(all->states[i].name, name) == 0)
            return &all->states[i];
    }
    return NULL;
}

/* Read once for all weights: updates with identical scalar inputs can run as one op, and no
 * assignment of the next value can come between two of them. */
mf_output mf_updates_scalar(mf_updates *all, const char *name, double value)
{
    mf_state *s = optimizer_find_state(all, name);

    if (!s) {
        (void)new_state(all, name, &MF_SCALAR, mf_scalar(all->graph, MF_DTYPE_F32, value));
        s = optimizer_find_state(all, name);
    }
    if (!s)
        return (mf_output){ 0 };
    if (!s->value.node)
        s->value = mf_applyf(all->graph, "ReadVariableOp", MF_IN(s->handle), "dtype=float");
    return s->value;
}

void mf_updates_scalar_set(mf_updates *all, const char *name, mf_output next)
{
    const mf_state *s = optimizer_find_state(all, name);

    if (s)
        mf_updates_add(all, mf_apply(all->graph, "AssignVariableOp", MF_IN(s->handle, next)));
}

/* ---- updates ---- */

void mf_updates_add(mf_updates *all, mf_output node)
{
    if (!node.node)
        return;
    if (mf_grow(&all->done, &all->cap_done, all->n_done + 1, sizeof(mf_node *)) != MF_OK) {
        mf_graph_fail(all->graph, MF_NOMEM("a step"));
        return;
    }
    if (all->guard)
        mf_control(all->graph, node.node, all->guard);
    all->done[all->n_done++] = node.node;
}

/* Only Apply ops have the choice of locks. */
void mf_update_apply(const mf_update *u, const char *op, const mf_output *inputs,
                     const char *attributes)
{
    const char *lock = !strstr(op, "Apply") ? ""
                       : u->all->hogwild    ? "use_locking=false _hogwild=true"
                                            : "use_locking=true";
    const mf_output node = mf_applyf(u->all->graph, op, inputs, "%s %s", attributes, lock);

    if (u->decay && node.node)
        mf_control(u->all->graph, node.node, u->decay);
    mf_updates_add(u->all, node);
}

bool mf_update_is_sparse(const mf_update *u)
{
    return u->ids.node != NULL;
}

mf_output mf_update_dense_gradient(const mf_update *u)
{
    mf_graph *g = u->all->graph;

    if (!mf_update_is_sparse(u))
        return u->gradient;
    return mf_apply(
        g, "UnsortedSegmentSum",
        MF_IN(u->gradient, u->ids, mf_scalar(g, MF_DTYPE_I64, (double)u->weight->shape.dims[0])));
}

mf_output mf_update_value(const mf_update *u)
{
    mf_output value;

    if (!u->decay && u->weight->value.node)
        return u->weight->value;
    value = mf_update_read(u, u->weight->handle);
    if (u->decay && value.node)
        mf_control(u->all->graph, value.node, u->decay);
    return value;
}

/* w -= w * weight_decay * learning_rate, as Keras does it before the update. The gradient is that
 * of the weight before. */
static void add_decay(mf_update *u)
{
    mf_updates *all = u->all;
    mf_output by;

    if (all->weight_decay == 0.0 || u->weight->shape.rank < 2)
        return;
    by =
        mf_apply(all->graph, "Mul",
                 MF_IN(mf_update_value(u), mf_scalar(all->graph, MF_DTYPE_F32, all->weight_decay)));
    mf_update_apply(u, "ResourceApplyGradientDescent",
                    MF_IN(u->weight->handle, all->learning_rate, by), "");
    if (mf_graph_status(all->graph) == MF_OK)
        u->decay = all->done[all->n_done - 1];
}

void mf_update_weight(mf_update *u)
{
    const int64_t first = u->all->n_done;

    add_decay(u);
    u->all->kind->apply(u);
    if (u->all->ema != 0.0)
        mf_ema_add(u, first);
}
