/* SPDX-License-Identifier: Apache-2.0 */
/* op_sharding.c - chooses how a node is split. Each axis of the mesh may split one of the letters
 * that it splits in an existing version or in a preferred layout, or none. All combinations are
 * compared by the bytes that a device receives until inputs and outputs have their layouts, and by
 * the work per device. */
#include "spmd/layout/reshard_plan.h"
#include "spmd/lower/spmd_lower.h"

#include <string.h>

/* A received byte costs as much as this many multiplications. */
enum { WORK_OF_A_BYTE = 16 };

static const double NEVER = 1e300;

typedef struct chooser {
    const mf_lowering *l;
    const mf_sharding_table *s;
    int k; /* index of the mesh */
    const mf_mesh *m;
    const mf_node *n;
    const mf_split *q;
    mf_axes allowed[MF_SPLIT_LETTERS]; /* axes that may split the letter */
    mf_layout_dim now[MF_SPLIT_LETTERS], best[MF_SPLIT_LETTERS];
    mf_axes partial, best_partial; /* reductions that are postponed */
    double cost;
} chooser;

static const mf_mesh_version *first_version(const mf_lowering *l, mf_output o)
{
    return l->versions[o.node->id][o.port];
}

/* The first version on this mesh; NULL: none. */
static const mf_mesh_version *here(const chooser *c, int i)
{
    const mf_mesh_version *v = first_version(c->l, c->n->inputs[i]);

    while (v && v->mesh != c->k)
        v = v->next;
    return v;
}

/* ---- layouts of a candidate ---- */

static mf_layout layout_of(const mf_split_shape *dims, const mf_shape *shape,
                           const mf_layout_dim *letters)
{
    mf_layout r = { 0 };

    for (int d = 0; d < shape->rank; d++) {
        if (dims->dims[d].letter >= 0)
            r.dims[d] = mf_mesh_dim_of(letters[dims->dims[d].letter], dims->dims[d]);
    }
    return r;
}

static mf_layout in_layout(const chooser *c, int i, const mf_layout_dim *letters, mf_axes partial)
{
    mf_layout r = layout_of(&c->q->in_dims[i], &c->q->in[i], letters);

    if (partial && c->q->additive >> i & 1) {
        r.partial = partial;
        r.how = MF_CUT_SUM;
    }
    return r;
}

static mf_layout out_layout(const chooser *c, int i, const mf_layout_dim *letters, mf_axes partial)
{
    mf_layout r = layout_of(&c->q->out_dims[i], &c->q->out[i], letters);

    r.partial = partial;
    r.how = MF_CUT_SUM;
    for (int k = 0; k < c->q->n_letters; k++) {
        if (c->q->letters[k].cut != MF_CUT_FREE && letters[k].axes) {
            r.partial |= letters[k].axes;
            r.how = c->q->letters[k].cut;
        }
    }
    return r;
}

/* ---- cost of a candidate ---- */

static int64_t op_sharding_cell_of(mf_dtype t)
{
    return (int64_t)mf_dtype_cell(mf_type_base(t));
}

/* True if windows slide over a split dimension of this input: then the parts overlap. */
static bool has_windows(const chooser *c, int i, const mf_layout_dim *letters)
{
    for (int d = 0; d < c->q->in[i].rank; d++) {
        const mf_split_dim *dim = &c->q->in_dims[i].dims[d];

        if (dim->letter >= 0 && dim->step > 0 && letters[dim->letter].axes)
            return true;
    }
    return false;
}

/* The part of the input that a device needs. */
static mf_box window_box(const chooser *c, int i, const mf_layout_dim *letters, int device)
{
    const mf_layout plain = in_layout(c, i, letters, 0);
    const mf_shape *shape = &c->q->in[i];
    mf_box box = mf_layout_box(c->m, &plain, shape, device);

    for (int d = 0; d < shape->rank; d++) {
        const mf_split_dim *dim = &c->q->in_dims[i].dims[d];
        int64_t begin, end;

        if (dim->letter < 0 || dim->step <= 0 || !letters[dim->letter].axes)
            continue;
        mf_layout_piece(c->m, letters[dim->letter], c->q->letters[dim->letter].size, device, &begin,
                        &end);
        mf_split_window(dim, &begin, &end);
        box.begin[d] = begin > 0 ? begin : 0;
        box.size[d] = (end < shape->dims[d] ? end : shape->dims[d]) - box.begin[d];
    }
    return box;
}

