/* SPDX-License-Identifier: Apache-2.0 */
/* compiled.c - see compiled.h. */
#include "mesh/compiled.h"

#include "mesh/expand.h"
#include "mesh/lower.h"

#include <string.h>

/* ---- variables ---- */

mf_status mf_mesh_variables_init(mf_mesh_variables *v)
{
    *v = (mf_mesh_variables){ .arena = mf_arena_new() };
    return v->arena ? MF_OK : MF_NOMEM("variables");
}

void mf_mesh_variables_deinit(mf_mesh_variables *v)
{
    mf_map_deinit(&v->layouts);
    mf_arena_free(v->arena);
}

static bool is_variable(const mf_node *n)
{
    return strcmp(n->op_name, "VarHandleOp") == 0;
}

static void fix_known(const mf_mesh_variables *v, mf_mesh_sheet *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        const mf_mesh_variable *known =
            is_variable(s->order[i]) ? mf_map_find(&v->layouts, mf_mesh_variable_name(s->order[i]))
                                     : NULL;

        if (known) {
            mf_mesh_fix(s, (mf_output){ s->order[i], 0 }, &known->layout);
            s->values[s->order[i]->id][0].stored = known->stored;
        }
    }
}

static mf_status remember(mf_mesh_variables *v, const mf_mesh_sheet *s, mf_node *n)
{
    const mf_mesh_value *value = mf_mesh_value_of(s, (mf_output){ n, 0 });
    mf_mesh_variable *known = MF_ARENA_NEW(v->arena, mf_mesh_variable);

    if (mf_map_find(&v->layouts, mf_mesh_variable_name(n)))
        return MF_OK;
    if (!known || !(known->name = mf_arena_strdup(v->arena, mf_mesh_variable_name(n))))
        return MF_NOMEM("variables");
    known->shape = value->shape;
    known->layout = value->layout;
    known->stored = value->stored;
    return mf_map_set(&v->layouts, known->name, known);
}

/* Can all that use it take it cut there? */
static bool can_cut(const mf_mesh_sheet *s, const mf_node *variable, int d)
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

/* The rule for "weights": variables are cut along these axes, too, whatever becomes of what is
 * computed from them: along the dimension that is longest for each piece. */
