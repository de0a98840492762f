/* SPDX-License-Identifier: Apache-2.0 */
/* deliver.c - values under other layouts than they were made: the ops that reduce and move them.
 * Each version is made once, out of the one that is nearest. */
#include "base/log.h"
#include "graph/shard.h"
#include "mesh/lower.h"
#include "mesh/move.h"

#include <stdio.h>
#include <string.h>

mf_status mf_mesh_made(mf_lowering *l, mf_output o, const mf_layout *layout, mf_mesh_version **out)
{
    mf_mesh_version *v = MF_ARENA_NEW(l->sheet->arena, mf_mesh_version);
    mf_mesh_version **end = &l->versions[o.node->id][o.port];

    if (!v || !(v->at = MF_ARENA_ARRAY(l->sheet->arena, mf_output, l->n)))
        return MF_NOMEM("layouts");
    v->layout = *layout;
    while (*end)
        end = &(*end)->next;
    *end = v;
    *out = v;
    return MF_OK;
}

/* ---- attributes ---- */

static mf_attr int_attr(int64_t i)
{
    return (mf_attr){ .kind = MF_ATTR_INT, .n = 1, .i = i };
}

static mf_attr ints_attr(int64_t *list, int64_t n)
{
    return (mf_attr){ .kind = MF_ATTR_INT, .is_list = true, .n = n, .ints = list };
}

static mf_attr shape_attr(mf_shape *shape)
{
    return (mf_attr){ .kind = MF_ATTR_SHAPE, .n = 1, .shape = shape };
}

static mf_shape box_shape(const mf_box *box, int rank)
{
    mf_shape s = { .rank = rank };

    memcpy(s.dims, box->size, (size_t)rank * sizeof *s.dims);
    return s;
}

/* ---- one step of the way ---- */

/* From one version to another: what every processor at hand adds to its graph. */
typedef struct leg {
    mf_lowering *l;
    mf_output o;
    const mf_shape *shape;
    const mf_mesh_version *from;
    mf_mesh_version *to;
    int64_t id;
} leg;

static mf_status add_node(const leg *g, int i, const char *op, const mf_output *in, int n_in,
                          const mf_named_attr *attrs, int n_attrs)
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
    g->to->at[i].port = 0;
    return mf_graph_add(graph, &spec, &g->to->at[i].node);
}

/* From others, in every run. */
static void count_bytes(const leg *g, int i, int64_t elements)
{
    const int64_t bytes =
        elements * (int64_t)mf_dtype_cell(mf_type_base(g->o.node->out_types[g->o.port]));
    mf_mesh_cost *cost = i == 0 ? mf_mesh_costs_of(g->l->costs, g->o.node->op_name) : NULL;

    g->l->receives[i] += bytes;
    if (cost)
        cost->received_bytes += bytes;
}

static mf_box box_at(const leg *g, const mf_mesh_version *v, int processor)
{
    return v->boxes ? v->boxes[processor]
                    : mf_layout_box(g->l->sheet->mesh, &v->layout, g->shape, processor);
}

/* Everybody has what it needs, and more. */
static mf_status add_slice(const leg *g, int i)
{
    const int p = g->l->processors[i], rank = g->shape->rank;
    const mf_box from = box_at(g, g->from, p), to = box_at(g, g->to, p);
    mf_graph *graph = g->l->graphs[i];
    int64_t begin[MF_MAX_RANK];
    mf_output in[3] = { g->from->at[i] };

    for (int d = 0; d < rank; d++) /* where it has nothing, there may be nothing to begin at */
        begin[d] = to.size[d] > 0 ? to.begin[d] - from.begin[d] : 0;
    in[1] = mf_ints(graph, begin, rank);
    in[2] = mf_ints(graph, to.size, rank);
    MF_TRY(mf_graph_status(graph));
    return add_node(g, i, "Slice", in, 3, NULL, 0);
}

static mf_status write_boxes(mf_arena *arena, const mf_parcel *parcels, int n, int rank,
                             mf_attr *peers, mf_attr *boxes)
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
    *peers = ints_attr(who, n);
    *boxes = ints_attr(list, 2 * (int64_t)n * rank);
    return MF_OK;
}

