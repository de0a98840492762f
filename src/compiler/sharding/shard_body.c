/* SPDX-License-Identifier: Apache-2.0 */
/* shard_body.c - copies the body of a mapped function: some nodes once for the full batch, others
 * once per shard; and joins the results. */
#include "base/log.h"
#include "compiler/sharding/shard_map.h"
#include "graph/function.h"

#include <string.h>

/* The copies of a node of the body. */
typedef struct mf_emitted {
    mf_spread *spread; /* by port */
    mf_output *whole; /* by port: for the full batch; NULL: none */
    mf_output **part; /* by shard: NULL (not copied yet), or by port */
    /* After the ports follows one more: the node itself, for control edges; empty if there is no
     * single node. */
} mf_emitted;

static bool shard_body_is_op(const mf_node *n, const char *name)
{
    return strcmp(n->op_name, name) == 0;
}

/* There is more than one shard, though perhaps not in this micro-batch. */
static bool shard_body_is_cut(const mf_shard_map *m)
{
    return mf_node_int(m->node, "shards") > 1;
}

/* ---- new nodes ---- */

mf_status mf_shard_node(mf_shard_map *m, const char *op, const mf_output *in, int n_in,
                        const mf_named_attr *attrs, int n_attrs, mf_output *out)
{
    mf_node *node;

    MF_TRY(mf_inline_node(m->c, m->node->name, op, in, n_in, attrs, n_attrs, &node));
    *out = (mf_output){ node, 0 };
    return MF_OK;
}

/* The rows of shard s: k for each sample. */
static mf_status shard_body_rows_of(mf_shard_map *m, mf_output x, int64_t k, int64_t s,
                                    mf_output *out)
{
    const mf_named_attr attrs[] = { { "from", mf_shard_int(k * mf_shard_map_begin(m, s)) },
                                    { "to", mf_shard_int(k * mf_shard_map_begin(m, s + 1)) } };

    return mf_shard_node(m, "_Rows", &x, 1, attrs, 2, out);
}

static mf_status add_controls(mf_shard_map *m, const mf_node *n, mf_node *twin, int64_t shard)
{
    for (int i = 0; i < n->n_controls; i++) {
        const mf_emitted *e = &m->done[n->controls[i]->id];

        const int node = n->controls[i]->n_outputs;

        if (e->whole)
            mf_control(m->c->graph, twin, e->whole[node].node);
        for (int64_t s = 0; e->part && s < m->shards; s++) {
            if (e->part[s] && (shard < 0 || shard == s))
                mf_control(m->c->graph, twin, e->part[s][node].node);
        }
    }
    if (m->pivot && n->n_inputs == 0)
        mf_control(m->c->graph, twin, m->pivot);
    return mf_graph_status(m->c->graph);
}

/* ---- a node for one shard ---- */

static mf_status part_of_node(mf_shard_map *m, const mf_node *n, int64_t s);

/* An output of the body, for shard s. */
static mf_status shard_body_part_of(mf_shard_map *m, mf_output o, int64_t s, mf_output *out)
{
    mf_emitted *e = &m->done[o.node->id];

    if (e->spread[o.port] == MF_SHARED) {
        *out = e->whole[o.port];
        return MF_OK;
    }
    MF_TRY(part_of_node(m, o.node, s));
    if (e->spread[o.port] == MF_ROWS && !e->part[s][o.port].node) {
        const mf_shape *shape = &mf_compile_facts(&m->facts, o.node)->shapes[o.port];

        MF_TRY(shard_body_rows_of(m, e->whole[o.port], shape->dims[0] / m->samples, s,
                                  &e->part[s][o.port]));
    }
    *out = e->part[s][o.port];
    return MF_OK;
}

/* Gradients of filters are computed per shard as one piece, also when the full batch is computed at
 * once. */
