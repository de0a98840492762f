/* SPDX-License-Identifier: Apache-2.0 */
/* spmd_compile.c - the driver of the SPMD compiler: from a graph with layouts to one graph per
 * device. */
#include "spmd/lower/spmd_compile.h"

#include "spmd/lower/decompose.h"
#include "spmd/lower/spmd_lower.h"
#include "spmd/lower/zero_update.h"
#include "spmd/pipeline/pipeline_schedule.h"
#include "spmd/pipeline/virtual_stages.h"
#include "spmd/propagate/mesh_placement.h"
#include "spmd/propagate/variable_sharding.h"

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

static void fix_known(const mf_mesh_variables *v, mf_sharding_table *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        const mf_mesh_variable *known =
            mf_mesh_is_variable(s->order[i])
                ? mf_map_find(&v->layouts, mf_mesh_variable_name(s->order[i]))
                : NULL;

        if (known) {
            mf_mesh_fix(s, (mf_output){ s->order[i], 0 }, &known->layout);
            s->values[s->order[i]->id][0].stored = known->stored;
        }
    }
}

static mf_status spmd_compile_remember(mf_mesh_variables *v, const mf_sharding_table *s, mf_node *n)
{
    const mf_mesh_value *value = mf_mesh_value_of(s, (mf_output){ n, 0 });
    mf_mesh_variable *known = MF_ARENA_NEW(v->arena, mf_mesh_variable);

    if (mf_map_find(&v->layouts, mf_mesh_variable_name(n)))
        return MF_OK;
    if (!known || !(known->name = mf_arena_strdup(v->arena, mf_mesh_variable_name(n))))
        return MF_NOMEM("variables");
    known->dtype = mf_node_type(n, "dtype");
    known->mesh = mf_mesh_home(s, n);
    known->shape = value->shape;
    known->layout = value->layout;
    known->stored = value->stored;
    return mf_map_set(&v->layouts, known->name, known);
}

static int chunks_of(const mf_mesh_setup *setup)
{
    return setup->chunks > 1 && setup->meshes.n > 1 ? setup->chunks : 1;
}

static mf_status lay_out_variables(mf_mesh_variables *v, const mf_mesh_setup *setup, mf_compile *c)
{
    mf_sharding_table s;
    mf_status st;

    MF_TRY(mf_infer_graph(c));
    st = mf_sharding_table_init(&s, &setup->meshes, c);
    s.exact = setup->exact;
    s.chunks = chunks_of(setup);
    if (st == MF_OK)
        st = mf_mesh_assign_layers(&s, setup->layers, v->first_layer);
    if (st == MF_OK)
        st = mf_mesh_place(&s, v);
    if (st == MF_OK) {
        fix_known(v, &s);
        st = mf_mesh_pin_names(&s, &setup->rules);
    }
    if (st == MF_OK) {
        mf_mesh_propagate(&s);
        mf_mesh_cut_stored(&s, &setup->rules, v);
    }
    for (int64_t i = 0; st == MF_OK && i < s.n; i++) {
        if (mf_mesh_is_variable(s.order[i]))
            st = spmd_compile_remember(v, &s, s.order[i]);
    }
    mf_sharding_table_deinit(&s);
    return st;
}

/* The batch size is not known yet and does not matter to variables, but split rules need known
 * sizes. */
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

static mf_status spmd_compile_add_variables(mf_mesh_variables *v, const mf_mesh_setup *setup,
                                            const mf_graph *graph, bool assume)
{
    mf_compile c = { 0 };
    mf_status st = mf_graph_copy(graph, NULL, &c.graph);

    if (st == MF_OK && assume)
        st = assume_batch(c.graph, (int64_t)setup->meshes.devices * 4);
    if (st == MF_OK)
        st = lay_out_variables(v, setup, &c);
    mf_compile_end(&c);
    return st;
}

mf_status mf_mesh_variables_add(mf_mesh_variables *v, const mf_mesh_setup *setup,
                                const mf_graph *graph)
{
    const mf_status st = spmd_compile_add_variables(v, setup, graph, true);

    if (st != MF_INVALID_ARGUMENT)
        return st;
    return spmd_compile_add_variables(v, setup, graph,
                                      false); /* this batch size contradicts the graph */
}

