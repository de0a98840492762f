/* SPDX-License-Identifier: Apache-2.0 */
/* shard_map.c - lowers _ShardMap: a function mapped over every shard of a batch, with joined
 * results. Sums use one reduction tree, independent of which worker computes the shards and in
 * which order:
 *
 *     for stride 1, 2, 4 ...: sum[i] += sum[i + stride], i a multiple of 2*stride
 *
 * Without the pass "shards", every node of the function's body is copied once per shard. With the
 * pass, nodes that treat samples independently (graph/rows.h) are copied once, for the full batch,
 * and nodes that sum over samples are given the shard boundaries. Only the rest is copied per
 * shard: the bits are the same.
 *
 * With several micro-batches, groups of shards are computed one after the other, to reduce memory.
 * A group is a branch of the tree: again, the bits are the same. */
#include "compiler/sharding/shard_map.h"

#include "graph/step_exchange.h"

#include <string.h>

/* ---- samples ---- */

static mf_status count_samples(mf_shard_map *m)
{
    m->samples = -1;
    for (int i = 0; i < m->n_batched; i++) {
        const mf_output in = m->node->inputs[i];
        const mf_shape *s = &mf_compile_facts(m->c, in.node)->shapes[in.port];

        if (s->rank < 1 || s->dims[0] < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "{{node %s}}: the shape of batched input %d must be known",
                           m->node->name, i);
        if (m->samples >= 0 && s->dims[0] != m->samples)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "{{node %s}}: batched input %d has %lld samples, the first has %lld",
                           m->node->name, i, (long long)s->dims[0], (long long)m->samples);
        m->samples = s->dims[0];
    }
    if (m->samples < 1 && !m->c->exchange)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: the batch is empty", m->node->name);
    m->wanted = m->c->exchange ? m->c->exchange->count : mf_node_int(m->node, "shards");
    return MF_OK;
}

/* ---- micro-batches ---- */

/* The rows of a micro-batch, which waits until the previous one is done. */
static mf_status cut_inputs(mf_shard_map *m, const mf_output *before, mf_output *in)
{
    const mf_named_attr attrs[] = { { "from", mf_shard_int(m->first_sample) },
                                    { "to", mf_shard_int(m->first_sample + m->samples) } };

    for (int i = 0; i < m->node->n_inputs; i++) {
        in[i] = m->node->inputs[i];
        if (i >= m->n_batched)
            continue;
        MF_TRY(mf_shard_node(m, "_Rows", &m->node->inputs[i], 1, attrs, 2, &in[i]));
        for (int k = 0; before && !m->c->separate_micro_batches && k < m->node->n_outputs; k++)
            mf_control(m->c->graph, in[i].node, before[k].node);
    }
    m->in = in;
    return mf_graph_status(m->c->graph);
}

mf_status mf_shard_join(mf_shard_map *m, int port, mf_output *a, mf_output b)
{
    const bool sum = strcmp(m->join->strings[port].data, "sum") == 0;
    mf_output in[3] = { *a, b };

    if (!sum) {
        in[2] = mf_scalar(m->c->graph, MF_DTYPE_I32, 0);
        MF_TRY(mf_inline_adopt(m->c, in[2].node));
    }
    return mf_shard_node(m, sum ? "AddV2" : "ConcatV2", in, sum ? 2 : 3, NULL, 0, a);
}

/* On a mesh, the partial sums of a gradient are on several devices: they are added now, not after
 * all micro-batches. */
static mf_status shard_map_settle(mf_shard_map *m, mf_output *outs)
{
    const mf_node_mark mark = m->c->graph->mark;
    mf_status st = MF_OK;

    for (int i = 0; st == MF_OK && i < m->node->n_outputs; i++) {
        if (strcmp(m->join->strings[i].data, "sum") != 0 || !mf_node_is_gradient(outs[i].node))
            continue;
        m->c->graph->mark =
            (mf_node_mark){ .layer = mf_node_layer(outs[i].node), .gradient = true };
        st = mf_shard_node(m, "_MeshSettle", &outs[i], 1, NULL, 0, &outs[i]);
    }
    m->c->graph->mark = mark;
    return st;
}

/* Mark new nodes with this micro-batch. */
static void mark_micro_batch(const mf_shard_map *m, int64_t micro_batch)
{
    m->c->graph->mark.micro_batch = m->c->separate_micro_batches ? micro_batch + 1 : 0;
}

/* A value added to a gradient belongs to the same layer. */
static mf_status mark_sums(mf_shard_map *m, mf_output *a, const mf_output *b)
{
    const mf_node_mark mark = m->c->graph->mark;
    mf_status st = MF_OK;

    for (int i = 0; st == MF_OK && i < m->node->n_outputs; i++) {
        if (m->c->separate_micro_batches) {
            m->c->graph->mark.layer = mf_node_layer(b[i].node);
            m->c->graph->mark.gradient = mf_node_is_gradient(b[i].node);
            /* Its next micro-batch need not wait for the sums with other gradients. */
            m->c->graph->mark.micro_batch =
                m->c->settle_micro_batches && m->c->graph->mark.gradient ? 0 : mark.micro_batch;
        }
        st = mf_shard_is_apart(m, i) ? MF_OK : mf_shard_join(m, i, &a[i], b[i]);
    }
    m->c->graph->mark = mark;
    return st;
}