static mf_status mark_part(mf_shard_map *m, const mf_node *n, mf_node *twin)
{
    const mf_attr one = mf_shard_int(1);

    if (!shard_body_is_op(n, "Conv2DBackpropFilter") || !shard_body_is_cut(m))
        return MF_OK;
    return mf_node_set_attr(m->c->graph, twin, "_shards", &one);
}

/* Sets done[].part[s]. Values in rows are sliced on demand. */
static mf_status part_of_node(mf_shard_map *m, const mf_node *n, int64_t s)
{
    mf_emitted *e = &m->done[n->id];
    const mf_inline_place *before;
    mf_output *in;
    mf_node *twin;

    if (e->part[s])
        return MF_OK;
    e->part[s] = MF_ARENA_ARRAY(m->arena, mf_output, n->n_outputs + 1);
    in = MF_ARENA_ARRAY(m->arena, mf_output, n->n_inputs);
    if (!e->part[s] || !in)
        return MF_NOMEM("shards");
    if (n->n_outputs > 0 && e->spread[0] == MF_ROWS)
        return MF_OK;
    for (int i = 0; i < n->n_inputs; i++)
        MF_TRY(shard_body_part_of(m, n->inputs[i], s, &in[i]));
    before = mf_inline_enter(m->c, m->part_place[s]);
    MF_TRY(mf_inline_clone(m->c, n, m->part_name[s], m->node->device, in, &twin));
    (void)mf_inline_enter(m->c, before);
    for (int i = 0; i <= n->n_outputs; i++)
        e->part[s][i] = (mf_output){ twin, i };
    MF_TRY(mark_part(m, n, twin));
    return add_controls(m, n, twin, s);
}

static mf_status emit_parts(mf_shard_map *m, const mf_node *n)
{
    for (int i = 0; i < n->n_outputs; i++)
        m->done[n->id].spread[i] = MF_IOVEC;
    for (int64_t s = 0; s < m->shards; s++)
        MF_TRY(part_of_node(m, n, s));
    return MF_OK;
}

/* ---- a node for the full batch ---- */

static mf_status emit_whole(mf_shard_map *m, const mf_node *n, mf_spread spread, mf_node **twin)
{
    mf_emitted *e = &m->done[n->id];
    const mf_inline_place *before;
    mf_output *in = MF_ARENA_ARRAY(m->arena, mf_output, n->n_inputs);

    for (int i = 0; i < n->n_outputs; i++)
        e->spread[i] = spread;
    e->whole = MF_ARENA_ARRAY(m->arena, mf_output, n->n_outputs + 1);
    if (!e->whole || !in)
        return MF_NOMEM("shards");
    for (int i = 0; i < n->n_inputs; i++)
        in[i] = m->done[n->inputs[i].node->id].whole[n->inputs[i].port];
    before = mf_inline_enter(m->c, m->whole_place);
    MF_TRY(mf_inline_clone(m->c, n, m->whole_name, m->node->device, in, twin));
    (void)mf_inline_enter(m->c, before);
    for (int i = 0; i <= n->n_outputs; i++)
        e->whole[i] = (mf_output){ *twin, i };
    return add_controls(m, n, *twin, -1);
}

/* The node sums over samples and is given the shard boundaries. */
static mf_status emit_summed(mf_shard_map *m, const mf_node *n)
{
    const mf_attr shards = mf_shard_int(m->wanted), samples = mf_shard_int(m->samples);
    mf_node *twin;

    MF_TRY(emit_whole(m, n, MF_SUMMED, &twin));
    if (!shard_body_is_cut(m))
        return MF_OK;
    MF_TRY(mf_node_set_attr(m->c->graph, twin, "_samples", &samples));
    return mf_node_set_attr(m->c->graph, twin, "_shards", &shards);
}

/* ---- classification ---- */