static mf_status add_move(const leg *g, int i)
{
    const mf_mesh *m = g->l->sheet->mesh;
    mf_arena *arena = g->l->sheet->arena;
    const int p = g->l->processors[i], rank = g->shape->rank;
    mf_box *boxes = MF_ARENA_ARRAY(arena, mf_box, m->n), from;
    int64_t keep[3 * MF_MAX_RANK];
    mf_shape before, after;
    mf_named_attr attrs[9] = {
        { "to", { 0 } }, { "send", { 0 } }, { "from", { 0 } }, { "receive", { 0 } }
    };
    mf_move move;

    if (!boxes)
        return MF_NOMEM("a new layout");
    for (int k = 0; k < m->n; k++)
        boxes[k] = box_at(g, g->to, k);
    MF_TRY(mf_move_plan(m, &g->from->layout, g->shape, boxes, p, arena, &move));
    for (int k = 0; k < move.n_receive; k++)
        count_bytes(g, i, mf_box_count(&move.receive[k].box, rank));
    from = box_at(g, g->from, p);
    before = box_shape(&from, rank);
    after = box_shape(&boxes[p], rank);
    memcpy(keep, move.keep_from.begin, (size_t)rank * sizeof *keep);
    memcpy(keep + rank, move.keep_to.begin, (size_t)rank * sizeof *keep);
    memcpy(keep + 2 * rank, move.keep_to.size, (size_t)rank * sizeof *keep);
    MF_TRY(write_boxes(arena, move.send, move.n_send, rank, &attrs[0].value, &attrs[1].value));
    MF_TRY(
        write_boxes(arena, move.receive, move.n_receive, rank, &attrs[2].value, &attrs[3].value));
    attrs[4] = (mf_named_attr){ "id", int_attr(g->id) };
    attrs[5] = (mf_named_attr){ "from_shape", shape_attr(&before) };
    attrs[6] = (mf_named_attr){ "shape", shape_attr(&after) };
    attrs[7] = (mf_named_attr){ "keep", ints_attr(keep, move.keeps ? 3 * rank : 0) };
    attrs[8] = (mf_named_attr){ "keeps", { .kind = MF_ATTR_BOOL, .n = 1, .b = move.keeps } };
    return add_node(g, i, "_MeshMove", &g->from->at[i], 1, attrs, MF_COUNT(attrs));
}

/* Elements that member `index` of n gets, so that it has `count` of the sum: see ops/mesh.c. */
static int64_t reduce_receives(int64_t count, int n, int index, bool scatter)
{
    const int64_t piece = mf_shard_begin(count, n, index + 1) - mf_shard_begin(count, n, index);

    if (scatter || count <= MF_REDUCE_DIRECT)
        return count * (n - 1);
    return piece * (n - 1) + count - piece;
}

/* Along these axes; the new version says whether pieces are cut. */
static mf_status add_reduce(const leg *g, int i, mf_axes axes, bool scatter)
{
    const mf_mesh *m = g->l->sheet->mesh;
    mf_arena *arena = g->l->sheet->arena;
    const int p = g->l->processors[i], rank = g->shape->rank, n = mf_mesh_count(m, axes);
    int64_t *members = MF_ARENA_ARRAY(arena, int64_t, n);
    mf_parcel *pieces = MF_ARENA_ARRAY(arena, mf_parcel, n);
    const mf_box from = box_at(g, g->from, p), to = box_at(g, g->to, p);
    mf_shape before = box_shape(&from, rank), after = box_shape(&to, rank);
    mf_attr peers, boxes = { 0 };

    if (!members || !pieces)
        return MF_NOMEM("a sum");
    for (int k = 0; k < n; k++) {
        members[k] = mf_mesh_nth(m, axes, p, k);
        pieces[k] = (mf_parcel){ (int)members[k], box_at(g, g->to, (int)members[k]) };
        for (int d = 0; d < rank; d++)
            pieces[k].box.begin[d] =
                pieces[k].box.size[d] > 0 ? pieces[k].box.begin[d] - from.begin[d] : 0;
    }
    count_bytes(g, i,
                reduce_receives(mf_box_count(&to, rank), n, mf_mesh_index(m, axes, p), scatter));
    MF_TRY(write_boxes(arena, pieces, scatter ? n : 0, rank, &peers, &boxes));
    {
        const mf_named_attr attrs[] = {
            { "id", int_attr(g->id) },
            { "from_shape", shape_attr(&before) },
            { "shape", shape_attr(&after) },
            { "members", ints_attr(members, n) },
            { "index", int_attr(mf_mesh_index(m, axes, p)) },
            { "boxes", boxes },
            { "how", int_attr(g->from->layout.how) },
            { "direct", int_attr(MF_REDUCE_DIRECT) },
        };

        return add_node(g, i, "_MeshReduce", &g->from->at[i], 1, attrs, MF_COUNT(attrs));
    }
}

static void explain(const leg *g, const mf_layout *to)
{
    const mf_mesh *m = g->l->sheet->mesh;
    char a[MF_LAYOUT_TEXT], b[MF_LAYOUT_TEXT], shape[MF_SHAPE_TEXT];

    if (mf_log_wants(MF_LOG_DEBUG))
        MF_LOG(MF_LOG_DEBUG, "move %s %s: %s => %s, %lld elements", g->o.node->name,
               mf_shape_text(g->shape, shape),
               mf_layout_text(m, &g->from->layout, g->shape->rank, a),
               mf_layout_text(m, to, g->shape->rank, b),
               (long long)mf_move_elements(m, &g->from->layout, g->shape, to));
}

