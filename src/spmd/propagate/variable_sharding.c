/* SPDX-License-Identifier: Apache-2.0 */
/* variable_sharding.c - layouts of variables and optimizer slots by the rules "weights" and "slots"
 * (ZeRO). */
#include "spmd/propagate/variable_sharding.h"

#include "spmd/lower/zero_update.h"

/* True if all ops that use the variable support a split of dimension d. */
static bool can_cut(const mf_sharding_table *s, const mf_node *variable, int d)
{
    for (int64_t i = 0; i < s->n; i++) {
        const mf_node *n = s->order[i];
        const mf_split *q = s->splits[n->id];

        for (int k = 0; k < n->n_inputs; k++) {
            if (n->inputs[k].node == variable &&
                (!q || q->in_dims[k].dims[d].letter < 0 ||
                 !mf_cut_is_exact(q->letters[q->in_dims[k].dims[d].letter].cut)))
                return false;
        }
    }
    return true;
}

/* A slot has the attribute, or is an input of an update after the weight. */
static bool is_slot(const mf_sharding_table *s, const mf_node *variable)
{
    if (mf_node_bool(variable, MF_SLOT_ATTR))
        return true;
    for (int64_t i = 0; i < s->n; i++) {
        const mf_node *n = s->order[i];

        for (int k = 1; mf_mesh_is_update(n) && k < n->n_inputs; k++) {
            if (n->inputs[k].node == variable)
                return true;
        }
    }
    return false;
}

/* Splits the dimension with the largest shards. */
static void variable_sharding_cut(const mf_sharding_table *s, const mf_node *n,
                                  const mf_layout_rules *rules)
{
    mf_mesh_value *v = &s->values[n->id][0];
    const mf_mesh *m = &s->meshes->at[mf_mesh_home(s, n)];
    const mf_axes slots = mf_layout_rules_find(rules, m, "slots");
    mf_axes axes = mf_layout_rules_find(rules, m, "weights");

    if (slots & ~axes && is_slot(s, n))
        axes |= slots;
    axes &= ~mf_layout_cuts(&v->layout, v->shape.rank);
    for (int a = 0; a < m->n_axes; a++) {
        int best = -1;
        int64_t longest = 1;

        for (int d = 0; axes >> a & 1 && d < v->shape.rank; d++) {
            const int64_t each = v->shape.dims[d] / mf_mesh_count(m, v->layout.dims[d].axes);

            if (each > longest && can_cut(s, n, d)) {
                longest = each;
                best = d;
            }
        }
        if (best >= 0) {
            v->stored |= (mf_axes)1 << a;
            v->layout.dims[best].axes |= (mf_axes)1 << a;
            v->layout.dims[best].grain =
                v->layout.dims[best].grain ? v->layout.dims[best].grain : 1;
        }
    }
}

static bool uncut(mf_mesh_value *v)
{
    const bool changed = v->stored != 0;

    for (int d = 0; d < v->shape.rank; d++) {
        v->layout.dims[d].axes &= ~v->stored;
        if (!v->layout.dims[d].axes)
            v->layout.dims[d].grain = 0;
    }
    v->stored = 0;
    return changed;
}

/* A weight may be split along fewer axes than its slots: its slices are updated (zero_update.c). */
static bool works_on_slices(const mf_sharding_table *s, const mf_node *n)
{
    return mf_mesh_is_update(n) && mf_mesh_is_variable(n->inputs[0].node) &&
           mf_mesh_is_variable(n->inputs[1].node) &&
           !(mf_mesh_value_of(s, n->inputs[0])->stored &
             ~mf_mesh_value_of(s, n->inputs[1])->stored);
}

/* Variables that an op updates together have the same layout: if one cannot be split, none is.
 * Returns true if it removed a split. If they differ because of dimension names, lowering the op
 * fails. */
static bool make_agree(const mf_sharding_table *s, const mf_node *n)
{
    const mf_mesh_value *first = NULL;
    bool same = true, changed = false;

    for (int k = works_on_slices(s, n); s->splits[n->id] && k < n->n_inputs; k++) {
        const mf_mesh_value *v = mf_mesh_value_of(s, n->inputs[k]);

        if (!v->fixed || !mf_mesh_is_variable(n->inputs[k].node))
            continue;
        if (!first)
            first = v;
        same = same && (!mf_shape_equal(&first->shape, &v->shape) ||
                        mf_layout_equal(&first->layout, &v->layout));
    }
    for (int k = 0; !same && k < n->n_inputs; k++) {
        if (mf_mesh_is_variable(n->inputs[k].node))
            changed |= uncut(mf_mesh_value_of(s, n->inputs[k]));
    }
    return changed;
}

void mf_mesh_cut_stored(const mf_sharding_table *s, const mf_layout_rules *rules,
                        const mf_mesh_variables *known)
{
    bool changed = true;

    for (int64_t i = 0; i < s->n; i++) {
        if (mf_mesh_is_variable(s->order[i]) &&
            !mf_map_find(&known->layouts, mf_mesh_variable_name(s->order[i])))
            variable_sharding_cut(s, s->order[i], rules);
    }
    while (changed) {
        changed = false;
        for (int64_t i = 0; i < s->n; i++)
            changed |= make_agree(s, s->order[i]);
    }
}