/* ---- runs ---- */

static mf_status set_aggregation(mf_graph *g, mf_node *map, const mf_aggregation *a, int turns)
{
    const char *name = mf_aggregate_name(a->how);
    const mf_attr how = { .kind = MF_ATTR_STRING, .n = 1, .s = { name, strlen(name) } };
    const mf_attr trim = { .kind = MF_ATTR_FLOAT, .n = 1, .f = (float)a->trim };
    mf_attr weights = { .kind = MF_ATTR_FLOAT, .is_list = true, .n = turns };

    MF_TRY(mf_node_set_attr(g, map, "aggregation", &how));
    MF_TRY(mf_node_set_attr(g, map, "trim", &trim));
    if (a->how != MF_AGGREGATE_WEIGHTED)
        return MF_OK;
    weights.floats = MF_ARENA_ARRAY(g->arena, float, turns);
    if (!weights.floats)
        return MF_NOMEM("weights");
    for (int i = 0; i < turns; i++)
        weights.floats[i] = (float)a->weights[i];
    return mf_node_set_attr(g, map, "weights", &weights);
}

/* A micro-batch is one shard: the layout decides how it is split. */
static mf_status join_shards(mf_graph *g, const mf_mesh_setup *setup)
{
    const int turns = setup->micro_batches > 1 ? setup->micro_batches : 1;
    const mf_attr n = { .kind = MF_ATTR_INT, .n = 1, .i = turns };

    for (int64_t i = 0; i < g->n_nodes; i++) {
        if (strcmp(g->nodes[i]->op_name, "_ShardMap") != 0)
            continue;
        MF_TRY(mf_node_set_attr(g, g->nodes[i], "shards", &n));
        MF_TRY(mf_node_set_attr(g, g->nodes[i], "turns", &n));
        if (setup->aggregation)
            MF_TRY(set_aggregation(g, g->nodes[i], setup->aggregation, turns));
    }
    return MF_OK;
}

static bool spmd_compile_is_zero(const mf_node *n, const char *name)
{
    const mf_attr *a = mf_node_attr(n, name);

    return a && a->kind == MF_ATTR_INT && !a->is_list && a->i == 0;
}

/* Random ops without a seed would draw a different one on every device. */
static mf_status give_seeds(mf_graph *g, uint64_t seed)
{
    for (int64_t i = 0; i < g->n_nodes; i++) {
        mf_node *n = g->nodes[i];
        const mf_attr one = { .kind = MF_ATTR_INT, .n = 1, .i = (int64_t)seed };
        const mf_attr two = { .kind = MF_ATTR_INT,
                              .n = 1,
                              .i = (int64_t)mf_hash(n->name, strlen(n->name), seed) };

        if (spmd_compile_is_zero(n, "seed") && spmd_compile_is_zero(n, "seed2")) {
            MF_TRY(mf_node_set_attr(g, n, "seed", &one));
            MF_TRY(mf_node_set_attr(g, n, "seed2", &two));
        }
    }
    return MF_OK;
}

/* Passes that merge several ops into one run later, on the device graphs. */
static const char LATER[] = "shards,pooling,fuse,updates";

/* Applies the layout to feeds and to the micro-batches sliced from them. */
static mf_status pin_feeds(mf_sharding_table *s, const mf_signature *sig,
                           const mf_layout_rules *rules)
{
    const mf_compile *c = s->c;

    for (int i = 0; i < c->n_feeds; i++) {
        if (s->values[c->feeds[i]->id]) /* otherwise the feed is unused */
            MF_TRY(mf_mesh_pin(s, (mf_output){ c->feeds[i], 0 }, sig->feeds[i].node, rules));
    }
    for (int64_t k = 0; k < s->n; k++) {
        mf_node *n = s->order[k];

        for (int i = 0; strcmp(n->op_name, "_Rows") == 0 && i < c->n_feeds; i++) {
            if (n->inputs[0].node == c->feeds[i])
                MF_TRY(mf_mesh_pin(s, (mf_output){ n, 0 }, sig->feeds[i].node, rules));
        }
    }
    return MF_OK;
}

