/* SPDX-License-Identifier: Apache-2.0 */
/* cross_mesh.c - values that move from one mesh of a job to another: each device sends its part to
 * the devices that need it. */
#include "spmd/lower/reshard_step.h"

/* No node here consumes a send, so the end of the run waits for it. */
static mf_status note_sending(const mf_lowering *l, int i, mf_node *sending)
{
    const mf_node_spec spec = { .name = MF_MESH_SENT, .op = "NoOp" };

    if (!l->ends[i])
        MF_TRY(mf_graph_add(l->graphs[i], &spec, &l->ends[i]));
    mf_control(l->graphs[i], l->ends[i], sending);
    return mf_graph_status(l->graphs[i]);
}

static mf_status add_send(const mf_reshard_step *g, int i, const mf_reshard_plan *move,
                          mf_output in, mf_node *after)
{
    const int rank = g->shape->rank;
    const mf_box box = mf_reshard_step_box(g, g->from, g->l->devices[i]);
    mf_shape shape = mf_box_shape(&box, rank);
    mf_named_attr attrs[] = { { "to", { 0 } },
                              { "send", { 0 } },
                              { "id", mf_int_attr(g->id) },
                              { "from_shape", mf_shape_attr(&shape) } };
    mf_node *node;

    if (move->n_send == 0) /* this device has nothing to send; other devices may */
        return note_sending(g->l, i, after ? after : in.node);
    MF_TRY(mf_reshard_step_write_boxes(g->scratch, move->send, move->n_send, rank, &attrs[0].value,
                                       &attrs[1].value));
    MF_TRY(mf_reshard_step_add(g, i, "_MeshSend", &in, 1, attrs, MF_COUNT(attrs), &node));
    if (after)
        mf_control(g->l->graphs[i], node, after);
    return note_sending(g->l, i, node);
}

static mf_status add_receive(const mf_reshard_step *g, int i, const mf_reshard_plan *move)
{
    const int rank = g->shape->rank;
    const mf_box box = mf_reshard_step_box(g, g->to, g->l->devices[i]);
    mf_shape shape = mf_box_shape(&box, rank);
    mf_named_attr attrs[] = { { "from", { 0 } },
                              { "receive", { 0 } },
                              { "T", { .kind = MF_ATTR_TYPE, .n = 1, .type = g->type } },
                              { "id", mf_int_attr(g->id) },
                              { "shape", mf_shape_attr(&shape) } };

    for (int k = 0; k < move->n_receive; k++)
        mf_reshard_step_count(g, i, mf_box_count(&move->receive[k].box, rank));
    MF_TRY(mf_reshard_step_write_boxes(g->scratch, move->receive, move->n_receive, rank,
                                       &attrs[0].value, &attrs[1].value));
    return mf_reshard_step_make(g, i, "_MeshReceive", NULL, 0, attrs, MF_COUNT(attrs));
}

/* Adds the sends and receives of a local device of either mesh. */
static mf_status pass(const mf_reshard_step *g, int i, mf_output in, mf_node *after)
{
    const mf_cross_mesh c = { &g->l->table->meshes->at[g->from->mesh], g->m, &g->from->layout,
                              &g->to->layout, g->shape };
    mf_reshard_plan move;

    MF_TRY(mf_cross_mesh_plan(&c, g->l->devices[i], g->scratch, &move));
    return mf_mesh_has(c.a, g->l->devices[i]) ? add_send(g, i, &move, in, after)
                                              : add_receive(g, i, &move);
}

/* A consumer on another mesh would wait forever for a value of a branch that is not taken. */
static mf_status check_crossing(const mf_lowering *l, const mf_node *n, int from, int to)
{
    if (l->branches[n->id] > 0)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "{{node %s}}: it is in a conditional branch, and mesh %d needs it from "
                       "mesh %d: put the whole branch on one mesh (mf_put_on_mesh)",
                       n->name, to, from);
    return MF_OK;
}

/* ---- values ---- */

/* A version that is not partial; NULL: none. */
static const mf_mesh_version *remote_version(const mf_lowering *l, mf_output o)
{
    const mf_mesh_version *best = NULL;

    for (const mf_mesh_version *v = l->versions[o.node->id][o.port]; v; v = v->next) {
        if (!v->boxes && (!best || (best->layout.partial && !v->layout.partial)))
            best = v;
    }
    return best;
}

static mf_status pass_value(const mf_reshard_step *g, int i)
{
    return pass(g, i, g->from->at[i], NULL);
}

mf_status mf_mesh_cross(mf_lowering *l, mf_output o, int mesh, const mf_layout *layout,
                        const mf_mesh_version **out)
{
    const mf_mesh_value *value = mf_mesh_value_of(l->table, o);
    const mf_mesh_version *v = remote_version(l, o);
    mf_reshard_step g;

    if (!v || v->mesh == mesh || value->fixed || layout->partial ||
        !mf_shape_is_static(&value->shape))
        return MF_FAIL(MF_UNIMPLEMENTED, "{{node %s}}: its value cannot have another layout",
                       o.node->name);
    MF_TRY(check_crossing(l, o.node, v->mesh, mesh));
    MF_TRY(mf_reshard_step_reduce(l, o, &v));
    MF_TRY(mf_reshard_step_begin(l, o, v, mesh, layout, &g));
    MF_TRY(mf_reshard_step_everywhere(&g, pass_value));
    *out = g.to;
    return MF_OK;
}

/* ---- signals ---- */

/* A scalar that is sent once the node has run. */
static mf_status pass_signal(const mf_reshard_step *g, int i)
{
    mf_node *copy = g->l->copies[g->o.node->id][i];

    return pass(g, i, copy ? mf_scalar(g->l->graphs[i], MF_DTYPE_I32, 0) : (mf_output){ 0 }, copy);
}

mf_status mf_reshard_signal(mf_lowering *l, mf_node *n, int mesh, const mf_mesh_version **out)
{
    static const mf_shape scalar;
    static const mf_layout whole;
    const mf_mesh_version from = { .mesh = mf_mesh_home(l->table, n) };
    mf_reshard_step g = { .l = l,
                          .o = { n, 0 },
                          .type = MF_DTYPE_I32,
                          .m = &l->table->meshes->at[mesh],
                          .shape = &scalar,
                          .from = &from };

    for (const mf_mesh_version *v = l->signals[n->id]; v; v = v->next) {
        if (v->mesh == mesh) {
            *out = v;
            return MF_OK;
        }
    }
    MF_TRY(check_crossing(l, n, from.mesh, mesh));
    g.id = l->next_id++;
    MF_TRY(mf_reshard_step_version(l, mesh, &whole, &l->signals[n->id], &g.to));
    MF_TRY(mf_reshard_step_everywhere(&g, pass_signal));
    *out = g.to;
    return MF_OK;
}