/* Elements of its windows that a device has to receive: the maximum over the devices. */
static int64_t missing_window_elements(const chooser *c, int i, const mf_layout *have)
{
    int64_t most = 0;

    for (int p = c->m->first; p < c->m->first + c->m->n; p++) {
        const mf_box want = window_box(c, i, c->now, p);
        const mf_box own = mf_layout_box(c->m, have, &c->q->in[i], p);
        int64_t n = mf_box_count(&want, c->q->in[i].rank);
        mf_box both;

        if (mf_box_cut(&want, &own, c->q->in[i].rank, &both))
            n -= mf_box_count(&both, c->q->in[i].rank);
        most = n > most ? n : most;
    }
    return most;
}

/* All of the input is received from another mesh. */
static double cross_mesh_cost(const chooser *c, int i, const mf_layout *want)
{
    const mf_mesh_value *v = mf_mesh_value_of(c->s, c->n->inputs[i]);
    mf_box box;

    if (here(c, i) || v->fixed || want->partial || !mf_shape_is_static(&v->shape))
        return NEVER;
    box = mf_layout_box(c->m, want, &v->shape, c->m->first);
    return (double)(mf_box_count(&box, v->shape.rank) * op_sharding_cell_of(c->n->in_types[i]));
}

static double windows_cost(const chooser *c, int i)
{
    double least = NEVER;

    for (const mf_mesh_version *at = first_version(c->l, c->n->inputs[i]); at; at = at->next) {
        double bytes;

        if (at->layout.partial || at->boxes || at->mesh != c->k)
            continue;
        bytes = (double)(missing_window_elements(c, i, &at->layout) *
                         op_sharding_cell_of(c->n->in_types[i]));
        least = bytes < least ? bytes : least;
    }
    return least < NEVER ? least : cross_mesh_cost(c, i, &(mf_layout){ 0 });
}

static double in_cost(const chooser *c, int i)
{
    const mf_output o = c->n->inputs[i];
    const mf_mesh_value *v = mf_mesh_value_of(c->s, o);
    const mf_layout want = in_layout(c, i, c->now, c->partial);
    double least = NEVER;

    if (has_windows(c, i, c->now))
        return windows_cost(c, i);
    for (const mf_mesh_version *at = first_version(c->l, o); at; at = at->next) {
        double bytes;

        if (at->boxes || at->mesh != c->k)
            continue;
        if (mf_layout_equal(&at->layout, &want))
            return 0;
        if (v->fixed || want.partial || !mf_shape_is_static(&v->shape))
            continue;
        bytes = (double)(mf_reshard_elements(c->m, &at->layout, &v->shape, &want) *
                         op_sharding_cell_of(c->n->in_types[i]));
        least = bytes < least ? bytes : least;
    }
    return least < NEVER ? least : cross_mesh_cost(c, i, &want);
}

/* True if the preferred layouts of the outputs refer to this mesh. */
static bool op_sharding_layout_applies(const chooser *c)
{
    return mf_mesh_layout_applies(c->s, (mf_output){ (mf_node *)(uintptr_t)c->n, 0 }, c->m);
}

static double out_cost(const chooser *c, int i)
{
    const mf_mesh_value *v = &c->s->values[c->n->id][i];
    const mf_layout made = out_layout(c, i, c->now, c->partial);

    if (!op_sharding_layout_applies(c) || v->fixed || !mf_shape_is_static(&v->shape))
        return 0;
    return (double)(mf_reshard_elements(c->m, &made, &v->shape, &v->layout) *
                    op_sharding_cell_of(c->n->out_types[i]));
}

