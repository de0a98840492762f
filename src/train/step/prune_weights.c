/* SPDX-License-Identifier: Apache-2.0 */
/* prune_weights.c - pruning during training: keeps pruned weights at zero, and prunes more on
 * schedule. */
#include "train/step/prune_weights.h"

#include "graph/gradients.h"

#include <fnmatch.h>
#include <string.h>

typedef struct prune_kind {
    const char *name, *settings;
} prune_kind;

static const prune_kind kinds[] = {
    { "magnitude", "{sparsity: float, begin: int >= 0 = 0, end: int >= 0 = 0, every: int >= 1 = "
                   "100, first: float = 0.0, scope: string in ['global','layer'] = 'global', "
                   "only: string = '*'}" },
    { "hold", "{only: string = '*'}" },
    { 0 },
};

mf_status mf_prune_parse(const char *text, mf_arena *arena, mf_prune *out)
{
    static const mf_kinds all = { "way of pruning", kinds, sizeof *kinds };
    const void *row;
    const char *rest;
    mf_options o;

    MF_TRY(mf_kinds_find(&all, text, arena, &row, &rest));
    MF_TRY(mf_options_parse(((const prune_kind *)row)->name, ((const prune_kind *)row)->settings,
                            rest, arena, &o));
    *out =
        (mf_prune){ .holds = row == &kinds[1], .only = mf_options_string(&o, "only"), .every = 1 };
    if (out->holds)
        return MF_OK;
    out->global = strcmp(mf_options_string(&o, "scope"), "global") == 0;
    out->first = mf_options_float(&o, "first");
    out->last = mf_options_float(&o, "sparsity");
    out->begin = mf_options_int(&o, "begin");
    out->end_given = mf_options_given(&o, "end");
    out->end = out->end_given ? mf_options_int(&o, "end") : out->begin;
    out->every_given = mf_options_given(&o, "every");
    out->every = mf_options_int(&o, "every");
    if (!(out->last >= 0 && out->last < 1) || !(out->first >= 0 && out->first <= out->last))
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "magnitude: sparsity=%g first=%g: shares of zeros are from 0 to below 1, and "
            "the first is not above the last",
            out->last, out->first);
    if (out->end < out->begin)
        return MF_FAIL(MF_INVALID_ARGUMENT, "magnitude: end=%lld is before begin=%lld",
                       (long long)out->end, (long long)out->begin);
    return MF_OK;
}

void mf_prune_text(const mf_prune *prune, mf_buf *out)
{
    const mf_setting_printer p = { out, NULL };

    mf_buf_str(out, prune->holds ? "hold" : "magnitude");
    mf_setting_string(&p, "only", prune->only);
    if (prune->holds)
        return;
    mf_setting_float(&p, "sparsity", prune->last);
    mf_setting_float(&p, "first", prune->first);
    mf_setting_int(&p, "begin", prune->begin);
    if (prune->end_given)
        mf_setting_int(&p, "end", prune->end);
    if (prune->every_given)
        mf_setting_int(&p, "every", prune->every);
    mf_setting_string(&p, "scope", prune->global ? "global" : "layer");
}

mf_status mf_prune_is_global(const char *text, mf_arena *arena, bool *out)
{
    mf_prune p = { 0 };

    if (text)
        MF_TRY(mf_prune_parse(text, arena, &p));
    *out = p.global;
    return MF_OK;
}

static bool is_pruned(const mf_update *u, const mf_prune *p)
{
    return u->weight->shape.rank >= 2 && !mf_update_is_sparse(u) && !u->weight->lookups &&
           fnmatch(p->only, u->weight->name, 0) == 0;
}

/* The weight before all updates of the step, and after them. */
static mf_output prune_weights_before(const mf_update *u)
{
    mf_updates *all = u->all;
    const mf_output value =
        u->weight->value.node ? u->weight->value : mf_update_read(u, u->weight->handle);

    for (int64_t i = 0; value.node && i < all->n_done; i++)
        mf_control(all->graph, all->done[i], value.node);
    return value;
}

static mf_output prune_weights_after(const mf_update *u)
{
    const mf_output value = mf_update_read(u, u->weight->handle);

    for (int64_t i = 0; value.node && i < u->all->n_done; i++)
        mf_control(u->all->graph, value.node, u->all->done[i]);
    return value;
}

/* One selection among these weights. */
static mf_status prune_together(const mf_prune *p, mf_update *const *chosen, int n)
{
    mf_updates *all = chosen[0]->all;
    mf_arena *arena = all->graph->arena;
    mf_outputs in = { 0 };
    mf_output kept;

    MF_TRY(mf_outputs_add(arena, &in, all->step));
    for (int i = 0; i < n; i++)
        MF_TRY(mf_outputs_add(arena, &in, prune_weights_before(chosen[i])));
    for (int i = 0; i < n; i++)
        MF_TRY(mf_outputs_add(arena, &in, prune_weights_after(chosen[i])));
    MF_TRY(mf_outputs_add(arena, &in, (mf_output)MF_END));
    kept = mf_applyf(
        all->graph, "_Prune", in.at, "N=%d begin=%lld end=%lld every=%lld first=%.9g last=%.9g", n,
        (long long)p->begin, (long long)p->end, (long long)p->every, p->first, p->last);
    MF_TRY(mf_graph_status(all->graph));
    for (int i = 0; i < n; i++)
        mf_updates_add(all,
                       mf_apply(all->graph, "AssignVariableOp",
                                MF_IN(chosen[i]->weight->handle, ((mf_output){ kept.node, i }))));
    return mf_graph_status(all->graph);
}

mf_status mf_prune_add(const char *text, mf_update *updates, int n)
{
    mf_arena *arena = n > 0 ? updates[0].all->graph->arena : NULL;
    mf_update **chosen = n > 0 ? MF_ARENA_ARRAY(arena, mf_update *, n) : NULL;
    int n_chosen = 0;
    mf_prune p;

    if (!text || n == 0)
        return MF_OK;
    if (!chosen)
        return MF_NOMEM("pruning");
    MF_TRY(mf_prune_parse(text, arena, &p));
    if (updates[0].all->ema != 0.0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "--prune and --ema cannot be combined: averages of "
                                            "pruned weights are not zero");
    for (int i = 0; i < n; i++) {
        if (is_pruned(&updates[i], &p))
            chosen[n_chosen++] = &updates[i];
    }
    if (p.global && n_chosen > 0)
        return prune_together(&p, chosen, n_chosen);
    for (int i = 0; i < n_chosen; i++)
        MF_TRY(prune_together(&p, &chosen[i], 1));
    return MF_OK;
}
