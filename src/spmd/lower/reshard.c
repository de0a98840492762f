/* SPDX-License-Identifier: Apache-2.0 */
/* reshard.c - other layouts of a value: the ops that reduce and move its shards. Each version is
 * made once, from the version that is cheapest to convert. */
#include "base/log.h"
#include "graph/shard.h"
#include "spmd/lower/reshard_step.h"

#include <stdio.h>
#include <string.h>

/* Every device already holds its new block: slice it. */
static mf_status reshard_add_slice(const mf_reshard_step *g, int i)
{
    const int p = g->l->devices[i], rank = g->shape->rank;
    const mf_box from = mf_reshard_step_box(g, g->from, p), to = mf_reshard_step_box(g, g->to, p);
    mf_graph *graph = g->l->graphs[i];
    int64_t begin[MF_MAX_RANK];
    mf_output in[3] = { g->from->at[i] };

    for (int d = 0; d < rank; d++) /* an empty block may have no valid offset */
        begin[d] = to.size[d] > 0 ? to.begin[d] - from.begin[d] : 0;
    in[1] = mf_ints(graph, begin, rank);
    in[2] = mf_ints(graph, to.size, rank);
    MF_TRY(mf_graph_status(graph));
    return mf_reshard_step_make(g, i, "Slice", in, 3, NULL, 0);
}

static mf_status add_move(const mf_reshard_step *g, int i)
{
    const mf_mesh *m = g->m;
    mf_arena *arena = g->scratch;
    const int p = g->l->devices[i], rank = g->shape->rank;
    const mf_box from = mf_reshard_step_box(g, g->from, p);
    int64_t keep[3 * MF_MAX_RANK];
    mf_shape before = mf_box_shape(&from, rank),
             after = mf_box_shape(&g->boxes[p - g->m->first], rank);
    mf_named_attr attrs[9] = {
        { "to", { 0 } }, { "send", { 0 } }, { "from", { 0 } }, { "receive", { 0 } }
    };
    mf_reshard_plan move;

    MF_TRY(mf_reshard_plan_make(m, &g->from->layout, g->shape, g->boxes, p, arena, &move));
    for (int k = 0; k < move.n_receive; k++)
        mf_reshard_step_count(g, i, mf_box_count(&move.receive[k].box, rank));
    memcpy(keep, move.keep_from.begin, (size_t)rank * sizeof *keep);
    memcpy(keep + rank, move.keep_to.begin, (size_t)rank * sizeof *keep);
    memcpy(keep + 2 * rank, move.keep_to.size, (size_t)rank * sizeof *keep);
    MF_TRY(mf_reshard_step_write_boxes(arena, move.send, move.n_send, rank, &attrs[0].value,
                                       &attrs[1].value));
    MF_TRY(mf_reshard_step_write_boxes(arena, move.receive, move.n_receive, rank, &attrs[2].value,
                                       &attrs[3].value));
    attrs[4] = (mf_named_attr){ "id", mf_int_attr(g->id) };
    attrs[5] = (mf_named_attr){ "from_shape", mf_shape_attr(&before) };
    attrs[6] = (mf_named_attr){ "shape", mf_shape_attr(&after) };
    attrs[7] = (mf_named_attr){ "keep", mf_ints_attr(keep, move.keeps ? 3 * rank : 0) };
    attrs[8] = (mf_named_attr){ "keeps", { .kind = MF_ATTR_BOOL, .n = 1, .b = move.keeps } };
    return mf_reshard_step_make(g, i, "_MeshMove", &g->from->at[i], 1, attrs, MF_COUNT(attrs));
}

/* Elements that member `index` of n receives to obtain `count` elements of the sum: see
 * ops/dist/mesh_reduce.c. */
static int64_t reduce_receives(int64_t count, int n, int index, bool scatter)
{
    const int64_t piece = mf_shard_begin(count, n, index + 1) - mf_shard_begin(count, n, index);

    if (scatter || count <= MF_REDUCE_DIRECT)
        return count * (n - 1);
    return piece * (n - 1) + count - piece;
}