static double op_sharding_work(const chooser *c)
{
    double n = 1;

    for (int k = 0; k < c->q->n_letters; k++) {
        const int64_t pieces = mf_mesh_count(c->m, c->now[k].axes);
        const int64_t largest = (c->q->letters[k].size + pieces - 1) / pieces;

        n *= (double)largest;
    }
    return n;
}

static void op_sharding_compare(chooser *c)
{
    double cost = op_sharding_work(c) / WORK_OF_A_BYTE;

    for (int i = 0; i < c->n->n_inputs && cost < c->cost; i++)
        cost += in_cost(c, i);
    for (int i = 0; i < c->n->n_outputs && cost < c->cost; i++)
        cost += out_cost(c, i);
    if (cost >= c->cost)
        return;
    c->cost = cost;
    memcpy(c->best, c->now, sizeof c->best);
    c->best_partial = c->partial;
}

/* ---- all candidates ---- */

/* True if a device would hold nothing. With shares (rows:1,9) that is possible even for large
 * dimensions. */
static bool leaves_empty(const chooser *c, int k, mf_axes axes)
{
    const int64_t size = c->q->letters[k].size;
    const mf_layout_dim cut = { .axes = axes, .grain = c->now[k].grain };

    if (size / cut.grain < mf_mesh_count(c->m, axes))
        return true;
    for (int p = c->m->first; mf_mesh_has_shares(c->m) && p < c->m->first + c->m->n; p++) {
        int64_t begin, end;

        mf_layout_piece(c->m, cut, size, p, &begin, &end);
        if (begin == end)
            return true;
    }
    return false;
}

/* Some letters need shards that are not empty; in exact mode, not too small either. */
static bool can_be_cut(const chooser *c, int k, mf_axes axes)
{
    const mf_split_letter *l = &c->q->letters[k];

    if (l->some && leaves_empty(c, k, axes))
        return false;
    return !c->s->exact ||
           l->size / c->now[k].grain / mf_mesh_count(c->m, axes) * c->now[k].grain >= l->least;
}

/* Tries the axis without a letter and with each letter that it may split; recurses to the next
 * axis. */
static void try_axis(chooser *c, int axis)
{
    const mf_axes bit = (mf_axes)1 << axis;

    if (axis == c->m->n_axes) {
        op_sharding_compare(c);
        return;
    }
    try_axis(c, axis + 1);
    if (c->partial & bit)
        return;
    for (int k = 0; k < c->q->n_letters; k++) {
        if ((c->allowed[k] & bit) && can_be_cut(c, k, c->now[k].axes | bit)) {
            c->now[k].axes |= bit;
            try_axis(c, axis + 1);
            c->now[k].axes &= ~bit;
        }
    }
}

/* Allows the axes that split an existing version or a preferred layout. */
static void allow(chooser *c, const mf_split_shape *dims, int rank, const mf_layout *layout)
{
    for (int d = 0; d < rank; d++) {
        const int k = dims->dims[d].letter;
        mf_layout_dim cut;

        if (k < 0 || (c->s->exact && !mf_cut_is_exact(c->q->letters[k].cut)))
            continue;
        cut = mf_mesh_letter_of(layout->dims[d], dims->dims[d]);
        if (!cut.axes || c->q->letters[k].size % cut.grain != 0)
            continue;
        if (!c->now[k].grain)
            c->now[k].grain = cut.grain;
        c->allowed[k] |= cut.axes;
    }
}

static void allow_all(chooser *c)
{
    for (int i = 0; i < c->q->n_in; i++) {
        const mf_mesh_value *v = mf_mesh_value_of(c->s, c->n->inputs[i]);

        for (const mf_mesh_version *at = first_version(c->l, c->n->inputs[i]); at; at = at->next) {
            if (!at->boxes && mf_mesh_alike(&c->s->meshes->at[at->mesh], c->m))
                allow(c, &c->q->in_dims[i], v->shape.rank, &at->layout);
        }
        if (mf_mesh_layout_applies(c->s, c->n->inputs[i], c->m))
            allow(c, &c->q->in_dims[i], v->shape.rank, &v->layout);
    }
    for (int i = 0; op_sharding_layout_applies(c) && i < c->q->n_out; i++) {
        const mf_mesh_value *v = &c->s->values[c->n->id][i];

        allow(c, &c->q->out_dims[i], v->shape.rank, &v->layout);
    }
}

