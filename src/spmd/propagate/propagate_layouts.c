/* SPDX-License-Identifier: Apache-2.0 */
/* propagate_layouts.c - propagates layouts from named dimensions and variables. A node takes the
 * split of a letter from the first of its values that has one and applies it to its other values
 * that are not closed: to outputs in the forward sweep, to inputs in the backward sweep, until
 * nothing changes. The order is that of the graph, so all devices compute the same layouts. */
#include "spmd/propagate/sharding_table.h"

mf_layout_dim mf_mesh_letter_of(mf_layout_dim cut, mf_split_dim dim)
{
    if (!cut.axes || cut.grain % dim.inside != 0)
        return (mf_layout_dim){ 0 };
    return (mf_layout_dim){ cut.axes, cut.grain / dim.inside };
}

static mf_mesh_value *side(const mf_sharding_table *s, const mf_node *n, bool output, int i)
{
    return output ? &s->values[n->id][i] : mf_mesh_value_of(s, n->inputs[i]);
}

/* An input may come from another mesh, whose axes have no meaning here. */
static bool propagate_layouts_applies(const mf_sharding_table *s, const mf_node *n, int i)
{
    return mf_mesh_layout_applies(s, n->inputs[i], &s->meshes->at[mf_mesh_home(s, n)]);
}

/* The split of the letter in one of the values; axes 0: not split. */
static mf_layout_dim propagate_layouts_find_cut(const mf_sharding_table *s, const mf_split *q,
                                                int letter)
{
    for (int k = 0; k < q->n_in + q->n_out; k++) {
        const bool output = k >= q->n_in;
        const int i = output ? k - q->n_in : k;
        const mf_mesh_value *v = side(s, q->node, output, i);
        const mf_split_shape *dims = output ? &q->out_dims[i] : &q->in_dims[i];

        if (!output && !propagate_layouts_applies(s, q->node, i))
            continue;
        for (int d = 0; d < v->shape.rank; d++) {
            if (dims->dims[d].letter == letter) {
                mf_layout_dim cut = mf_mesh_letter_of(v->layout.dims[d], dims->dims[d]);

                cut.axes &= ~v->stored;
                if (cut.axes)
                    return cut;
            }
        }
    }
    return (mf_layout_dim){ 0 };
}

static bool propagate_layouts_give(mf_mesh_value *v, const mf_split_shape *dims, int letter,
                                   mf_layout_dim cut)
{
    bool changed = false;

    for (int d = 0; d < v->shape.rank; d++) {
        const mf_layout_dim mine = mf_mesh_dim_of(cut, dims->dims[d]);

        if (dims->dims[d].letter != letter || v->closed >> d & 1 || v->layout.dims[d].axes ||
            (cut.axes & mf_layout_cuts(&v->layout, v->shape.rank)) ||
            (mine.grain > 1 && v->shape.dims[d] % mine.grain != 0))
            continue;
        v->layout.dims[d] = mine;
        changed = true;
    }
    return changed;
}

static bool propagate_layouts_visit(const mf_sharding_table *s, const mf_node *n, bool forwards)
{
    const mf_split *q = s->splits[n->id];
    bool changed = false;

    for (int l = 0; q && l < q->n_letters; l++) {
        mf_layout_dim cut;

        if (s->exact && !mf_cut_is_exact(q->letters[l].cut))
            continue;
        cut = propagate_layouts_find_cut(s, q, l);
        if (!cut.axes)
            continue;
        for (int i = 0; forwards && i < q->n_out; i++)
            changed |= propagate_layouts_give(side(s, n, true, i), &q->out_dims[i], l, cut);
        for (int i = 0; !forwards && i < q->n_in; i++)
            changed |= propagate_layouts_applies(s, n, i) &&
                       propagate_layouts_give(side(s, n, false, i), &q->in_dims[i], l, cut);
    }
    return changed;
}

void mf_mesh_propagate(mf_sharding_table *s)
{
    bool changed;

    do {
        changed = false;
        for (int64_t i = 0; i < s->n; i++)
            changed |= propagate_layouts_visit(s, s->order[i], true);
        for (int64_t i = s->n - 1; i >= 0; i--)
            changed |= propagate_layouts_visit(s, s->order[i], false);
    } while (changed);
}