/* Preferred layouts from names and rules. Owns: mf_sharding_table_deinit(), even after a failure.
 */
static mf_status spmd_compile_lay_out(mf_compile *c, const mf_signature *sig,
                                      const mf_mesh_setup *setup,
                                      const mf_mesh_variables *variables, mf_sharding_table *s)
{
    MF_TRY(mf_infer_graph(c));
    MF_TRY(mf_sharding_table_init(s, &setup->meshes, c));
    s->exact = setup->exact;
    s->chunks = chunks_of(setup);
    MF_TRY(mf_mesh_place(s, variables));
    fix_known(variables, s);
    MF_TRY(pin_feeds(s, sig, &setup->rules));
    MF_TRY(mf_mesh_pin_names(s, &setup->rules));
    mf_mesh_propagate(s);
    mf_relayout_request_slices(s);
    return MF_OK;
}

static bool is_assignment(const mf_node *n)
{
    static const char *const OPS[] = { "AssignVariableOp", "AssignAddVariableOp",
                                       "AssignSubVariableOp" };

    for (int i = 0; i < MF_COUNT(OPS); i++) {
        if (strcmp(n->op_name, OPS[i]) == 0)
            return mf_mesh_is_variable(n->inputs[0].node);
    }
    return false;
}

/* A value that is assigned to a sharded variable is sharded the same way, so its shape must be
 * known: it is the variable's shape, or the run fails. */
static mf_status infer_assigned_shapes(mf_compile *c, const mf_mesh_variables *variables)
{
    const int64_t n_nodes = c->graph->n_nodes;

    MF_TRY(mf_infer_graph(c));
    for (int64_t i = 0; i < n_nodes; i++) {
        mf_node *n = c->graph->nodes[i];
        char shape[MF_SHAPE_TEXT];
        const mf_mesh_variable *v;

        if (n->removed || !is_assignment(n))
            continue;
        v = mf_map_find(&variables->layouts, mf_mesh_variable_name(n->inputs[0].node));
        if (!v || mf_layout_is_whole(&v->layout, v->shape.rank) ||
            mf_shape_is_static(&mf_compile_facts(c, n->inputs[1].node)->shapes[n->inputs[1].port]))
            continue;
        n->inputs[1] = mf_applyf(c->graph, "EnsureShape", MF_IN(n->inputs[1]), "shape=shape%s",
                                 mf_shape_text(&v->shape, shape));
    }
    return mf_graph_status(c->graph);
}

/* A value that is known before the run, a shape for example, becomes a constant and need not be
 * sent. Its control inputs remain. */
static mf_status become_constant(mf_graph *g, mf_node *n, const mf_tensor *value)
{
    mf_node **controls = MF_ARENA_ARRAY(g->arena, mf_node *, n->n_inputs + n->n_controls + 1);
    mf_named_attr attrs[] = {
        { "value", { .kind = MF_ATTR_TENSOR, .n = 1 } },
        { "dtype", { .kind = MF_ATTR_TYPE, .n = 1, .type = n->out_types[0] } },
    };
    const mf_node_spec spec = { .op = "Const",
                                .device = n->device,
                                .controls = controls,
                                .n_controls = n->n_inputs + n->n_controls,
                                .attrs = attrs,
                                .n_attrs = MF_COUNT(attrs) };

    attrs[0].value.tensor = mf_graph_own_tensor(g, value);
    if (!controls || !attrs[0].value.tensor)
        return MF_NOMEM("a constant");
    for (int i = 0; i < n->n_controls; i++)
        controls[i] = n->controls[i];
    for (int i = 0; i < n->n_inputs; i++)
        controls[n->n_controls + i] = n->inputs[i].node;
    return mf_node_become(g, n, &spec);
}

/* A constant would be alive in a branch that is not taken. */
static bool waits_for_branch(const mf_node *n)
{
    for (int i = 0; i < n->n_inputs; i++) {
        if (n->inputs[i].node->op && n->inputs[i].node->op->control == MF_CONTROL_SWITCH)
            return true;
    }
    return false;
}