/* All its users only forward it to a result that is a sum. */
static bool only_summed(const mf_shard_map *m, const mf_node *n)
{
    for (int64_t i = 0; i < m->n_order; i++) {
        const mf_node *u = m->order[i];

        for (int k = 0; k < u->n_inputs; k++) {
            if (u->inputs[k].node != n)
                continue;
            if (shard_body_is_op(u, "_Retval")) {
                const int64_t r = mf_node_int(u, "index");

                if (r < 0 || r >= m->join->n || strcmp(m->join->strings[r].data, "sum") != 0)
                    return false;
            } else if ((!shard_body_is_op(u, "Identity") && !shard_body_is_op(u, "Reshape")) ||
                       k != 0 || !only_summed(m, u)) {
                return false;
            }
        }
    }
    return true;
}

static bool gives_integers(const mf_node *n)
{
    for (int i = 0; i < n->n_outputs; i++) {
        if (!mf_dtype_is_int(mf_type_base(n->out_types[i])))
            return false;
    }
    return n->n_outputs > 0;
}

static bool asks_for_size(const mf_node *n)
{
    return shard_body_is_op(n, "Shape") || shard_body_is_op(n, "ShapeN") ||
           shard_body_is_op(n, "Size") || shard_body_is_op(n, "Rank");
}

/* Computing it once for all shards is equivalent to once per shard. */
static bool may_be_shared(const mf_node *n)
{
    return n->op &&
           (!n->def->is_stateful || shard_body_is_op(n, "VarHandleOp") ||
            shard_body_is_op(n, "ReadVariableOp") || shard_body_is_op(n, "ResourceGather"));
}

typedef struct inputs {
    mf_spread *spread;
    mf_shape *shapes;
    const mf_tensor **values;
    int count[MF_SUMMED + 1]; /* by spread */
} inputs;

static mf_status read_inputs(const mf_shard_map *m, const mf_node *n, inputs *in)
{
    *in = (inputs){ .spread = MF_ARENA_ARRAY(m->arena, mf_spread, n->n_inputs),
                    .shapes = MF_ARENA_ARRAY(m->arena, mf_shape, n->n_inputs),
                    .values = MF_ARENA_ARRAY(m->arena, const mf_tensor *, n->n_inputs) };
    if (!in->spread || !in->shapes || !in->values)
        return MF_NOMEM("shards");
    for (int i = 0; i < n->n_inputs; i++) {
        const mf_output o = n->inputs[i];
        const mf_facts *f = mf_compile_facts(&m->facts, o.node);

        in->spread[i] = m->done[o.node->id].spread[o.port];
        in->shapes[i] = f->shapes[o.port];
        in->values[i] = f->values[o.port];
        in->count[in->spread[i]]++;
    }
    return MF_OK;
}

static mf_spread shard_body_choose(const mf_shard_map *m, const mf_node *n, const inputs *in)
{
    const mf_rows_query q = { .node = n,
                              .samples = m->samples,
                              .in_spread = in->spread,
                              .in = in->shapes,
                              .out = mf_compile_facts(&m->facts, n)->shapes,
                              .in_value = in->values };

    if (in->count[MF_IOVEC] > 0 || !may_be_shared(n))
        return MF_IOVEC;
    if (in->count[MF_SUMMED] > 0)
        return MF_SUMMED; /* only_summed() has verified this */
    if (in->count[MF_ROWS] + in->count[MF_DIMS] == 0)
        return MF_SHARED;
    if (!m->enabled)
        return MF_IOVEC;
    if (in->count[MF_ROWS] == 0 ? gives_integers(n) : asks_for_size(n))
        return MF_DIMS;
    if (mf_rows_apart(&q))
        return MF_ROWS;
    if (mf_rows_summed(&q) && only_summed(m, n))
        return MF_SUMMED;
    return MF_IOVEC;
}

/* ---- the body ---- */

