/* SPDX-License-Identifier: Apache-2.0 */
/* dims.c - the parts of a layout: named dimensions, mesh shapes, and rules. */
#include "planner/search.h"
#include "spmd/propagate/sharding_table.h"

#include <stdio.h>
#include <string.h>

static const char LAYERS[] = "layers";

/* ---- dimensions ---- */

static mf_status dims_add_dim(mf_plan_dims *d, const char *name, int64_t size)
{
    int i = 0;

    while (i < d->n && strcmp(d->name[i], name) != 0)
        i++;
    if (i == MF_PLAN_DIMS)
        return MF_FAIL(MF_UNIMPLEMENTED, "the model names more than %d dimensions", MF_PLAN_DIMS);
    if (i == d->n) {
        (void)snprintf(d->name[i], sizeof d->name[i], "%s", name);
        d->n++;
    }
    d->size[i] = size > d->size[i] ? size : d->size[i];
    return MF_OK;
}

static mf_status dims_add_names(mf_plan_dims *d, const mf_node *n, const mf_shape *shape)
{
    const mf_attr *names = mf_node_list(n, MF_DIMS_ATTR, MF_ATTR_STRING);

    for (int64_t i = 0; names && i < names->n && i < shape->rank; i++) {
        if (names->strings[i].len > 0)
            MF_TRY(dims_add_dim(d, names->strings[i].data, shape->dims[i]));
    }
    return MF_OK;
}

static int64_t dims_count_layers(const mf_graph *g)
{
    int64_t n = 0, last = 0;

    for (int64_t i = 0; i < g->n_nodes; i++) { /* nodes are in the order in which layers were built
                                                */
        const mf_node *node = g->nodes[i];
        const int64_t layer =
            node && strcmp(node->op_name, "VarHandleOp") == 0 ? mf_node_layer(node) : 0;

        n += layer > last;
        last = layer > last ? layer : last;
    }
    return n;
}

mf_status mf_plan_dims_find(const mf_planned_step *step, mf_plan_dims *out)
{
    *out = (mf_plan_dims){ 0 };
    for (int i = 0; i < step->names.n_feeds; i++) {
        const char *name = step->names.feeds[i];
        char node[256];
        const mf_node *n;

        (void)snprintf(node, sizeof node, "%.*s", (int)strcspn(name, ":"), name);
        n = mf_graph_find(step->graph, node);
        if (n)
            MF_TRY(dims_add_names(out, n, &step->feed_shapes[i]));
    }
    for (int64_t i = 0; i < step->graph->n_nodes; i++) {
        const mf_node *n = step->graph->nodes[i];

        if (n && strcmp(n->op_name, "VarHandleOp") == 0)
            MF_TRY(dims_add_names(out, n, mf_node_shape(n, "shape")));
    }
    out->layers = dims_count_layers(step->graph);
    if (step->names.n_feeds > 0 && step->feed_shapes[0].rank > 0)
        out->batch = step->feed_shapes[0].dims[0];
    return dims_add_dim(out, "weights", 0);
}

/* ---- meshes ---- */

static void mesh_of(int rows, int cols, mf_mesh *out)
{
    *out = (mf_mesh){ .n = 1 };
    mf_mesh_add_axis(out, cols > 1 ? "rows" : "all", rows);
    if (cols > 1)
        mf_mesh_add_axis(out, "cols", cols);
}

int mf_plan_meshes(int devices, mf_mesh *out, int max)
{
    int n = 0;

    for (int cols = 1; cols * cols <= devices && n < max; cols++) {
        if (devices % cols == 0)
            mesh_of(devices / cols, cols, &out[n++]);
    }
    return n;
}

/* ---- layouts as rules ---- */

static mf_status add_rules(const char *name, const mf_mesh *m, mf_axes axes, mf_layout_rules *out)
{
    for (int a = 0; a < m->n_axes; a++) {
        if (axes >> a & 1)
            MF_TRY(mf_layout_rules_add(out, name, m->name[a]));
    }
    return MF_OK;
}

static mf_status candidate_rules(const mf_plan_dims *d, const mf_candidate *c, mf_layout_rules *out)
{
    *out = (mf_layout_rules){ 0 };
    MF_TRY(add_rules(LAYERS, &c->mesh, c->layers, out));
    for (int i = 0; i < d->n; i++)
        MF_TRY(add_rules(d->name[i], &c->mesh, c->cuts[i], out));
    return MF_OK;
}

mf_status mf_candidate_spec(const mf_plan_dims *d, const mf_candidate *c, mf_mesh_spec *out)
{
    mf_mesh_spec_one(&c->mesh, out);
    return candidate_rules(d, c, &out->rules);
}

void mf_candidate_layout(const mf_plan_dims *d, const mf_candidate *c, mf_buf *out)
{
    mf_layout_rules rules;

    (void)candidate_rules(d, c, &rules); /* more rules than fit: not a possible candidate */
    mf_layout_rules_text(&rules, out);
}

void mf_candidate_name(const mf_plan_dims *d, const mf_candidate *c, mf_buf *out)
{
    mf_buf layout = { 0 };

    mf_candidate_layout(d, c, &layout);
    mf_mesh_text(&c->mesh, out);
    mf_buf_printf(out, " %s %d", layout.data ? layout.data : "",
                  c->micro_batches > 1 ? c->micro_batches : 1);
    mf_buf_deinit(&layout);
}

int mf_candidate_stages(const mf_candidate *c)
{
    return mf_mesh_count(&c->mesh, c->layers);
}

static mf_status no_dim(const mf_plan_dims *d, const char *name)
{
    mf_buf known = { 0 };
    mf_status st;

    for (int i = 0; i < d->n; i++)
        mf_buf_printf(&known, "%s%s", i ? ", " : "", d->name[i]);
    st = MF_FAIL(MF_INVALID_ARGUMENT, "the model has no dimension '%s'; it has %s", name,
                 known.data ? known.data : "none");
    mf_buf_deinit(&known);
    return st;
}

/* The axis of this rule; 0: the mesh has none of its name. */
static mf_axes axis_of_rule(const mf_layout_rules *rules, int i, const mf_mesh *m)
{
    for (int a = 0; a < m->n_axes; a++) {
        if (strcmp(m->name[a], rules->axis[i]) == 0)
            return (mf_axes)1 << a;
    }
    return 0;
}

mf_status mf_candidate_take_rules(const mf_plan_dims *d, const mf_layout_rules *rules,
                                  mf_candidate *c)
{
    for (int k = 0; k < rules->n; k++) {
        const mf_axes axis = axis_of_rule(rules, k, &c->mesh);
        int i = 0;

        while (i < d->n && strcmp(d->name[i], rules->dim[k]) != 0)
            i++;
        if (i == d->n && strcmp(rules->dim[k], LAYERS) != 0)
            return no_dim(d, rules->dim[k]);
        if (!axis)
            return MF_FAIL(MF_INVALID_ARGUMENT, "layout '%s:%s': the mesh has no axis '%s'",
                           rules->dim[k], rules->axis[k], rules->axis[k]);
        *(i < d->n ? &c->cuts[i] : &c->layers) |= axis;
    }
    return MF_OK;
}