static mf_status begin_leg(mf_lowering *l, mf_output o, const mf_mesh_version *from,
                           const mf_layout *to, leg *g)
{
    *g = (leg){ .l = l,
                .o = o,
                .shape = &mf_mesh_value_of(l->sheet, o)->shape,
                .from = from,
                .id = l->next_id++ };
    explain(g, to);
    return mf_mesh_made(l, o, to, &g->to);
}

static mf_status reduce(mf_lowering *l, mf_output o, const mf_layout *to, mf_axes axes,
                        bool scatter, const mf_mesh_version **v)
{
    leg g;

    if (!axes)
        return MF_OK;
    MF_TRY(begin_leg(l, o, *v, to, &g));
    for (int i = 0; i < l->n; i++)
        MF_TRY(add_reduce(&g, i, axes, scatter));
    *v = g.to;
    return MF_OK;
}

static mf_status move(mf_lowering *l, mf_output o, const mf_layout *to, const mf_mesh_version **v)
{
    const mf_shape *shape = &mf_mesh_value_of(l->sheet, o)->shape;
    const bool local = mf_move_is_local(l->sheet->mesh, &(*v)->layout, shape, to);
    leg g;

    if (mf_layout_equal(&(*v)->layout, to))
        return MF_OK;
    MF_TRY(begin_leg(l, o, *v, to, &g));
    for (int i = 0; i < l->n; i++)
        MF_TRY(local ? add_slice(&g, i) : add_move(&g, i));
    *v = g.to;
    return MF_OK;
}

/* ---- the whole way ---- */

static const mf_mesh_version *nearest(const mf_lowering *l, mf_output o, const mf_layout *to)
{
    const mf_mesh_value *value = mf_mesh_value_of(l->sheet, o);
    const mf_mesh_version *best = NULL;
    int64_t least = 0;

    for (const mf_mesh_version *v = l->versions[o.node->id][o.port]; v; v = v->next) {
        int64_t n;

        if (v->boxes)
            continue;
        if (mf_layout_equal(&v->layout, to))
            return v;
        if (to->partial || value->fixed || !mf_shape_is_static(&value->shape))
            continue;
        n = mf_move_elements(l->sheet->mesh, &v->layout, &value->shape, to);
        if (!best || n < least) {
            best = v;
            least = n;
        }
    }
    return best;
}

mf_status mf_mesh_deliver(mf_lowering *l, mf_output o, const mf_layout *layout,
                          const mf_mesh_version **out)
{
    const mf_mesh *m = l->sheet->mesh;
    const mf_mesh_version *v = nearest(l, o, layout);
    mf_reduction r;

    if (!v)
        return MF_FAIL(MF_UNIMPLEMENTED, "{{node %s}}: its value cannot be laid out otherwise",
                       o.node->name);
    *out = v;
    if (mf_layout_equal(&v->layout, layout))
        return MF_OK;
    r = mf_reduction_plan(m, &v->layout, layout, &mf_mesh_value_of(l->sheet, o)->shape);
    MF_TRY(reduce(l, o, &r.scattered, r.scatter, true, out));
    MF_TRY(reduce(l, o, &r.reduced, r.all, false, out));
    return move(l, o, layout, out);
}

/* ---- pieces that overlap ---- */

static int64_t boxes_lack(const mf_lowering *l, const mf_layout *have, const mf_shape *shape,
                          const mf_box *boxes)
{
    int64_t sum = 0;

    for (int p = 0; p < l->sheet->mesh->n; p++) {
        const mf_box own = mf_layout_box(l->sheet->mesh, have, shape, p);
        mf_box both;

        sum += mf_box_count(&boxes[p], shape->rank);
        if (mf_box_cut(&own, &boxes[p], shape->rank, &both))
            sum -= mf_box_count(&both, shape->rank);
    }
    return sum;
}

mf_status mf_mesh_deliver_boxes(mf_lowering *l, mf_output o, mf_box *boxes,
                                const mf_mesh_version **out)
{
    const mf_shape *shape = &mf_mesh_value_of(l->sheet, o)->shape;
    const size_t bytes = (size_t)l->sheet->mesh->n * sizeof *boxes;
    const mf_mesh_version *best = NULL;
    int64_t least = 0;
    leg g;

    for (const mf_mesh_version *v = l->versions[o.node->id][o.port]; v; v = v->next) {
        int64_t n;

        if (v->boxes && memcmp(v->boxes, boxes, bytes) == 0) {
            *out = v;
            return MF_OK;
        }
        if (v->boxes || v->layout.partial)
            continue;
        n = boxes_lack(l, &v->layout, shape, boxes);
        if (!best || n < least) {
            best = v;
            least = n;
        }
    }
    if (!best)
        return MF_FAIL(MF_INTERNAL, "{{node %s}}: there is no whole version of it", o.node->name);
    MF_TRY(begin_leg(l, o, best, &best->layout, &g));
    g.to->boxes = boxes;
    for (int i = 0; i < l->n; i++)
        MF_TRY(add_move(&g, i));
    *out = g.to;
    return MF_OK;
}
