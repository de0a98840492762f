/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_placement.c - assigns each node of a graph to one of several meshes. In order of priority, a
 * node is placed on the mesh given by mf_put_on_mesh(), on the mesh of its layer, of the variable
 * it works on, or of its largest input. Nodes that depend only on constants and feeds are computed
 * on every mesh that needs them. */
#include "spmd/propagate/mesh_placement.h"

#include "compiler/flow_context.h"
#include "graph/opdef.h"

#include <string.h>

/* ---- layers ---- */

enum { LAYERS_MAX = 1 << 20 };

/* Multiplications of a matrix product, elements of other values; of a lookup table only the rows
 * that are read. */
static double mesh_placement_work_of(const mf_sharding_table *s, const mf_node *n)
{
    const mf_split *q = s->splits[n->id];
    double work = 1;
    int64_t count = 0;

    for (int k = 0; q && k < q->n_letters; k++)
        work *= k == q->index_letter ? 1 : (double)q->letters[k].size;
    if (q && q->n_letters > 0)
        return work;
    if (n->n_outputs == 0 || mf_shape_count(&s->values[n->id][0].shape, &count) != MF_OK)
        return 0;
    return (double)count;
}

static int count_chunks(const mf_sharding_table *s)
{
    return s->meshes->n * s->chunks;
}

static int64_t mesh_placement_count_layers(const mf_sharding_table *s)
{
    int64_t most = 0;

    for (int64_t i = 0; i < s->n; i++)
        most = mf_node_layer(s->order[i]) > most ? mf_node_layer(s->order[i]) : most;
    return most;
}

/* Layers with weights are counted; a layer without weights belongs to the one before it. */
static mf_status assign_requested_layers(const mf_sharding_table *s, const int *wanted,
                                         int64_t layers, int64_t *first)
{
    bool *counts = MF_ARENA_ARRAY(s->arena, bool, layers + 1);
    const int chunks = count_chunks(s);
    int64_t n = 0, sum = 0;
    int chunk = 0;

    if (!counts)
        return MF_NOMEM("layers");
    for (int64_t i = 0; i < s->n; i++) {
        if (mf_node_layer(s->order[i]) > 0)
            counts[mf_node_layer(s->order[i])] |= mf_mesh_is_variable(s->order[i]);
    }
    for (int k = 0; k < chunks; k++)
        sum += wanted[k];
    for (int64_t l = 1; l <= layers; l++)
        n += counts[l];
    if (sum != n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "stages with %lld layers in total, but the model has %lld layers with "
                       "weights",
                       (long long)sum, (long long)n);
    first[0] = 1;
    for (int64_t l = 1, left = wanted[0]; l <= layers; l++) {
        while (counts[l] && left == 0 && chunk + 1 < chunks) {
            first[++chunk] = l;
            left = wanted[chunk];
        }
        left -= counts[l];
    }
    while (chunk + 1 < chunks)
        first[++chunk] = layers + 1;
    return MF_OK;
}

/* best[k][l]: the largest work of a chunk if the first k chunks hold the first l layers. */
static mf_status balance_layers(const mf_sharding_table *s, int64_t layers, int64_t *first)
{
    const int chunks = count_chunks(s);
    const int64_t row = layers + 1;
    double *sum = MF_ARENA_ARRAY(s->arena, double, row);
    double *best = MF_ARENA_ARRAY(s->arena, double, (chunks + 1) * row);
    int64_t *cut = MF_ARENA_ARRAY(s->arena, int64_t, (chunks + 1) * row);

    if (!sum || !best || !cut)
        return MF_NOMEM("layers");
    for (int64_t i = 0; i < s->n; i++) {
        if (mf_node_layer(s->order[i]) > 0)
            sum[mf_node_layer(s->order[i])] += mesh_placement_work_of(s, s->order[i]);
    }
    for (int64_t l = 1; l <= layers; l++)
        sum[l] += sum[l - 1];
    for (int k = 1; k <= chunks; k++) {
        const double n = s->meshes->at[(k - 1) % s->meshes->n].n;

        for (int64_t l = k; l <= layers; l++) {
            for (int64_t before = k - 1; before < (k == 1 ? 1 : l); before++) {
                const double own = (sum[l] - sum[before]) / n;
                const double most = k > 1 && best[(k - 1) * row + before] > own
                                        ? best[(k - 1) * row + before]
                                        : own;

                if (before == k - 1 || most < best[k * row + l]) {
                    best[k * row + l] = most;
                    cut[k * row + l] = before;
                }
            }
        }
    }
    for (int64_t k = chunks, l = layers; k > 0; k--) {
        l = cut[k * row + l];
        first[k - 1] = l + 1;
    }
    return MF_OK;
}