static mf_status emit_argument(mf_shard_map *m, const mf_node *n)
{
    const int64_t index = mf_node_int(n, "index");
    mf_emitted *e = &m->done[n->id];

    if (index < 0 || index >= m->node->n_inputs)
        return MF_FAIL(MF_INVALID_ARGUMENT, "function %s uses argument %lld, which is missing",
                       m->function->name, (long long)index);
    e->whole = MF_ARENA_ARRAY(m->arena, mf_output, 2);
    if (!e->whole)
        return MF_NOMEM("shards");
    e->whole[0] = e->whole[1] = m->in[index];
    e->spread[0] = index < m->n_batched ? MF_ROWS : MF_SHARED;
    return MF_OK;
}

/* Batch statistics per shard, or boxes indexed by image within a shard: the results are rows again.
 */
static bool ends_in_rows(const mf_shard_map *m, const mf_node *n)
{
    const mf_shape *out = mf_compile_facts(&m->facts, n)->shapes;
    static const char *const ops[] = { "FusedBatchNormV3", "FusedBatchNormGradV3",
                                       "FusedBatchNormV2", "FusedBatchNormGradV2",
                                       "CropAndResize",    "CropAndResizeGradImage" };

    for (int i = 0; i < MF_COUNT(ops); i++) {
        if (shard_body_is_op(n, ops[i]))
            return out->rank >= 1 && out->dims[0] > 0 && out->dims[0] % m->samples == 0;
    }
    return false;
}

static mf_status concat_parts(mf_shard_map *m, mf_output o, mf_output *out);

static mf_status emit_by_shard(mf_shard_map *m, const mf_node *n)
{
    mf_emitted *e = &m->done[n->id];

    MF_LOG(MF_LOG_DEBUG, "{{node %s}} (%s) runs shard by shard", n->name, n->op_name);
    MF_TRY(emit_parts(m, n));
    if (!m->enabled || !ends_in_rows(m, n))
        return MF_OK;
    e->whole = MF_ARENA_ARRAY(m->arena, mf_output, n->n_outputs + 1);
    if (!e->whole)
        return MF_NOMEM("shards");
    MF_TRY(concat_parts(m, (mf_output){ (mf_node *)(uintptr_t)n, 0 }, &e->whole[0]));
    e->spread[0] = MF_ROWS;
    return MF_OK;
}

static mf_status shard_body_emit(mf_shard_map *m, const mf_node *n)
{
    mf_emitted *e = &m->done[n->id];
    mf_node *twin;
    inputs in;
    mf_spread spread;

    e->part = MF_ARENA_ARRAY(m->arena, mf_output *, m->shards);
    e->spread = MF_ARENA_ARRAY(m->arena, mf_spread, n->n_outputs + 1);
    if (!e->part || !e->spread)
        return MF_NOMEM("shards");
    if (shard_body_is_op(n, "_Arg"))
        return emit_argument(m, n);
    if (shard_body_is_op(n, "_Retval"))
        return MF_OK;
    MF_TRY(read_inputs(m, n, &in));
    spread = shard_body_choose(m, n, &in);
    if (spread == MF_IOVEC)
        return emit_by_shard(m, n);
    if (spread == MF_SUMMED && in.count[MF_SUMMED] == 0)
        return emit_summed(m, n);
    return emit_whole(m, n, spread, &twin);
}

/* ---- joining ---- */

static mf_status concat_parts(mf_shard_map *m, mf_output o, mf_output *out)
{
    mf_output *in = MF_ARENA_ARRAY(m->arena, mf_output, m->shards + 1);
    mf_output axis;

    if (!in)
        return MF_NOMEM("shards");
    for (int64_t s = 0; s < m->shards; s++)
        MF_TRY(shard_body_part_of(m, o, s, &in[s]));
    if (m->shards == 1) {
        *out = in[0];
        return MF_OK;
    }
    axis = mf_scalar(m->c->graph, MF_DTYPE_I32, 0);
    MF_TRY(mf_inline_adopt(m->c, axis.node));
    in[m->shards] = axis;
    return mf_shard_node(m, "ConcatV2", in, (int)m->shards + 1, NULL, 0, out);
}