/* Postponed reductions that all partial inputs have in common. */
static mf_axes common_partial(const chooser *c)
{
    mf_axes partial = 0;

    for (int i = 0; i < c->q->n_in; i++) {
        const mf_mesh_version *v = here(c, i);

        if (!(c->q->additive >> i & 1))
            continue;
        if (!v || !v->layout.partial || v->layout.how != MF_CUT_SUM ||
            (partial && partial != v->layout.partial))
            return 0;
        partial = v->layout.partial;
    }
    return partial;
}

static mf_status op_sharding_fill(const chooser *c, mf_mesh_choice *out)
{
    mf_arena *arena = c->s->arena;

    out->in = MF_ARENA_ARRAY(arena, mf_layout, c->n->n_inputs + 1);
    out->out = MF_ARENA_ARRAY(arena, mf_layout, c->n->n_outputs + 1);
    out->windows = MF_ARENA_ARRAY(arena, mf_box *, c->n->n_inputs + 1);
    if (!out->in || !out->out || !out->windows)
        return MF_NOMEM("layouts");
    memcpy(out->letters, c->best, sizeof out->letters);
    for (int i = 0; c->q && i < c->n->n_inputs; i++) {
        out->in[i] = in_layout(c, i, c->best, c->best_partial);
        if (!has_windows(c, i, c->best))
            continue;
        out->windows[i] = MF_ARENA_ARRAY(arena, mf_box, c->m->n);
        if (!out->windows[i])
            return MF_NOMEM("layouts");
        for (int p = 0; p < c->m->n; p++)
            out->windows[i][p] = window_box(c, i, c->best, c->m->first + p);
    }
    for (int i = 0; c->q && i < c->n->n_outputs; i++)
        out->out[i] = out_layout(c, i, c->best, c->best_partial);
    return MF_OK;
}

/* Fails if a variable is split and the op needs all of it. */
static mf_status check_fixed(const chooser *c, const mf_mesh_choice *choice)
{
    for (int i = 0; i < c->n->n_inputs; i++) {
        const mf_output o = c->n->inputs[i];
        char text[MF_LAYOUT_TEXT];

        if (mf_mesh_value_of(c->s, o)->fixed && !here(c, i))
            return MF_FAIL(MF_UNIMPLEMENTED, "{{node %s}}: it uses %s, which is on another mesh",
                           c->n->name, o.node->name);
        if (mf_mesh_value_of(c->s, o)->fixed &&
            !mf_layout_equal(&here(c, i)->layout, &choice->in[i]))
            return MF_FAIL(MF_UNIMPLEMENTED,
                           "{{node %s}}: %s does not support this split of its variable (%s has "
                           "the layout %s)",
                           c->n->name, c->n->op_name, o.node->name,
                           mf_layout_text(c->m, &here(c, i)->layout,
                                          mf_mesh_value_of(c->s, o)->shape.rank, text));
    }
    return MF_OK;
}

mf_status mf_mesh_choose(const mf_lowering *l, const mf_node *n, int mesh, mf_mesh_choice *out)
{
    chooser c = { .l = l,
                  .s = l->table,
                  .k = mesh,
                  .m = &l->table->meshes->at[mesh],
                  .n = n,
                  .q = l->table->splits[n->id],
                  .cost = NEVER };

    *out = (mf_mesh_choice){ 0 };
    if (c.q) {
        allow_all(&c);
        try_axis(&c, 0);
        c.partial = common_partial(&c);
        if (c.partial)
            try_axis(&c, 0);
        for (int k = 0; k < c.q->n_letters; k++) {
            if (!c.best[k].axes)
                c.best[k].grain = 0;
        }
    }
    MF_TRY(op_sharding_fill(&c, out));
    return check_fixed(&c, out);
}
