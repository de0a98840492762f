/* SPDX-License-Identifier: Apache-2.0 */
/* sharding_table.c - shapes, split rules and preferred layouts of all values of a graph. */
#include "spmd/propagate/sharding_table.h"

#include <string.h>

/* ---- values and nodes ---- */

bool mf_mesh_is_variable(const mf_node *n)
{
    return strcmp(n->op_name, "VarHandleOp") == 0;
}

const char *mf_mesh_variable_name(const mf_node *n)
{
    const char *name = mf_node_string(n, "shared_name");

    return name[0] ? name : n->name;
}

/* Byte counts are added up later: no value may be larger than the address space. */
static mf_status sharding_table_check_size(const mf_node *n, int port, const mf_shape *shape)
{
    double bytes = (double)mf_dtype_cell(mf_type_base(n->out_types[port]));
    char text[MF_SHAPE_TEXT];

    for (int d = 0; d < shape->rank; d++)
        bytes *= shape->dims[d] > 0 ? (double)shape->dims[d] : 1;
    if (bytes <= (double)MF_BUFFER_MOST)
        return MF_OK;
    return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                   "{{node %s}}: output %d of shape %s is larger than any memory", n->name, port,
                   mf_shape_text(shape, text));
}

static mf_status add_values(mf_sharding_table *s, const mf_node *n)
{
    const mf_facts *facts = mf_compile_facts(s->c, n);
    mf_mesh_value *v = MF_ARENA_ARRAY(s->arena, mf_mesh_value, n->n_outputs);

    if (!v)
        return MF_NOMEM("layouts");
    for (int i = 0; i < n->n_outputs; i++) {
        v[i].shape = facts->shapes[i];
        v[i].fixed =
            mf_type_base(n->out_types[i]) == MF_DTYPE_RESOURCE || mf_type_is_ref(n->out_types[i]);
        if (mf_mesh_is_variable(n))
            v[i].shape = *mf_node_shape(n, "shape");
        else if (v[i].fixed) /* queues and references are not split */
            v[i].closed = UINT32_MAX;
        MF_TRY(sharding_table_check_size(n, i, &v[i].shape));
    }
    s->values[n->id] = v;
    return MF_OK;
}

/* Split rules need shapes without unknown dimensions. The gradient of an update is an exception: it
 * may be unknown while only variables are examined. */
static bool sharding_table_is_known(const mf_split *q)
{
    const bool update =
        q->n_in > 0 && q->node->in_types[0] == MF_DTYPE_RESOURCE && mf_shape_is_static(&q->in[0]);

    for (int i = 0; i < q->n_in; i++) {
        if (!update && !mf_shape_is_static(&q->in[i]))
            return false;
    }
    for (int i = 0; i < q->n_out; i++) {
        if (!mf_shape_is_static(&q->out[i]))
            return false;
    }
    return true;
}

static mf_status ask_op(mf_sharding_table *s, const mf_node *n)
{
    mf_split *q = MF_ARENA_NEW(s->arena, mf_split);
    mf_shape *in = MF_ARENA_ARRAY(s->arena, mf_shape, n->n_inputs + 1);
    mf_shape *out = MF_ARENA_ARRAY(s->arena, mf_shape, n->n_outputs + 1);
    const mf_tensor **values = MF_ARENA_ARRAY(s->arena, const mf_tensor *, n->n_inputs + 1);

    if (!q || !in || !out || !values)
        return MF_NOMEM("layouts");
    *q = (mf_split){ .node = n,
                     .n_in = n->n_inputs,
                     .n_out = n->n_outputs,
                     .sizes_input = -1,
                     .index_letter = -1,
                     .index_input = -1,
                     .count_input = -1,
                     .rows_input = -1 };
    q->in_dims = MF_ARENA_ARRAY(s->arena, mf_split_shape, n->n_inputs + 1);
    q->out_dims = MF_ARENA_ARRAY(s->arena, mf_split_shape, n->n_outputs + 1);
    if (!q->in_dims || !q->out_dims)
        return MF_NOMEM("layouts");
    for (int i = 0; i < n->n_inputs; i++) {
        in[i] = mf_mesh_value_of(s, n->inputs[i])->shape;
        values[i] = mf_compile_facts(s->c, n->inputs[i].node)->values[n->inputs[i].port];
    }
    for (int i = 0; i < n->n_outputs; i++)
        out[i] = s->values[n->id][i].shape;
    for (int d = 0; d < MF_MAX_RANK; d++) {
        for (int i = 0; i < n->n_inputs; i++)
            q->in_dims[i].dims[d].letter = -1;
        for (int i = 0; i < n->n_outputs; i++)
            q->out_dims[i].dims[d].letter = -1;
    }
    q->in = in;
    q->out = out;
    q->in_value = values;
    if (!sharding_table_is_known(q))
        return MF_OK;
    mf_op_split(n->op)(q);
    s->splits[n->id] = q;
    return MF_OK;
}