static mf_status sum_parts(mf_shard_map *m, mf_output o, mf_output *out)
{
    mf_output *sum = MF_ARENA_ARRAY(m->arena, mf_output, m->shards);

    if (!sum)
        return MF_NOMEM("shards");
    for (int64_t s = 0; s < m->shards; s++)
        MF_TRY(shard_body_part_of(m, o, s, &sum[s]));
    for (int64_t stride = 1; stride < m->shards; stride *= 2) {
        for (int64_t i = 0; i + stride < m->shards; i += 2 * stride)
            MF_TRY(mf_shard_node(m, "AddV2", (mf_output[]){ sum[i], sum[i + stride] }, 2, NULL, 0,
                                 &sum[i]));
    }
    *out = sum[0];
    return MF_OK;
}

static mf_status shard_body_join(mf_shard_map *m, int port, mf_output o, mf_output *out)
{
    const mf_emitted *e = &m->done[o.node->id];
    const char *how = m->join->strings[port].data;

    if (strcmp(how, "sum") == 0) {
        if (e->spread[o.port] != MF_SUMMED)
            return sum_parts(m, o, out);
        *out = e->whole[o.port];
        return MF_OK;
    }
    if (strcmp(how, "concat") != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "{{node %s}}: results are joined by sum or concat, not %s", m->node->name,
                       how);
    if (e->spread[o.port] != MF_ROWS)
        return concat_parts(m, o, out);
    *out = e->whole[o.port];
    return MF_OK;
}

/* ---- setup ---- */

/* Origins and name prefixes of new nodes: the full batch first, then each shard. */
static mf_status name_places(mf_shard_map *m)
{
    m->part_name = MF_ARENA_ARRAY(m->arena, const char *, m->shards);
    m->part_place = MF_ARENA_ARRAY(m->arena, const mf_inline_place *, m->shards);
    m->whole_name = mf_arena_printf(m->arena, "%s/batch", m->node->name);
    if (!m->part_name || !m->part_place || !m->whole_name)
        return MF_NOMEM("shards");
    MF_TRY(mf_inline_chain(m->c, m->function, true, m->first_sample, &m->whole_place));
    for (int64_t s = 0; s < m->shards; s++) {
        m->part_name[s] = mf_arena_printf(m->arena, "%s/shard_%lld", m->node->name, (long long)s);
        if (!m->part_name[s])
            return MF_NOMEM("shards");
        MF_TRY(mf_inline_chain(m->c, m->function, true, m->first_sample + mf_shard_map_begin(m, s),
                               &m->part_place[s]));
    }
    return MF_OK;
}

/* The body runs in training: removes inference branches. */
static void choose_training(mf_graph *body)
{
    for (int64_t i = 0; i < body->n_nodes; i++) {
        mf_node *u = body->nodes[i];

        for (int k = 0; k < u->n_inputs; k++) {
            while (shard_body_is_op(u->inputs[k].node, "_ByMode"))
                u->inputs[k] = u->inputs[k].node->inputs[0];
        }
    }
}

/* Keep only nodes that results depend on. */
static mf_status drop_unneeded(mf_shard_map *m)
{
    bool *needed = MF_ARENA_ARRAY(m->arena, bool, m->body->n_nodes);
    int64_t n = 0;

    if (!needed)
        return MF_NOMEM("shards");
    for (int64_t i = m->n_order - 1; i >= 0; i--) {
        const mf_node *u = m->order[i];

        if (mf_node_attr(u, "_control_ret"))
            return MF_FAIL(
                MF_UNIMPLEMENTED,
                "{{node %s}}: function %s has effects, which cannot be mapped over shards",
                m->node->name, m->function->name);
        if (shard_body_is_op(u, "_Retval"))
            needed[u->id] = true;
        for (int k = 0; needed[u->id] && k < u->n_inputs; k++)
            needed[u->inputs[k].node->id] = true;
        for (int k = 0; needed[u->id] && k < u->n_controls; k++)
            needed[u->controls[k]->id] = true;
    }
    for (int64_t i = 0; i < m->n_order; i++) {
        if (needed[m->order[i]->id])
            m->order[n++] = m->order[i];
    }
    m->n_order = n;
    return MF_OK;
}

