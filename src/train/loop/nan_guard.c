/* SPDX-License-Identifier: Apache-2.0 */
/* nan_guard.c - NaN/Inf in gradients: detects it with `_AllFinite`, and skips the step or stops the
 * training.
 *
 * A control edge from the taken side of a Switch skips updates: on the other side they are dead. No
 * gradient passes the Switch, so nothing is copied. */
#include "train/loop/nan_guard.h"

#include "train/step/trainer.h"

#include <string.h>

static const char skipped_name[] = "skipped_steps", row_name[] = "skipped_steps_in_row";

typedef struct kind_row {
    const char *name;
    const char *settings;
} kind_row;

static const kind_row rows[] = {
    [MF_GUARD_STOP] = { "stop", "{}" },
    [MF_GUARD_SKIP] = { "skip", "{in_row: int >= 1 = 10}" },
    [MF_GUARD_OFF] = { "off", "{}" },
    { 0 },
};

mf_status mf_guard_parse(const char *text, mf_arena *arena, mf_guard *out)
{
    const mf_kinds kinds = { "guard", rows, sizeof rows[0] };
    const void *row;
    const char *rest;
    mf_options o;

    *out = (mf_guard){ .kind = MF_GUARD_STOP };
    if (!text)
        return MF_OK;
    MF_TRY(mf_kinds_find(&kinds, text, arena, &row, &rest));
    out->kind = (mf_guard_kind)((const kind_row *)row - rows);
    MF_TRY(mf_options_parse(rows[out->kind].name, rows[out->kind].settings, rest, arena, &o));
    if (out->kind == MF_GUARD_SKIP)
        out->in_row = mf_options_int(&o, "in_row");
    return MF_OK;
}

mf_status mf_guard_watch(mf_guard *guard, mf_updates *all, mf_outputs *sums)
{
    mf_graph *g = all->graph;
    mf_output taken;

    MF_TRY(mf_outputs_add(g->arena, sums, (mf_output)MF_END));
    guard->finite = mf_applyf(g, "_AllFinite", sums->at, "name='all_finite'");
    taken = mf_apply(g, "Switch", MF_IN(guard->finite, guard->finite));
    taken.port = 1;
    all->guard = mf_apply(g, "Identity", MF_IN(taken)).node;
    return mf_graph_status(g);
}

static mf_output guard_choose(mf_graph *g, mf_output condition, mf_output yes, mf_output no)
{
    return mf_apply(g, "SelectV2", MF_IN(condition, yes, no));
}

void mf_guard_count(const mf_guard *guard, mf_updates *all, mf_output loss_scale)
{
    mf_graph *g = all->graph;
    mf_output skipped, row, one, more;

    if (guard->kind != MF_GUARD_SKIP)
        return;
    one = mf_scalar(g, MF_DTYPE_F32, 1.0);
    skipped = mf_updates_scalar(all, skipped_name, 0.0);
    row = mf_updates_scalar(all, row_name, 0.0);
    more = mf_apply(g, "AddV2", MF_IN(row, one));
    if (loss_scale.node)
        more = guard_choose(g, mf_apply(g, "Greater", MF_IN(loss_scale, one)), row, more);
    mf_updates_scalar_set(
        all, skipped_name,
        guard_choose(g, guard->finite, skipped, mf_apply(g, "AddV2", MF_IN(skipped, one))));
    mf_updates_scalar_set(all, row_name,
                          guard_choose(g, guard->finite, mf_scalar(g, MF_DTYPE_F32, 0.0), more));
}

/* ---- the counts ---- */

static int64_t guard_read_count(const mf_trainer *t, const char *name)
{
    const mf_train_var *v = t->graph.guard.kind == MF_GUARD_SKIP ? mf_trainer_find(t, name) : NULL;
    mf_tensor value = { 0 };
    int64_t count = 0;

    if (!v || mf_variable_read(v->variable, &value) != MF_OK)
        return 0;
    count = (int64_t)((const float *)value.data)[0];
    mf_tensor_clear(&value);
    return count;
}

int64_t mf_guard_skipped(const mf_trainer *t)
{
    return guard_read_count(t, skipped_name);
}

int64_t mf_guard_skipped_in_row(const mf_trainer *t)
{
    return guard_read_count(t, row_name);
}

bool mf_guard_is_count(const char *name)
{
    return strcmp(name, skipped_name) == 0 || strcmp(name, row_name) == 0;
}