mf_status mf_sharding_table_init(mf_sharding_table *s, const mf_meshes *meshes, mf_compile *c)
{
    *s = (mf_sharding_table){ .meshes = meshes, .c = c, .arena = c->graph->arena, .chunks = 1 };
    s->values = MF_ARENA_ARRAY(s->arena, mf_mesh_value *, c->graph->n_nodes + 1);
    s->splits = MF_ARENA_ARRAY(s->arena, mf_split *, c->graph->n_nodes + 1);
    s->is_used = MF_ARENA_ARRAY(s->arena, bool, c->graph->n_nodes + 1);
    s->where = MF_ARENA_ARRAY(s->arena, uint32_t, c->graph->n_nodes + 1);
    if (!s->values || !s->splits || !s->is_used || !s->where)
        return MF_NOMEM("layouts");
    MF_TRY(mf_compile_order(c, &s->order, &s->n));
    for (int64_t i = 0; i < s->n; i++) {
        const mf_node *n = s->order[i];

        if (n->op && n->op->control == MF_CONTROL_NEXT)
            return MF_FAIL(MF_UNIMPLEMENTED, "{{node %s}}: loops are not supported on a mesh",
                           n->name);
        s->where[n->id] = 1;
        for (int k = 0; k < n->n_inputs; k++)
            s->is_used[n->inputs[k].node->id] = true;
        for (int k = 0; k < n->n_controls; k++)
            s->is_used[n->controls[k]->id] = true;
        MF_TRY(add_values(s, n));
        if (n->op && mf_op_split(n->op))
            MF_TRY(ask_op(s, n));
    }
    return MF_OK;
}

void mf_sharding_table_deinit(mf_sharding_table *s)
{
    mf_free(s->order);
    s->order = NULL;
}

/* ---- initial layouts ---- */

void mf_mesh_fix(mf_sharding_table *s, mf_output o, const mf_layout *layout)
{
    mf_mesh_value *v = mf_mesh_value_of(s, o);

    v->layout = *layout;
    v->closed = UINT32_MAX;
}

static mf_status pin_dim(mf_mesh_value *v, int d, mf_axes axes, const mf_mesh *m,
                         const mf_node *named)
{
    const mf_axes twice = axes & mf_layout_cuts(&v->layout, v->shape.rank);

    if (twice)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "{{node %s}}: two of its dimensions are split along the axis '%s'",
                       named->name, m->name[__builtin_ctz(twice)]);
    v->closed |= (uint32_t)1 << d;
    if (axes)
        v->layout.dims[d] = (mf_layout_dim){ axes, 1 };
    return MF_OK;
}

mf_status mf_mesh_pin(mf_sharding_table *s, mf_output o, const mf_node *named,
                      const mf_layout_rules *rules)
{
    const mf_attr *names = mf_node_attr(named, MF_DIMS_ATTR);
    const mf_mesh *m = &s->meshes->at[mf_mesh_home(s, o.node)];
    mf_mesh_value *v = mf_mesh_value_of(s, o);

    if (!names || v->shape.rank < 0)
        return MF_OK;
    if (names->kind != MF_ATTR_STRING || !names->is_list || names->n != v->shape.rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "{{node %s}}: %lld dimension names are given, but it has %d dimensions",
                       named->name, (long long)names->n, v->shape.rank);
    for (int d = 0; d < v->shape.rank; d++) {
        if (names->strings[d].len > 0)
            MF_TRY(pin_dim(v, d, mf_layout_rules_find(rules, m, names->strings[d].data), m, named));
    }
    return MF_OK;
}

mf_status mf_mesh_pin_names(mf_sharding_table *s, const mf_layout_rules *rules)
{
    for (int64_t i = 0; i < s->n; i++) {
        mf_node *n = s->order[i];

        if (n->n_outputs == 1 && !(s->values[n->id][0].closed))
            MF_TRY(mf_mesh_pin(s, (mf_output){ n, 0 }, n, rules));
    }
    return MF_OK;
}