mf_status mf_mesh_assign_layers(const mf_sharding_table *s, const int *wanted, int64_t *first)
{
    const int64_t layers = s->meshes->n > 1 && !first[0] ? mesh_placement_count_layers(s) : 0;

    if (layers == 0)
        return MF_OK;
    if (layers > LAYERS_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "layer %lld: layers are numbered from 1 to %d",
                       (long long)layers, LAYERS_MAX);
    if (count_chunks(s) > MF_MESH_CHUNKS)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%d chunks of layers exceed the maximum of %d: use fewer stages",
                       count_chunks(s), MF_MESH_CHUNKS);
    if (wanted[0])
        return assign_requested_layers(s, wanted, layers, first);
    if (layers < count_chunks(s))
        return MF_FAIL(MF_INVALID_ARGUMENT, "the model has %lld layers, too few for %d %s",
                       (long long)layers, count_chunks(s),
                       s->chunks > 1 ? "chunks: use fewer (--chunks)" : "stages");
    return balance_layers(s, layers, first);
}

int mf_mesh_chunk_of(const mf_sharding_table *s, const mf_mesh_variables *known, int64_t layer)
{
    int k = 0;

    if (layer == 0 || !known->first_layer[0])
        return -1;
    while (k + 1 < count_chunks(s) && layer >= known->first_layer[k + 1])
        k++;
    return k;
}

/* ---- nodes ---- */

typedef struct mesh_placement_placing {
    mf_sharding_table *s;
    const mf_mesh_variables *known;
    uint32_t all; /* bits of all meshes */
} mesh_placement_placing;

static bool mesh_placement_is_op(const mf_node *n, const char *op)
{
    return strcmp(n->op_name, op) == 0;
}

static uint32_t of_layer(const mesh_placement_placing *p, int64_t layer)
{
    const int chunk = mf_mesh_chunk_of(p->s, p->known, layer);

    return chunk < 0 ? 0 : (uint32_t)1 << chunk % p->s->meshes->n;
}

static mf_status was_put(const mesh_placement_placing *p, const mf_node *n, uint32_t *out)
{
    const mf_attr *a = mf_node_attr(n, MF_MESH_ATTR);

    *out = of_layer(p, mf_node_layer(n));
    if (!a)
        return MF_OK;
    if (a->kind != MF_ATTR_INT || a->i < 0 || a->i >= p->s->meshes->n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: there is no mesh %lld, only 0 to %d",
                       n->name, (long long)a->i, p->s->meshes->n - 1);
    *out = (uint32_t)1 << a->i;
    return MF_OK;
}

static mf_status place_variable(const mesh_placement_placing *p, const mf_node *n)
{
    const mf_mesh_variable *known = mf_map_find(&p->known->layouts, mf_mesh_variable_name(n));
    uint32_t put;

    MF_TRY(was_put(p, n, &put));
    if (known)
        p->s->where[n->id] = (uint32_t)1 << known->mesh;
    else if (put)
        p->s->where[n->id] = put;
    return MF_OK;
}

/* Meshes of the variable that the node works on; 0: none or unknown. */
static uint32_t of_handle(const mesh_placement_placing *p, const mf_node *n)
{
    for (int k = 0; k < n->n_inputs; k++) {
        if (mf_mesh_value_of(p->s, n->inputs[k])->fixed && p->s->where[n->inputs[k].node->id])
            return p->s->where[n->inputs[k].node->id];
    }
    return 0;
}

static int64_t mesh_placement_bytes_of(const mesh_placement_placing *p, mf_output o)
{
    int64_t count = 0;

    if (mf_shape_count(&mf_mesh_value_of(p->s, o)->shape, &count) != MF_OK)
        return 0;
    return count * (int64_t)mf_dtype_cell(mf_type_base(o.node->out_types[o.port]));
}

/* 0: no input has been placed. */
static uint32_t of_largest(const mesh_placement_placing *p, const mf_node *n)
{
    uint32_t where = 0;
    int64_t most = -1;

    for (int k = 0; k < n->n_inputs; k++) {
        const uint32_t there = p->s->where[n->inputs[k].node->id];
        const int64_t bytes = mesh_placement_bytes_of(p, n->inputs[k]);

        if (there && bytes > most) {
            where = there;
            most = bytes;
        }
    }
    return where;
}