static void cut_weights(const mf_mesh_sheet *s, const mf_node *n, mf_axes axes)
{
    mf_mesh_value *v = &s->values[n->id][0];

    axes &= ~mf_layout_cuts(&v->layout, v->shape.rank);
    for (int a = 0; a < s->mesh->n_axes; a++) {
        int best = -1;
        int64_t longest = 1;

        for (int d = 0; axes >> a & 1 && d < v->shape.rank; d++) {
            const int64_t each = v->shape.dims[d] / mf_mesh_count(s->mesh, v->layout.dims[d].axes);

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

static void uncut(mf_mesh_value *v)
{
    for (int d = 0; d < v->shape.rank; d++) {
        v->layout.dims[d].axes &= ~v->stored;
        if (!v->layout.dims[d].axes)
            v->layout.dims[d].grain = 0;
    }
    v->stored = 0;
}

/* Variables that an op updates together lie alike: where one of them cannot be cut, none is. */
static bool agree(const mf_mesh_sheet *s, const mf_node *n)
{
    const mf_mesh_value *first = NULL;
    bool same = true;

    for (int k = 0; s->splits[n->id] && k < n->n_inputs; k++) {
        const mf_mesh_value *v = mf_mesh_value_of(s, n->inputs[k]);

        if (!v->fixed || !is_variable(n->inputs[k].node))
            continue;
        if (!first)
            first = v;
        same = same && (!mf_shape_equal(&first->shape, &v->shape) ||
                        mf_layout_equal(&first->layout, &v->layout));
    }
    for (int k = 0; !same && k < n->n_inputs; k++) {
        if (is_variable(n->inputs[k].node))
            uncut(mf_mesh_value_of(s, n->inputs[k]));
    }
    return same;
}

static void cut_all_weights(const mf_mesh_variables *known, const mf_mesh_sheet *s, mf_axes axes)
{
    bool changed = axes != 0;

    for (int64_t i = 0; axes && i < s->n; i++) {
        if (is_variable(s->order[i]) &&
            !mf_map_find(&known->layouts, mf_mesh_variable_name(s->order[i])))
            cut_weights(s, s->order[i], axes);
    }
    while (changed) {
        changed = false;
        for (int64_t i = 0; i < s->n; i++)
            changed |= !agree(s, s->order[i]);
    }
}

static mf_status lay_out_variables(mf_mesh_variables *v, const mf_mesh_setup *setup, mf_compile *c)
{
    mf_mesh_sheet s;
    mf_status st;

    MF_TRY(mf_infer_graph(c));
    st = mf_mesh_sheet_init(&s, &setup->mesh, c);
    s.exact = setup->exact;
    if (st == MF_OK) {
        fix_known(v, &s);
        st = mf_mesh_pin_names(&s, &setup->rules);
    }
    if (st == MF_OK) {
        mf_mesh_propagate(&s);
        cut_all_weights(v, &s, mf_layout_rules_find(&setup->rules, "weights"));
    }
    for (int64_t i = 0; st == MF_OK && i < s.n; i++) {
        if (is_variable(s.order[i]))
            st = remember(v, &s, s.order[i]);
    }
    mf_mesh_sheet_deinit(&s);
    return st;
}

/* How large a batch will be is not known yet, nor does it matter to variables; but rules are stated
 * for known sizes. */
static mf_status assume_batch(mf_graph *g, int64_t samples)
{
    for (int64_t i = 0; i < g->n_nodes; i++) {
        mf_node *n = g->nodes[i];
        const mf_shape *known =
            strcmp(n->op_name, "Placeholder") == 0 ? mf_node_shape(n, "shape") : NULL;
        mf_attr a = { .kind = MF_ATTR_SHAPE, .n = 1 };

        if (!known || known->rank < 1 || known->dims[0] >= 0)
            continue;
        a.shape = MF_ARENA_NEW(g->arena, mf_shape);
        if (!a.shape)
            return MF_NOMEM("layouts");
        *a.shape = *known;
        a.shape->dims[0] = samples;
        MF_TRY(mf_node_set_attr(g, n, "shape", &a));
    }
    return MF_OK;
}

static mf_status add_variables(mf_mesh_variables *v, const mf_mesh_setup *setup,
                               const mf_graph *graph, bool assume)
{
    mf_compile c = { 0 };
    mf_status st = mf_graph_copy(graph, NULL, &c.graph);

    if (st == MF_OK && assume)
        st = assume_batch(c.graph, (int64_t)setup->mesh.n * 4);
    if (st == MF_OK)
        st = lay_out_variables(v, setup, &c);
    mf_compile_end(&c);
    return st;
}

mf_status mf_mesh_variables_add(mf_mesh_variables *v, const mf_mesh_setup *setup,
                                const mf_graph *graph)
{
    const mf_status st = add_variables(v, setup, graph, true);

    if (st != MF_INVALID_ARGUMENT)
        return st;
    return add_variables(v, setup, graph, false); /* of that many samples it cannot be */
}

/* ---- runs ---- */

/* A batch is one shard: how it is cut is the layout's business. */
static mf_status join_shards(mf_graph *g)
{
    const mf_attr one = { .kind = MF_ATTR_INT, .n = 1, .i = 1 };

    for (int64_t i = 0; i < g->n_nodes; i++) {
        if (strcmp(g->nodes[i]->op_name, "_ShardMap") == 0) {
            MF_TRY(mf_node_set_attr(g, g->nodes[i], "shards", &one));
            MF_TRY(mf_node_set_attr(g, g->nodes[i], "turns", &one));
        }
    }
    return MF_OK;
}

/* What makes one op of several comes later, when they are pieces. */
static const char LATER[] = "shards,layout,fuse,updates";

/* What should lie where, from what is said. Owns: mf_mesh_sheet_deinit(), also after a failure. */
static mf_status lay_out(mf_compile *c, const mf_signature *sig, const mf_mesh_setup *setup,
                         const mf_mesh_variables *variables, mf_mesh_sheet *s)
{
    MF_TRY(mf_infer_graph(c));
    MF_TRY(mf_mesh_sheet_init(s, &setup->mesh, c));
    s->exact = setup->exact;
    fix_known(variables, s);
    for (int i = 0; i < c->n_feeds; i++) {
        if (s->values[c->feeds[i]->id]) /* else nothing needs it */
            MF_TRY(
                mf_mesh_pin(s, (mf_output){ c->feeds[i], 0 }, sig->feeds[i].node, &setup->rules));
    }
    MF_TRY(mf_mesh_pin_names(s, &setup->rules));
    mf_mesh_propagate(s);
    return MF_OK;
}

static mf_status lower(mf_compile *c, const mf_signature *sig, const mf_mesh_setup *setup,
                       const mf_mesh_variables *variables, mf_graph **graphs, int64_t *receives,
                       mf_mesh_costs *costs)
{
    int *here = MF_ARENA_ARRAY(c->graph->arena, int, setup->n);
    mf_mesh_sheet s = { 0 };
    bool changed = false;
    mf_status st;

    if (!here)
        return MF_NOMEM("a mesh");
    for (int i = 0; i < setup->n; i++)
        here[i] = setup->first + i;
    MF_TRY_TO(done, lay_out(c, sig, setup, variables, &s));
    do { /* what becomes of one op may let layouts reach the next */
        if (!setup->exact)
            MF_TRY_TO(done, mf_mesh_expand(&s, &changed));
        if (changed) {
            mf_mesh_sheet_deinit(&s);
            MF_TRY_TO(done, lay_out(c, sig, setup, variables, &s));
        }
    } while (changed);
    st = mf_mesh_lower(&s, here, setup->n, graphs, receives, costs);
done:
    mf_mesh_sheet_deinit(&s);
    return st;
}

mf_status mf_mesh_compile(const mf_graph *graph, const mf_signature *sig,
                          const mf_mesh_setup *setup, const mf_mesh_variables *variables,
                          mf_graph **graphs, int64_t *receives, mf_mesh_costs *costs)
{
    mf_compile c = { 0 };
    mf_status st;

    memset(graphs, 0, (size_t)setup->n * sizeof *graphs);
    MF_TRY(mf_passes_parse(LATER, &c.disabled));
    MF_TRY_TO(done, mf_compile_begin(&c, graph, sig));
    MF_TRY_TO(done, join_shards(c.graph));
    MF_TRY_TO(done, mf_compile_late_reads(&c));
    MF_TRY_TO(done, mf_compile_passes(&c));
    st = lower(&c, sig, setup, variables, graphs, receives, costs);
done:
    mf_compile_end(&c);
    return st;
}
