/* SPDX-License-Identifier: Apache-2.0 */
/* reshard_step.c - adds the ops of one resharding step to the graph of every local device. */
#include "spmd/lower/reshard_step.h"

#include <string.h>

mf_status mf_reshard_step_version(const mf_lowering *l, int mesh, const mf_layout *layout,
                                  mf_mesh_version **list, mf_mesh_version **out)
{
    mf_mesh_version *v = MF_ARENA_NEW(l->table->arena, mf_mesh_version);
    mf_mesh_version **end = list;

    if (!v || !(v->at = MF_ARENA_ARRAY(l->table->arena, mf_output, l->n)))
        return MF_NOMEM("layouts");
    v->mesh = mesh;
    v->layout = *layout;
    while (*end)
        end = &(*end)->next;
    *end = v;
    *out = v;
    return MF_OK;
}

mf_status mf_mesh_add_version(mf_lowering *l, mf_output o, int mesh, const mf_layout *layout,
                              mf_mesh_version **out)
{
    return mf_reshard_step_version(l, mesh, layout, &l->versions[o.node->id][o.port], out);
}

mf_shape mf_box_shape(const mf_box *box, int rank)
{
    mf_shape s = { .rank = rank };

    memcpy(s.dims, box->size, (size_t)rank * sizeof *s.dims);
    return s;
}

mf_status mf_reshard_step_add(const mf_reshard_step *g, int i, const char *op, const mf_output *in,
                              int n_in, const mf_named_attr *attrs, int n_attrs, mf_node **out)
{
    mf_graph *graph = g->l->graphs[i];
    char *name = mf_arena_printf(graph->arena, "%s/mesh_%lld", g->o.node->name, (long long)g->id);
    const mf_node_spec spec = { .name = name ? mf_graph_unique_name(graph, name) : NULL,
                                .op = op,
                                .inputs = in,
                                .n_inputs = n_in,
                                .attrs = attrs,
                                .n_attrs = n_attrs };

    if (!spec.name)
        return MF_NOMEM("a graph");
    return mf_graph_add(graph, &spec, out);
}

mf_status mf_reshard_step_make(const mf_reshard_step *g, int i, const char *op, const mf_output *in,
                               int n_in, const mf_named_attr *attrs, int n_attrs)
{
    g->to->at[i].port = 0;
    return mf_reshard_step_add(g, i, op, in, n_in, attrs, n_attrs, &g->to->at[i].node);
}

mf_status mf_reshard_step_everywhere(mf_reshard_step *g,
                                     mf_status (*add)(const mf_reshard_step *g, int i))
{
    const mf_mesh *before = &g->l->table->meshes->at[g->from->mesh];
    mf_status st = MF_OK;

    for (int i = 0; st == MF_OK && i < g->l->n; i++) {
        if (!mf_mesh_has(g->m, g->l->devices[i]) && !mf_mesh_has(before, g->l->devices[i]))
            continue;
        g->scratch = mf_arena_new();
        st = g->scratch ? add(g, i) : MF_NOMEM("a new layout");
        mf_arena_free(g->scratch);
    }
    return st;
}

void mf_reshard_step_count(const mf_reshard_step *g, int i, int64_t elements)
{
    const int64_t bytes = elements * (int64_t)mf_dtype_cell(g->type);
    mf_mesh_cost *cost = i == 0 ? mf_mesh_costs_of(g->l->costs, g->o.node->op_name) : NULL;

    g->l->receives[i] += bytes;
    if (cost)
        cost->received_bytes += bytes;
}

mf_box mf_reshard_step_box(const mf_reshard_step *g, const mf_mesh_version *v, int device)
{
    const mf_mesh *m = &g->l->table->meshes->at[v->mesh];

    return v->boxes ? v->boxes[device - m->first] : mf_layout_box(m, &v->layout, g->shape, device);
}

mf_status mf_reshard_step_write_boxes(mf_arena *arena, const mf_reshard_part *parcels, int n,
                                      int rank, mf_attr *peers, mf_attr *boxes)
{
    int64_t *who = MF_ARENA_ARRAY(arena, int64_t, n + 1);
    int64_t *list = MF_ARENA_ARRAY(arena, int64_t, 2 * (int64_t)n * rank + 1);

    if (!who || !list)
        return MF_NOMEM("a new layout");
    for (int k = 0; k < n; k++) {
        who[k] = parcels[k].peer;
        memcpy(list + 2 * k * rank, parcels[k].box.begin, (size_t)rank * sizeof *list);
        memcpy(list + (2 * k + 1) * rank, parcels[k].box.size, (size_t)rank * sizeof *list);
    }
    *peers = mf_ints_attr(who, n);
    *boxes = mf_ints_attr(list, 2 * (int64_t)n * rank);
    return MF_OK;
}