/* A sum whose terms are all on one mesh is computed there, so only the sum is sent. 0: not a sum,
 * or its terms are on several meshes. */
static uint32_t of_parts(const mesh_placement_placing *p, const mf_node *n)
{
    uint32_t where = 0;

    if (!mesh_placement_is_op(n, "AddN") && !mesh_placement_is_op(n, "AddV2") &&
        !mesh_placement_is_op(n, "Add"))
        return 0;
    for (int k = 0; k < n->n_inputs; k++) {
        const uint32_t there = p->s->where[n->inputs[k].node->id];

        if (!there || (where && where != there))
            return 0;
        where = there;
    }
    return where;
}

static mf_status place_forwards(const mesh_placement_placing *p)
{
    for (int64_t i = 0; i < p->s->n; i++) {
        const mf_node *n = p->s->order[i];
        uint32_t put;

        if (mesh_placement_is_op(n, "VarHandleOp")) {
            MF_TRY(place_variable(p, n));
            continue;
        }
        MF_TRY(was_put(p, n, &put));
        p->s->where[n->id] = of_handle(p, n);
        if (!p->s->where[n->id])
            p->s->where[n->id] = of_parts(p, n);
        if (!p->s->where[n->id] && put && !mf_node_is_constant(n))
            p->s->where[n->id] = put;
        if (!p->s->where[n->id])
            p->s->where[n->id] = of_largest(p, n);
    }
    return MF_OK;
}

/* Variables that an op updates together are placed together; the others on the first mesh. */
static void place_other_variables(const mesh_placement_placing *p)
{
    for (int64_t i = 0; i < p->s->n; i++) {
        const mf_node *n = p->s->order[i];

        for (int k = 0; k < n->n_inputs; k++) {
            uint32_t *where = &p->s->where[n->inputs[k].node->id];

            if (mf_mesh_value_of(p->s, n->inputs[k])->fixed && !*where)
                *where = of_handle(p, n);
        }
    }
    for (int64_t i = 0; i < p->s->n; i++) {
        if (mesh_placement_is_op(p->s->order[i], "VarHandleOp") && !p->s->where[p->s->order[i]->id])
            p->s->where[p->s->order[i]->id] = 1;
    }
}

static bool has_state(const mf_node *n)
{
    const mf_opdef *def;

    return n->op && mf_op_def(n->op, &def) == MF_OK && def->is_stateful;
}

/* An unplaced node is placed where its result is needed; a stateful node on one mesh only. */
static void place_backwards(const mesh_placement_placing *p, uint32_t *needed)
{
    for (int64_t i = p->s->n - 1; i >= 0; i--) {
        const mf_node *n = p->s->order[i];
        uint32_t *where = &p->s->where[n->id];

        if (mesh_placement_is_op(n, "_Arg") || mesh_placement_is_op(n, "_Retval") ||
            (mesh_placement_is_op(n, "NoOp") && !p->s->is_used[n->id]))
            *where = p->all;
        else if (!*where)
            *where = needed[n->id] ? needed[n->id] : 1;
        if (has_state(n) && !mesh_placement_is_op(n, "_Arg"))
            *where &= -*where;
        for (int k = 0; k < n->n_inputs; k++)
            needed[n->inputs[k].node->id] |= mesh_placement_is_op(n, "_Retval") ? 0 : *where;
        for (int k = 0; k < n->n_controls; k++)
            needed[n->controls[k]->id] |= *where;
    }
}

mf_status mf_mesh_place(mf_sharding_table *s, const mf_mesh_variables *known)
{
    const mesh_placement_placing p = { .s = s,
                                       .known = known,
                                       .all = s->meshes->n == 32
                                                  ? UINT32_MAX
                                                  : ((uint32_t)1 << s->meshes->n) - 1 };
    uint32_t *needed = MF_ARENA_ARRAY(s->arena, uint32_t, s->c->graph->n_nodes + 1);

    if (!needed)
        return MF_NOMEM("layers");
    if (s->meshes->n == 1)
        return MF_OK; /* decided before */
    for (int64_t i = 0; i < s->n; i++)
        s->where[s->order[i]->id] = 0;
    MF_TRY(place_forwards(&p));
    place_other_variables(&p);
    MF_TRY(place_forwards(&p));
    place_backwards(&p, needed);
    return MF_OK;
}
