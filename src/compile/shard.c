/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - _ShardMap becomes what it stands for: the step's function once for every shard, on its
 * part of the batch, and the results joined.
 *
 * Shard s of S has the samples from s*(n/S) + min(s, n%S) on; empty shards are left out. Sums are
 * made in one tree, whoever computes the shards and in whatever order:
 *
 *     for stride 1, 2, 4 ...: sum[i] += sum[i + stride], i a multiple of 2*stride */
#include "compile/inline.h"

#include <string.h>

typedef struct mapper {
    mf_compile *c;
    mf_node *node;
    const mf_function *function;
    const mf_attr *join;
    int n_batched;
    int64_t samples, shards; /* shards that are not empty */
    mf_node *pivot; /* what the node had to wait for; NULL: nothing */
    mf_output **parts; /* by shard: one output per result */
} mapper;

/* ---- nodes ---- */

static mf_status new_node(mapper *m, const char *op, const mf_output *in, int n_in,
                          const mf_named_attr *attrs, int n_attrs, mf_output *out)
{
    mf_node *node;

    MF_TRY(mf_inline_node(m->c, m->node->name, op, in, n_in, attrs, n_attrs, &node));
    *out = (mf_output){ node, 0 };
    return MF_OK;
}

/* A constant vector of int32. */
static mf_status new_ints(mapper *m, const int64_t *values, int64_t n, mf_output *out)
{
    *out = mf_ints(m->c->graph, values, n);
    MF_TRY(mf_inline_adopt(m->c, out->node));
    return mf_graph_status(m->c->graph);
}

/* ---- one shard ---- */

static mf_status slice(mapper *m, mf_output x, const mf_shape *shape, int64_t from, int64_t n,
                       mf_output *out)
{
    int64_t begin[MF_MAX_RANK] = { from }, size[MF_MAX_RANK] = { n };
    mf_output in[3] = { x };

    if (n == m->samples) {
        *out = x;
        return MF_OK;
    }
    for (int i = 1; i < shape->rank; i++)
        size[i] = -1;
    MF_TRY(new_ints(m, begin, shape->rank, &in[1]));
    MF_TRY(new_ints(m, size, shape->rank, &in[2]));
    return new_node(m, "Slice", in, 3, NULL, 0, out);
}

static mf_status map_one(mapper *m, int64_t shard, int64_t from, int64_t n)
{
    mf_arena *arena = m->c->graph->arena;
    mf_output *args = MF_ARENA_ARRAY(arena, mf_output, m->node->n_inputs);
    mf_inline_call call = { .function = m->function,
                            .args = args,
                            .n_args = m->node->n_inputs,
                            .pivot = m->pivot,
                            .training = true,
                            .sample_offset = from,
                            .device = m->node->device };
    mf_inline_result r;

    call.name = mf_arena_printf(arena, "%s/shard_%lld", m->node->name, (long long)shard);
    if (!args || !call.name)
        return MF_NOMEM("shards");
    for (int i = 0; i < m->node->n_inputs; i++) {
        const mf_output in = m->node->inputs[i];

        if (i < m->n_batched)
            MF_TRY(
                slice(m, in, &mf_compile_facts(m->c, in.node)->shapes[in.port], from, n, &args[i]));
        else
            args[i] = in;
    }
    MF_TRY(mf_inline_body(m->c, &call, &r));
    if (r.n_outs != m->node->n_outputs)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: function %s has %d results, not %d",
                       m->node->name, m->function->name, r.n_outs, m->node->n_outputs);
    m->parts[shard] = r.outs;
    return MF_OK;
}

/* ---- joining ---- */

static mf_status join_sum(mapper *m, int port, mf_output *out)
{
    mf_output *sum = MF_ARENA_ARRAY(m->c->graph->arena, mf_output, m->shards);

    if (!sum)
        return MF_NOMEM("shards");
    for (int64_t s = 0; s < m->shards; s++)
        sum[s] = m->parts[s][port];
    for (int64_t stride = 1; stride < m->shards; stride *= 2) {
        for (int64_t i = 0; i + stride < m->shards; i += 2 * stride)
            MF_TRY(new_node(m, "AddV2", (mf_output[]){ sum[i], sum[i + stride] }, 2, NULL, 0,
                            &sum[i]));
    }
    *out = sum[0];
    return MF_OK;
}

static mf_status join_concat(mapper *m, int port, mf_output *out)
{
    mf_output *in = MF_ARENA_ARRAY(m->c->graph->arena, mf_output, m->shards + 1);
    mf_output axis;

    if (!in)
        return MF_NOMEM("shards");
    if (m->shards == 1) {
        *out = m->parts[0][port];
        return MF_OK;
    }
    for (int64_t s = 0; s < m->shards; s++)
        in[s] = m->parts[s][port];
    axis = mf_scalar(m->c->graph, MF_DTYPE_I32, 0);
    MF_TRY(mf_inline_adopt(m->c, axis.node));
    in[m->shards] = axis;
    return new_node(m, "ConcatV2", in, (int)m->shards + 1, NULL, 0, out);
}

static mf_status join(mapper *m, int port, mf_output *out)
{
    const mf_bytes how = m->join->strings[port];

    if (strcmp(how.data, "sum") == 0)
        return join_sum(m, port, out);
    if (strcmp(how.data, "concat") == 0)
        return join_concat(m, port, out);
    return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: results are joined by sum or concat, not %s",
                   m->node->name, how.data);
}

/* ---- all shards ---- */

static mf_status count_samples(mapper *m)
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
    if (m->samples < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: the batch is empty", m->node->name);
    return MF_OK;
}

static mf_status map_all(mapper *m)
{
    const int64_t wanted = mf_node_int(m->node, "shards");
    int64_t from = 0;

    m->shards = wanted < m->samples ? wanted : m->samples;
    m->parts = MF_ARENA_ARRAY(m->c->graph->arena, mf_output *, m->shards);
    if (!m->parts)
        return MF_NOMEM("shards");
    for (int64_t s = 0; s < m->shards; s++) {
        const int64_t n = m->samples / wanted + (s < m->samples % wanted);

        MF_TRY(map_one(m, s, from, n));
        from += n;
    }
    return MF_OK;
}

mf_status mf_lower_shard_map(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done)
{
    mapper m = { .c = c, .node = n, .join = mf_node_attr(n, "join") };
    int first;

    mf_node_arg_range(n, false, 0, &first, &m.n_batched);
    if (m.join->n != n->n_outputs)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: %lld ways to join %d results", n->name,
                       (long long)m.join->n, n->n_outputs);
    MF_TRY(mf_inline_find(c, n, mf_node_attr(n, "f")->func, &m.function));
    MF_TRY(mf_infer_more(c));
    MF_TRY(count_samples(&m));
    if (n->n_controls > 0)
        MF_TRY(mf_inline_node(c, n->name, "NoOp", NULL, 0, NULL, 0, &m.pivot));
    for (int i = 0; i < n->n_controls; i++)
        mf_control(c->graph, m.pivot, n->controls[i]);
    MF_TRY(map_all(&m));
    MF_TRY(mf_inline_node(c, n->name, "NoOp", NULL, 0, NULL, 0, done));
    for (int i = 0; i < n->n_outputs; i++) {
        MF_TRY(join(&m, i, &outs[i]));
        mf_control(c->graph, *done, outs[i].node);
    }
    return mf_graph_status(c->graph);
}
