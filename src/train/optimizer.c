/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.c - finding an optimizer, and what all of them need: slots, scalars, settings. */
#include "train/optimizer.h"

#include "base/closest.h"

#include <string.h>

mf_status mf_optimizer_parse(const char *text, mf_arena *arena, const mf_optimizer_kind **kind,
                             mf_options *out)
{
    const char *head, *rest;
    mf_closest close;

    *kind = NULL;
    MF_TRY(mf_options_head(text, arena, &head, &rest));
    close = mf_closest_to(head);
    for (const mf_optimizer_kind *k = mf_optimizers; k->name; k++) {
        if (strcmp(k->name, head) == 0) {
            *kind = k;
            return mf_options_parse(k->name, k->settings, rest, arena, out);
        }
        mf_closest_try(&close, k->name);
    }
    return MF_FAIL(MF_NOT_FOUND, "there is no optimizer '%.60s'%s%s%s", head,
                   close.best ? "; did you mean '" : "", close.best ? close.best : "",
                   close.best ? "'?" : "");
}

/* ---- state ---- */

static mf_output new_state(mf_updates *all, const char *name, mf_dtype dtype, const mf_shape *shape,
                           double value)
{
    mf_graph *g = all->graph;
    char text[MF_SHAPE_TEXT];
    mf_state s = { .name = name, .dtype = dtype, .shape = *shape };

    if (!name ||
        mf_grow(&all->states, &all->cap_states, all->n_states + 1, sizeof(mf_state)) != MF_OK) {
        mf_graph_fail(g, MF_NOMEM("a slot"));
        return (mf_output){ 0 };
    }
    s.handle =
        mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=%s shape=shape%s shared_name='%s' name='%s'",
                  mf_dtype_name(dtype), mf_shape_text(shape, text), name, name);
    s.initial = mf_apply(g, "Fill",
                         MF_IN(mf_ints(g, shape->dims, shape->rank), mf_scalar(g, dtype, value)));
    all->states[all->n_states++] = s;
    return s.handle;
}

mf_output mf_update_slot_shaped(const mf_update *u, const char *name, const mf_shape *shape,
                                double value)
{
    return new_state(u->all, mf_arena_printf(u->all->graph->arena, "%s/%s", u->weight->name, name),
                     MF_DTYPE_F32, shape, value);
}

mf_output mf_update_slot(const mf_update *u, const char *name, double value)
{
    return mf_update_slot_shaped(u, name, &u->weight->shape, value);
}

mf_output mf_updates_scalar(mf_updates *all, const char *name, double value)
{
    for (int64_t i = 0; i < all->n_states; i++) {
        if (strcmp(all->states[i].name, name) == 0)
            return all->states[i].handle;
    }
    return new_state(all, name, MF_DTYPE_F32, &MF_SCALAR, value);
}

mf_output mf_updates_setting(const mf_updates *all, const char *name)
{
    return mf_scalar(all->graph, MF_DTYPE_F32, mf_options_float(&all->o, name));
}

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

void mf_update_apply(const mf_update *u, const char *op, const mf_output *inputs,
                     const char *attributes)
{
    mf_updates_add(u->all, mf_applyf(u->all->graph, op, inputs, "%s", attributes));
}
