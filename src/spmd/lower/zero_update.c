/* SPDX-License-Identifier: Apache-2.0 */
/* zero_update.c - lowers optimizer updates with sharded slots (ZeRO 1 and 2). An update becomes
 *
 *     copy = weight                    (each device slices it)
 *     update(copy, slots, gradient)    (the gradient is reduce-scattered)
 *     weight = copy                    (all-gather)
 *
 * The copy is a variable with the slot's name in a container of its own, so it has the slot's
 * layout. */
#include "spmd/lower/zero_update.h"

#include <string.h>

/* With slots or without. */
static bool is_any_update(const mf_node *n)
{
    return strncmp(n->op_name, "ResourceApply", 13) == 0 ||
           strncmp(n->op_name, "ResourceSparseApply", 19) == 0;
}

bool mf_mesh_is_update(const mf_node *n)
{
    return is_any_update(n) && n->n_inputs > 1 && n->in_types[1] == MF_DTYPE_RESOURCE;
}

/* ---- the graph ---- */

static const mf_mesh_variable *variable_of(const mf_mesh_variables *known, mf_output o)
{
    return mf_mesh_is_variable(o.node) ? mf_map_find(&known->layouts, mf_mesh_variable_name(o.node))
                                       : NULL;
}

static mf_output assign(mf_graph *g, mf_output variable, mf_output value)
{
    return mf_apply(g, "AssignVariableOp", MF_IN(variable, value));
}

/* The weight's value just before the update, in a variable with the slot's layout. */
static mf_output copy_weight(mf_graph *g, const mf_node *n, const mf_mesh_variable *slot,
                             mf_node **done)
{
    const char *type = mf_dtype_name(mf_node_type(n->inputs[0].node, "dtype"));
    char shape[MF_SHAPE_TEXT];
    const mf_output copy = mf_applyf(g, "VarHandleOp", MF_NO_IN,
                                     "dtype=%s shape=shape%s container='_slices' shared_name='%s'",
                                     type, mf_shape_text(&slot->shape, shape), slot->name);
    const mf_output value = mf_applyf(g, "ReadVariableOp", MF_IN(n->inputs[0]), "dtype=%s", type);

    for (int k = 0; value.node && k < n->n_controls; k++)
        mf_control(g, value.node, n->controls[k]);
    *done = assign(g, copy, value).node;
    return copy;
}

/* The same update, applied to the copy. */
static mf_status update_copy(mf_graph *g, const mf_node *n, mf_output copy, mf_node *copied,
                             mf_node **out)
{
    mf_output *in = MF_ARENA_ARRAY(g->arena, mf_output, n->n_inputs);
    const mf_node_spec spec = { .name = mf_graph_unique_name(g, n->name),
                                .op = n->op_name,
                                .device = n->device,
                                .inputs = in,
                                .n_inputs = n->n_inputs,
                                .controls = n->controls,
                                .n_controls = n->n_controls,
                                .attrs = n->attrs,
                                .n_attrs = n->n_attrs };

    if (!in || !spec.name)
        return MF_NOMEM("an update");
    memcpy(in, n->inputs, (size_t)n->n_inputs * sizeof *in);
    in[0] = copy;
    MF_TRY(mf_graph_add(g, &spec, out));
    mf_control(g, *out, copied);
    return mf_graph_status(g);
}

/* The old update node becomes the last one of the new sequence, so its successors still wait for
 * it. */
static mf_status zero_update_slice(mf_graph *g, mf_node *n, const mf_mesh_variable *slot)
{
    const mf_dtype type = mf_node_type(n->inputs[0].node, "dtype");
    mf_node *copied, *updated;
    const mf_output copy = copy_weight(g, n, slot, &copied);
    const mf_named_attr attrs[] = { { "dtype", { .kind = MF_ATTR_TYPE, .n = 1, .type = type } } };
    mf_output in[2] = { n->inputs[0] }, gone;
    mf_node_spec spec = { .op = "AssignVariableOp",
                          .device = n->device,
                          .inputs = in,
                          .n_inputs = 2,
                          .controls = &gone.node,
                          .n_controls = 1,
                          .attrs = attrs,
                          .n_attrs = 1 };

    MF_TRY(mf_graph_status(g));
    MF_TRY(update_copy(g, n, copy, copied, &updated));
    in[1] = mf_applyf(g, "ReadVariableOp", MF_IN(copy), "dtype=%s", mf_dtype_name(type));
    gone = mf_apply(g, "DestroyResourceOp", MF_IN(copy));
    MF_TRY(mf_graph_status(g));
    mf_control(g, in[1].node, updated);
    mf_control(g, gone.node, in[1].node);
    MF_TRY(mf_graph_status(g));
    return mf_node_become(g, n, &spec);
}

mf_status mf_mesh_update_slices(mf_compile *c, const mf_mesh_variables *known)
{
    const int64_t n_nodes = c->graph->n_nodes;

    for (int64_t i = 0; i < n_nodes; i++) {
        mf_node *n = c->graph->nodes[i];
        const mf_mesh_variable *weight, *slot;

        if (n->removed || !mf_mesh_is_update(n))
            continue;
        weight = variable_of(known, n->inputs[0]);
        slot = variable_of(known, n->inputs[1]);
        if (weight && slot && mf_shape_equal(&weight->shape, &slot->shape) &&
            !mf_layout_equal(&weight->layout, &slot->layout))
            MF_TRY(zero_update_slice(c->graph, n, slot));
    }
    return MF_OK;
}

/* ---- preferred layouts ---- */

/* Sets the preferred layout without propagating it. */
static void set_preferred_layout(mf_mesh_value *v, const mf_mesh_value *like)
{
    if (v->fixed || v->closed || v->stored || !mf_shape_equal(&v->shape, &like->shape))
        return;
    v->layout = like->layout;
    v->stored = like->stored;
}

/* True if every dimension of this input is the same dimension of output 0. */
static bool keeps_dims(const mf_split *q, int input)
{
    for (int d = 0; d < q->out[0].rank; d++) {
        if (q->out_dims[0].dims[d].letter < 0 ||
            q->in_dims[input].dims[d].letter != q->out_dims[0].dims[d].letter)
            return false;
    }
    return q->in[input].rank == q->out[0].rank;
}

/* From updates back to the ops that compute gradients. */
void mf_relayout_request_slices(const mf_sharding_table *s)
{
    for (int64_t i = s->n - 1; i >= 0; i--) {
        const mf_node *n = s->order[i];
        const mf_split *q = s->splits[n->id];
        const bool update = is_any_update(n);
        const mf_mesh_value *like = update             ? mf_mesh_value_of(s, n->inputs[0])
                                    : n->n_outputs > 0 ? &s->values[n->id][0]
                                                       : NULL;

        if (!q || !like || !like->stored || (!update && like->fixed))
            continue;
        for (int k = 0; k < n->n_inputs; k++) {
            if (update || keeps_dims(q, k))
                set_preferred_layout(mf_mesh_value_of(s, n->inputs[k]), like);
        }
    }
}
