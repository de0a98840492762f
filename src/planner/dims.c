/* SPDX-License-Identifier: Apache-2.0 */
/* dims.c - what layouts are made of: dimensions with names, shapes of meshes, and their text. */
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
        return MF_FAIL(MF_UNIMPLEMENTED, "the model has names for more than %d dimensions",
                       MF_PLAN_DIMS);
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

    for (int64_t i = 0; i < g->n_nodes; i++) { /* in the order in which layers were built */
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
    *out = (mf_mesh){ .n_axes = cols > 1 ? 2 : 1, .size = { rows, cols }, .n = rows * cols };
    (void)snprintf(out->name[0], sizeof out->name[0], "%s", cols > 1 ? "rows" : "all");
    if (cols > 1)
        (void)snprintf(out->name[1], sizeof out->name[1], "cols");
}

int mf_plan_meshes(int processors, mf_mesh *out, int max)
{
    int n = 0;

    for (int cols = 1; cols * cols <= processors && n < max; cols++) {
        if (processors % cols == 0)
            mesh_of(processors / cols, cols, &out[n++]);
    }
    return n;
}

/* ---- text ---- */

static void write_rules(const char *name, const mf_mesh *m, mf_axes axes, mf_buf *out)
{
    for (int a = 0; a < m->n_axes; a++) {
        if (axes >> a & 1)
            mf_buf_printf(out, "%s%s:%s", out->len > 0 ? ";" : "", name, m->name[a]);
    }
}

void mf_candidate_layout(const mf_plan_dims *d, const mf_candidate *c, mf_buf *out)
{
    write_rules(LAYERS, &c->mesh, c->layers, out);
    for (int i = 0; i < d->n; i++)
        write_rules(d->name[i], &c->mesh, c->cuts[i], out);
    mf_buf_str(out, ""); /* nothing is text, too */
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

mf_status mf_candidate_parse(const mf_plan_dims *d, const char *layout, mf_candidate *c)
{
    mf_layout_rules rules;

    MF_TRY(mf_layout_rules_parse(layout, &rules));
    for (int k = 0; k < rules.n; k++) {
        const mf_axes axes = mf_layout_rules_find(&rules, &c->mesh, rules.dim[k]);
        int i = 0;

        while (i < d->n && strcmp(d->name[i], rules.dim[k]) != 0)
            i++;
        if (i == d->n && strcmp(rules.dim[k], LAYERS) != 0)
            return no_dim(d, rules.dim[k]);
        if (!axes)
            return MF_FAIL(MF_INVALID_ARGUMENT, "layout '%s': the mesh has no axis '%s'", layout,
                           rules.axis[k]);
        *(i < d->n ? &c->cuts[i] : &c->layers) |= axes;
    }
    return MF_OK;
}