/* Arguments get the shapes of the inputs. */
static mf_status infer_body(mf_shard_map *m)
{
    for (int64_t i = 0; i < m->n_order; i++) {
        mf_node *n = m->order[i];
        const int64_t index = shard_body_is_op(n, "_Arg") ? mf_node_int(n, "index") : -1;
        mf_attr shape = { .kind = MF_ATTR_SHAPE, .n = 1 };

        if (index < 0 || index >= m->node->n_inputs)
            continue;
        const mf_output in = m->node->inputs[index];
        mf_shape *known = MF_ARENA_NEW(m->body->arena, mf_shape);

        if (!known)
            return MF_NOMEM("shards");
        *known = mf_compile_facts(m->c, in.node)->shapes[in.port];
        if (index < m->n_batched)
            known->dims[0] = m->samples;
        shape.shape = known;
        MF_TRY(mf_node_set_attr(m->body, n, "_shape", &shape));
    }
    m->facts = (mf_compile){ .graph = m->body };
    return mf_infer_graph(&m->facts);
}

static mf_status open_body(mf_shard_map *m)
{
    MF_TRY(mf_function_body(m->c->graph, m->function, NULL, 0, &m->body));
    choose_training(m->body);
    m->order = MF_ARENA_ARRAY(m->arena, mf_node *, m->body->n_nodes);
    m->done = MF_ARENA_ARRAY(m->arena, mf_emitted, m->body->n_nodes);
    if (!m->order || !m->done)
        return MF_NOMEM("shards");
    MF_TRY(mf_graph_order(m->body, m->order, &m->n_order));
    MF_TRY(drop_unneeded(m));
    return infer_body(m);
}

mf_status mf_shard_shapes(mf_shard_map *m, mf_shape *shapes)
{
    mf_shard_map one = *m;
    mf_status st;

    one.samples = 1;
    st = open_body(&one);
    for (int64_t i = 0; st == MF_OK && i < one.n_order; i++) {
        const mf_node *u = one.order[i];
        const int64_t index = shard_body_is_op(u, "_Retval") ? mf_node_int(u, "index") : -1;

        if (index >= 0 && index < m->node->n_outputs)
            shapes[index] =
                mf_compile_facts(&one.facts, u->inputs[0].node)->shapes[u->inputs[0].port];
    }
    mf_graph_free(one.body);
    return st;
}

/* ---- one micro-batch ---- */

static mf_status shard_body_add_results(mf_shard_map *m, mf_output *outs)
{
    int n = 0;

    for (int64_t i = 0; i < m->n_order; i++) {
        const mf_node *u = m->order[i];
        const int64_t index = shard_body_is_op(u, "_Retval") ? mf_node_int(u, "index") : -1;

        if (index < 0)
            continue;
        if (index >= m->node->n_outputs)
            return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: function %s has more than %d results",
                           m->node->name, m->function->name, m->node->n_outputs);
        MF_TRY(shard_body_join(m, (int)index, u->inputs[0], &outs[index]));
        n++;
    }
    if (n != m->node->n_outputs)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: function %s has %d results, not %d",
                       m->node->name, m->function->name, n, m->node->n_outputs);
    return mf_graph_status(m->c->graph);
}

mf_status mf_shard_body(mf_shard_map *m, mf_output *outs)
{
    mf_status st;

    m->shards = m->wanted < m->samples ? m->wanted : m->samples;
    st = open_body(m);
    if (st == MF_OK)
        st = name_places(m);
    for (int64_t i = 0; st == MF_OK && i < m->n_order; i++)
        st = shard_body_emit(m, m->order[i]);
    if (st == MF_OK)
        st = shard_body_add_results(m, outs);
    mf_graph_free(m->body);
    return st;
}