/* Shards per micro-batch: a power of two, so that micro-batches are branches of the tree. */
static int64_t shards_of_turn(const mf_shard_map *m)
{
    const int64_t micro_batches = mf_node_int(m->node, "turns");
    int64_t n = 1;

    if (micro_batches <= 1)
        return m->wanted;
    while (n * micro_batches < mf_node_int(m->node, "shards"))
        n *= 2;
    return n;
}

static mf_status map_micro_batches(const mf_shard_map *all, int64_t size, mf_output *outs)
{
    const int64_t micro_batches = (all->wanted + size - 1) / size;
    const mf_output *before = NULL;
    mf_output **result = MF_ARENA_ARRAY(all->arena, mf_output *, micro_batches);
    int64_t *samples = MF_ARENA_ARRAY(all->arena, int64_t, micro_batches);
    mf_shard_map m = *all;
    int n = 0;

    if (!result || !samples)
        return MF_NOMEM("shards");
    for (int64_t t = 0; t < micro_batches; t++) {
        const int64_t from = t * size, to = from + size < all->wanted ? from + size : all->wanted;
        mf_output *in = MF_ARENA_ARRAY(all->arena, mf_output, all->node->n_inputs);

        m = *all;
        m.first_sample = all->first_sample + mf_shard_map_begin(all, from);
        m.samples = mf_shard_map_begin(all, to) - mf_shard_map_begin(all, from);
        m.wanted = to - from;
        result[t] = MF_ARENA_ARRAY(all->arena, mf_output, all->node->n_outputs);
        if (!in || !result[t])
            return MF_NOMEM("shards");
        if (m.samples == 0)
            break; /* and so are all later ones */
        mark_micro_batch(all, t);
        MF_TRY(cut_inputs(&m, before, in));
        MF_TRY(mf_shard_body(&m, result[t]));
        if (m.c->settle_micro_batches)
            MF_TRY(shard_map_settle(&m, result[t]));
        before = result[t];
        samples[n++] = m.samples;
    }
    MF_TRY(mf_shard_weigh(&m, result, samples, n));
    for (int64_t stride = 1; stride < n; stride *= 2) {
        for (int64_t i = 0; i + stride < n; i += 2 * stride) {
            mark_micro_batch(all, i + 2 * stride < n ? i + 2 * stride - 1 : n - 1);
            MF_TRY(mark_sums(&m, result[i], result[i + stride]));
        }
    }
    MF_TRY(mf_shard_aggregate(&m, result, samples, n));
    all->c->graph->mark.micro_batch = 0;
    memcpy(outs, result[0], (size_t)all->node->n_outputs * sizeof *outs);
    return MF_OK;
}

mf_status mf_shard_branch(const mf_shard_map *all, mf_output *outs)
{
    const int64_t size = shards_of_turn(all);
    mf_shard_map m = *all;

    if (size < all->wanted)
        return map_micro_batches(all, size, outs);
    if (all->wanted != mf_node_int(all->node, "shards")) {
        mf_output *in = MF_ARENA_ARRAY(all->arena, mf_output, all->node->n_inputs);

        if (!in)
            return MF_NOMEM("shards");
        MF_TRY(cut_inputs(&m, NULL, in));
    }
    return mf_shard_body(&m, outs);
}

/* ---- the map ---- */

static mf_status make_pivot(mf_shard_map *m)
{
    if (m->node->n_controls > 0)
        MF_TRY(mf_inline_node(m->c, m->node->name, "NoOp", NULL, 0, NULL, 0, &m->pivot));
    for (int i = 0; i < m->node->n_controls; i++)
        mf_control(m->c->graph, m->pivot, m->node->controls[i]);
    return mf_graph_status(m->c->graph);
}

mf_status mf_lower_shard_map(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done)
{
    mf_shard_map m = { .c = c,
                       .node = n,
                       .in = n->inputs,
                       .arena = c->graph->arena,
                       .join = mf_node_attr(n, "join"),
                       .enabled = mf_pass_is_on(c, "shards") };
    int first;

    mf_node_arg_range(n, false, 0, &first, &m.n_batched);
    if (m.join->n != n->n_outputs)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: %lld join modes for %d results", n->name,
                       (long long)m.join->n, n->n_outputs);
    MF_TRY(mf_inline_find(c, n, mf_node_attr(n, "f")->func, &m.function));
    MF_TRY(mf_infer_more(c));
    MF_TRY(mf_shard_aggregation_read(&m));
    MF_TRY(count_samples(&m));
    MF_TRY(make_pivot(&m));
    if (c->exchange)
        MF_TRY(mf_shard_exchange(&m, outs));
    else
        MF_TRY(mf_shard_branch(&m, outs));
    MF_TRY(mf_inline_node(c, n->name, "NoOp", NULL, 0, NULL, 0, done));
    for (int i = 0; i < n->n_outputs; i++)
        mf_control(c->graph, *done, outs[i].node);
    return mf_graph_status(c->graph);
}