static mf_status infer_constant_values(mf_compile *c)
{
    MF_TRY(mf_infer_graph(c));
    for (int64_t i = 0; i < c->graph->n_nodes; i++) {
        mf_node *n = c->graph->nodes[i];
        const mf_tensor *value;

        if (n->removed || n->n_outputs != 1 || n->n_inputs == 0 || !mf_node_is_pure(n) ||
            waits_for_branch(n))
            continue;
        value = mf_compile_facts(c, n)->values[0];
        if (value)
            MF_TRY(become_constant(c->graph, n, value));
    }
    return MF_OK;
}

/* A micro-batch that returns to an earlier stage is processed in one forward item and one backward
 * item, in the same order for all. Only GPipe orders items this way. */
static mf_status spmd_compile_schedule(const mf_mesh_setup *setup, bool returns, int device,
                                       mf_graph *graph)
{
    mf_pipeline_plan plan = { .how = setup->pipeline,
                              .stages = setup->meshes.n,
                              .chunks = chunks_of(setup) };

    if (returns && plan.how == MF_PIPELINE_INTERLEAVED)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the model uses a value of a later chunk of layers, so chunks cannot be "
                       "interleaved: use --pipeline 1f1b or gpipe");
    if (returns)
        plan.how = MF_PIPELINE_GPIPE;
    return mf_mesh_schedule(graph, &plan, mf_meshes_of(&setup->meshes, device));
}

static mf_status spmd_compile_lower(mf_compile *c, const mf_signature *sig,
                                    const mf_mesh_setup *setup, const mf_mesh_variables *variables,
                                    mf_graph **graphs, int64_t *receives, mf_mesh_costs *costs)
{
    int *here = MF_ARENA_ARRAY(c->graph->arena, int, setup->n);
    mf_sharding_table s = { 0 };
    bool changed = false;
    mf_status st;

    if (!here)
        return MF_NOMEM("a mesh");
    for (int i = 0; i < setup->n; i++)
        here[i] = setup->first + i;
    MF_TRY_TO(done, mf_mesh_update_slices(c, variables));
    MF_TRY_TO(done, infer_constant_values(c));
    MF_TRY_TO(done, infer_assigned_shapes(c, variables));
    MF_TRY_TO(done, spmd_compile_lay_out(c, sig, setup, variables, &s));
    do { /* a decomposed op may let layouts propagate further */
        MF_TRY_TO(done, mf_mesh_expand(&s, &changed));
        if (changed) {
            mf_sharding_table_deinit(&s);
            MF_TRY_TO(done, spmd_compile_lay_out(c, sig, setup, variables, &s));
        }
    } while (changed);
    MF_TRY_TO(done, mf_mesh_mark_chunks(&s, variables, &costs->returns));
    st = mf_mesh_lower(&s, here, setup->n, graphs, receives, costs);
    for (int i = 0; st == MF_OK && setup->meshes.n > 1 && i < setup->n; i++)
        st = spmd_compile_schedule(setup, costs->returns, here[i], graphs[i]);
done:
    mf_sharding_table_deinit(&s);
    return st;
}

mf_status mf_mesh_compile(const mf_graph *graph, const mf_signature *sig,
                          const mf_mesh_setup *setup, const mf_mesh_variables *variables,
                          mf_graph **graphs, int64_t *receives, mf_mesh_costs *costs)
{
    mf_compile c = { .separate_micro_batches = setup->meshes.n > 1,
                     .settle_micro_batches = mf_layout_rules_has(&setup->rules, "gradients") };
    mf_status st;

    memset(graphs, 0, (size_t)setup->n * sizeof *graphs);
    MF_TRY(mf_passes_parse(LATER, &c.disabled));
    MF_TRY_TO(done, mf_compile_begin(&c, graph, sig));
    MF_TRY_TO(done, join_shards(c.graph, setup));
    MF_TRY_TO(done, mf_compile_late_reads(&c));
    MF_TRY_TO(done, mf_compile_passes(&c));
    MF_TRY_TO(done, give_seeds(c.graph, setup->seed));
    st = spmd_compile_lower(&c, sig, setup, variables, graphs, receives, costs);
done:
    mf_compile_end(&c);
    return st;
}