static mf_status reshard_add_reduce(const mf_reshard_step *g, int i)
{
    const mf_mesh *m = g->m;
    const mf_axes axes = g->axes;
    mf_arena *arena = g->scratch;
    const int p = g->l->devices[i], rank = g->shape->rank, n = mf_mesh_count(m, axes);
    int64_t *members = MF_ARENA_ARRAY(arena, int64_t, n);
    mf_reshard_part *pieces = MF_ARENA_ARRAY(arena, mf_reshard_part, n);
    const mf_box from = mf_reshard_step_box(g, g->from, p), to = mf_reshard_step_box(g, g->to, p);
    mf_shape before = mf_box_shape(&from, rank), after = mf_box_shape(&to, rank);
    mf_attr peers, boxes = { 0 };

    if (!members || !pieces)
        return MF_NOMEM("a sum");
    for (int k = 0; k < n; k++) {
        members[k] = mf_mesh_nth(m, axes, p, k);
        pieces[k] =
            (mf_reshard_part){ (int)members[k], mf_reshard_step_box(g, g->to, (int)members[k]) };
        for (int d = 0; d < rank; d++)
            pieces[k].box.begin[d] =
                pieces[k].box.size[d] > 0 ? pieces[k].box.begin[d] - from.begin[d] : 0;
    }
    mf_reshard_step_count(
        g, i, reduce_receives(mf_box_count(&to, rank), n, mf_mesh_index(m, axes, p), g->scatter));
    MF_TRY(mf_reshard_step_write_boxes(arena, pieces, g->scatter ? n : 0, rank, &peers, &boxes));
    {
        const mf_named_attr attrs[] = {
            { "id", mf_int_attr(g->id) },
            { "from_shape", mf_shape_attr(&before) },
            { "shape", mf_shape_attr(&after) },
            { "members", mf_ints_attr(members, n) },
            { "index", mf_int_attr(mf_mesh_index(m, axes, p)) },
            { "boxes", boxes },
            { "how", mf_int_attr(g->from->layout.how) },
            { "direct", mf_int_attr(MF_REDUCE_DIRECT) },
        };

        return mf_reshard_step_make(g, i, "_MeshReduce", &g->from->at[i], 1, attrs,
                                    MF_COUNT(attrs));
    }
}

static void reshard_explain(const mf_reshard_step *g, const mf_layout *to)
{
    const mf_mesh *m = g->m;
    char a[MF_LAYOUT_TEXT], b[MF_LAYOUT_TEXT], shape[MF_SHAPE_TEXT];

    if (mf_log_wants(MF_LOG_DEBUG) && g->m == &g->l->table->meshes->at[g->from->mesh])
        MF_LOG(MF_LOG_DEBUG, "move %s %s: %s => %s, %lld elements", g->o.node->name,
               mf_shape_text(g->shape, shape),
               mf_layout_text(m, &g->from->layout, g->shape->rank, a),
               mf_layout_text(m, to, g->shape->rank, b),
               (long long)mf_reshard_elements(m, &g->from->layout, g->shape, to));
}

mf_status mf_reshard_step_begin(mf_lowering *l, mf_output o, const mf_mesh_version *from, int mesh,
                                const mf_layout *to, mf_reshard_step *g)
{
    *g = (mf_reshard_step){ .l = l,
                            .o = o,
                            .type = mf_type_base(o.node->out_types[o.port]),
                            .m = &l->table->meshes->at[mesh],
                            .shape = &mf_mesh_value_of(l->table, o)->shape,
                            .from = from,
                            .id = l->next_id++ };
    reshard_explain(g, to);
    return mf_mesh_add_version(l, o, mesh, to, &g->to);
}

static mf_status add_moves(mf_reshard_step *g)
{
    const int n = g->m->n;
    mf_status st;

    g->boxes = mf_calloc(n, sizeof *g->boxes);
    if (!g->boxes)
        return MF_NOMEM("a new layout");
    for (int p = 0; p < n; p++)
        g->boxes[p] = mf_reshard_step_box(g, g->to, g->m->first + p);
    st = mf_reshard_step_everywhere(g, add_move);
    mf_free(g->boxes);
    return st;
}

static mf_status reshard_reduce(mf_lowering *l, mf_output o, const mf_layout *to, mf_axes axes,
                                bool scatter, const mf_mesh_version **v)
{
    mf_reshard_step g;

    if (!axes)
        return MF_OK;
    MF_TRY(mf_reshard_step_begin(l, o, *v, (*v)->mesh, to, &g));
    g.axes = axes;
    g.scatter = scatter;
    MF_TRY(mf_reshard_step_everywhere(&g, reshard_add_reduce));
    *v = g.to;
    return MF_OK;
}

static mf_status reshard_move(mf_lowering *l, mf_output o, const mf_layout *to,
                              const mf_mesh_version **v)
{
    const mf_shape *shape = &mf_mesh_value_of(l->table, o)->shape;
    const bool local =
        mf_reshard_is_local(&l->table->meshes->at[(*v)->mesh], &(*v)->layout, shape, to);
    mf_reshard_step g;

    if (mf_layout_equal(&(*v)->layout, to))
        return MF_OK;
    MF_TRY(mf_reshard_step_begin(l, o, *v, (*v)->mesh, to, &g));
    MF_TRY(local ? mf_reshard_step_everywhere(&g, reshard_add_slice) : add_moves(&g));
    *v = g.to;
    return MF_OK;
}

