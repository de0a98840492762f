/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_stages.c - assigns the nodes of an interleaved pipeline to chunks of layers. A node of a
 * layer belongs to that layer's chunk. Any other node (losses, sums) belongs to the first chunk of
 * its mesh at which all its inputs are available. */
#include "spmd/pipeline/virtual_stages.h"

#include "spmd/propagate/mesh_placement.h"

enum { NONE = -1 };

typedef struct marking {
    mf_sharding_table *s;
    const mf_mesh_variables *variables;
    int n; /* number of chunks of all meshes */
    int *chunk; /* by node's id; NONE: any */
    bool returns;
} marking;

static bool virtual_stages_is_single(uint32_t where)
{
    return where && (where & (where - 1)) == 0;
}

/* The chunk after which all inputs of the node's own direction are available: the last one in the
 * forward pass, the first one in the backward pass. */
static int after_inputs(const marking *m, const mf_node *n)
{
    const bool back = mf_node_is_gradient(n);
    int after = NONE;

    for (int k = 0; k < n->n_inputs; k++) {
        const mf_node *in = n->inputs[k].node;
        const int c = m->chunk[in->id];

        if (c == NONE || mf_node_is_gradient(in) != back)
            continue;
        if (after == NONE || (back ? c < after : c > after))
            after = c;
    }
    return after;
}

/* The next chunk of this mesh from `after` on; NONE: there is none. */
static int next_of(const marking *m, int after, int mesh, bool back)
{
    const int meshes = m->s->meshes->n;

    while (after >= 0 && after < m->n && after % meshes != mesh)
        after += back ? -1 : 1;
    return after < m->n ? after : NONE;
}

static void find_chunk(marking *m, const mf_node *n)
{
    const bool back = mf_node_is_gradient(n);
    const int mesh = mf_mesh_home(m->s, n), after = after_inputs(m, n);
    int own = mf_mesh_chunk_of(m->s, m->variables, mf_node_layer(n));

    if (own != NONE && own % m->s->meshes->n != mesh)
        own = NONE; /* mf_put_on_mesh() placed it on another mesh */
    if (own == NONE && after == NONE && !back)
        return; /* depends on feeds only: runs when needed */
    if (own == NONE)
        own = next_of(m, after != NONE ? after : m->n - 1, mesh, back);
    if (own == NONE || (after != NONE && (back ? after < own : after > own)))
        m->returns = true;
    m->chunk[n->id] = own;
}

mf_status mf_mesh_mark_chunks(mf_sharding_table *s, const mf_mesh_variables *variables,
                              bool *returns)
{
    mf_graph *g = s->c->graph;
    marking m = { .s = s, .variables = variables, .n = s->meshes->n * s->chunks };

    if (s->chunks <= 1)
        return MF_OK;
    m.chunk = MF_ARENA_ARRAY(s->arena, int, g->n_nodes + 1);
    if (!m.chunk)
        return MF_NOMEM("a pipeline");
    for (int64_t i = 0; i < g->n_nodes; i++)
        m.chunk[i] = NONE;
    for (int64_t i = 0; i < s->n; i++) {
        mf_node *n = s->order[i];
        mf_attr mark = { .kind = MF_ATTR_INT, .n = 1 };

        if (mf_node_micro_batch(n) == 0 || !virtual_stages_is_single(s->where[n->id]))
            continue;
        find_chunk(&m, n);
        mark.i = m.chunk[n->id] + 1;
        if (m.chunk[n->id] != NONE)
            MF_TRY(mf_node_set_attr(g, n, MF_CHUNK_ATTR, &mark));
    }
    *returns |= m.returns;
    return MF_OK;
}