/* ---- conversion ---- */

/* The cheapest version on this mesh; NULL: none can be converted. */
static const mf_mesh_version *reshard_nearest(const mf_lowering *l, mf_output o, int mesh,
                                              const mf_layout *to)
{
    const mf_mesh_value *value = mf_mesh_value_of(l->table, o);
    const mf_mesh_version *best = NULL;
    int64_t least = 0;

    for (const mf_mesh_version *v = l->versions[o.node->id][o.port]; v; v = v->next) {
        int64_t n;

        if (v->boxes || v->mesh != mesh)
            continue;
        if (mf_layout_equal(&v->layout, to))
            return v;
        if (to->partial || value->fixed || !mf_shape_is_static(&value->shape))
            continue;
        n = mf_reshard_elements(&l->table->meshes->at[mesh], &v->layout, &value->shape, to);
        if (!best || n < least) {
            best = v;
            least = n;
        }
    }
    return best;
}

static const mf_layout WHOLE;

/* Makes the sums that the layout requires. */
static mf_status reduce_to(mf_lowering *l, mf_output o, const mf_layout *layout,
                           const mf_mesh_version **v)
{
    const mf_reduction r = mf_reduction_plan(&l->table->meshes->at[(*v)->mesh], &(*v)->layout,
                                             layout, &mf_mesh_value_of(l->table, o)->shape);

    MF_TRY(reshard_reduce(l, o, &r.scattered, r.scatter, true, v));
    return reshard_reduce(l, o, &r.reduced, r.all, false, v);
}

mf_status mf_reshard_step_reduce(mf_lowering *l, mf_output o, const mf_mesh_version **v)
{
    mf_layout sums = (*v)->layout;

    sums.partial = 0;
    return reduce_to(l, o, &sums, v);
}

mf_status mf_reshard(mf_lowering *l, mf_output o, int mesh, const mf_layout *layout,
                     const mf_mesh_version **out)
{
    const mf_mesh_version *v = reshard_nearest(l, o, mesh, layout);

    if (!v)
        return mf_mesh_cross(l, o, mesh, layout, out);
    *out = v;
    if (mf_layout_equal(&v->layout, layout))
        return MF_OK;
    MF_TRY(reduce_to(l, o, layout, out));
    return reshard_move(l, o, layout, out);
}

/* ---- overlapping windows ---- */

static int64_t missing_box_elements(const mf_mesh *m, const mf_layout *have, const mf_shape *shape,
                                    const mf_box *boxes)
{
    int64_t sum = 0;

    for (int p = 0; p < m->n; p++) {
        const mf_box own = mf_layout_box(m, have, shape, m->first + p);
        mf_box both;

        sum += mf_box_count(&boxes[p], shape->rank);
        if (mf_box_cut(&own, &boxes[p], shape->rank, &both))
            sum -= mf_box_count(&both, shape->rank);
    }
    return sum;
}

static mf_status find_for_boxes(mf_lowering *l, mf_output o, int mesh, const mf_box *boxes,
                                const mf_mesh_version **out)
{
    const mf_mesh_value *value = mf_mesh_value_of(l->table, o);
    const mf_mesh *m = &l->table->meshes->at[mesh];
    const mf_mesh_version *best = NULL;
    int64_t least = 0;

    for (const mf_mesh_version *v = l->versions[o.node->id][o.port]; v; v = v->next) {
        int64_t n;

        if (v->mesh != mesh || v->boxes || v->layout.partial)
            continue;
        n = missing_box_elements(m, &v->layout, &value->shape, boxes);
        if (!best || n < least) {
            best = v;
            least = n;
        }
    }
    *out = best;
    if (best)
        return MF_OK;
    return mf_reshard(l, o, mesh, mf_mesh_layout_applies(l->table, o, m) ? &value->layout : &WHOLE,
                      out);
}

mf_status mf_reshard_boxes(mf_lowering *l, mf_output o, int mesh, mf_box *boxes,
                           const mf_mesh_version **out)
{
    const size_t bytes = (size_t)l->table->meshes->at[mesh].n * sizeof *boxes;
    const mf_mesh_version *from;
    mf_reshard_step g;

    for (const mf_mesh_version *v = l->versions[o.node->id][o.port]; v; v = v->next) {
        if (v->mesh == mesh && v->boxes && memcmp(v->boxes, boxes, bytes) == 0) {
            *out = v;
            return MF_OK;
        }
    }
    MF_TRY(find_for_boxes(l, o, mesh, boxes, &from));
    MF_TRY(mf_reshard_step_begin(l, o, from, mesh, &from->layout, &g));
    g.to->boxes = boxes;
    MF_TRY(add_moves(&g));
    *out = g.to;
    return MF_OK;
}
