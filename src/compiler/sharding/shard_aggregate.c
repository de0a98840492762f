/* SPDX-License-Identifier: Apache-2.0 */
/* shard_aggregate.c - aggregation of gradients over the micro-batches of a _ShardMap by another
 * rule than the mean (collective/gradient_aggregation.h). A micro-batch represents a shard, and a
 * member. Sums and weighted means remain sums, of scaled gradients; for other rules
 * _AggregateShards gets the gradients of all micro-batches. */
#include "compiler/sharding/shard_map.h"

#include <string.h>

mf_status mf_shard_aggregation_read(mf_shard_map *m)
{
    const char *name = mf_node_string(m->node, "aggregation");
    const mf_attr *weights = mf_node_attr(m->node, "weights");
    mf_aggregation *a = &m->aggregation;
    double *w;

    a->trim = (double)mf_node_float(m->node, "trim");
    if (!mf_aggregate_find(name, &a->how) || !(a->trim >= 0.0 && a->trim < 0.5))
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: aggregation '%s' with trim %g",
                       m->node->name, name, a->trim);
    if (a->how != MF_AGGREGATE_WEIGHTED)
        return MF_OK;
    if (!weights || weights->n < mf_node_int(m->node, "turns"))
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: a micro-batch has no weight",
                       m->node->name);
    w = MF_ARENA_ARRAY(m->arena, double, weights->n);
    for (int64_t i = 0; w && i < weights->n; i++)
        w[i] = (double)weights->floats[i];
    a->weights = w;
    return w ? MF_OK : MF_NOMEM("weights");
}

bool mf_shard_is_aggregated(const mf_shard_map *m, int port)
{
    const mf_attr *names = mf_node_attr(m->node, "names");

    return m->aggregation.how != MF_AGGREGATE_MEAN && names && port < names->n &&
           names->strings[port].len > 0 && mf_type_base(m->node->out_types[port]) == MF_DTYPE_F32;
}

bool mf_shard_is_apart(const mf_shard_map *m, int port)
{
    return mf_aggregate_is_apart(m->aggregation.how) && mf_shard_is_aggregated(m, port) &&
           strcmp(m->join->strings[port].data, "sum") == 0;
}

/* Adds a node of the micro-batch, and of the layer and gradient of `like`. */
static mf_status shard_aggregate_emit(mf_shard_map *m, int64_t micro_batch, mf_output like,
                                      const mf_output *in, int n_in, const mf_named_attr *attrs,
                                      int n_attrs, mf_output *out)
{
    const mf_node_mark mark = m->c->graph->mark;
    mf_status st;

    if (m->c->separate_micro_batches)
        m->c->graph->mark = (mf_node_mark){ .layer = mf_node_layer(like.node),
                                            .gradient = mf_node_is_gradient(like.node),
                                            .micro_batch = micro_batch };
    st = mf_shard_node(m, n_attrs > 0 ? "_AggregateShards" : "Mul", in, n_in, attrs, n_attrs, out);
    m->c->graph->mark = mark;
    return st;
}

static mf_status shard_aggregate_multiply(mf_shard_map *m, int64_t micro_batch, double factor,
                                          mf_output *x)
{
    const mf_output in[] = { *x, mf_scalar(m->c->graph, MF_DTYPE_F32, factor) };

    MF_TRY(mf_inline_adopt(m->c, in[1].node));
    return shard_aggregate_emit(m, micro_batch, *x, in, 2, NULL, 0, x);
}

mf_status mf_shard_weigh(mf_shard_map *m, mf_output *const *results, const int64_t *samples, int n)
{
    for (int t = 0; t < n && m->aggregation.how == MF_AGGREGATE_WEIGHTED; t++) {
        const double factor = mf_aggregate_factor(&m->aggregation, samples, n, t);

        for (int i = 0; i < m->node->n_outputs; i++) {
            if (mf_shard_is_aggregated(m, i))
                MF_TRY(shard_aggregate_multiply(m, t + 1, factor, &results[t][i]));
        }
    }
    return MF_OK;
}

static mf_status shard_aggregate(mf_shard_map *m, mf_output *const *results, const mf_attr *samples,
                                 int64_t micro_batch, int port)
{
    const char *how = mf_aggregate_name(m->aggregation.how);
    const mf_named_attr attrs[] = {
        { "how", { .kind = MF_ATTR_STRING, .n = 1, .s = { how, strlen(how) } } },
        { "trim", { .kind = MF_ATTR_FLOAT, .n = 1, .f = (float)m->aggregation.trim } },
        { "samples", *samples },
    };
    mf_output *in = MF_ARENA_ARRAY(m->arena, mf_output, samples->n);

    if (!in)
        return MF_NOMEM("shards");
    for (int64_t t = 0; t < samples->n; t++)
        in[t] = results[t][port];
    return shard_aggregate_emit(m, micro_batch, in[0], in, (int)samples->n, attrs, MF_COUNT(attrs),
                                &results[0][port]);
}

mf_status mf_shard_aggregate(mf_shard_map *m, mf_output *const *results, const int64_t *samples,
                             int n)
{
    mf_attr list = { .kind = MF_ATTR_INT, .is_list = true, .n = n };
    const int64_t last = m->c->settle_micro_batches ? 0 : n;

    list.ints = MF_ARENA_ARRAY(m->arena, int64_t, n);
    if (!list.ints)
        return MF_NOMEM("shards");
    memcpy(list.ints, samples, (size_t)n * sizeof *samples);
    for (int i = 0; i < m->node->n_outputs; i++) {
        if (mf_shard_is_apart(m, i))
            MF_TRY(shard_aggregate(m, results, &list, last, i));
        else if (m->aggregation.how == MF_AGGREGATE_SUM && mf_shard_is_aggregated(m, i))
            MF_TRY(shard_aggregate_multiply(m, last, (double)mf_node_int(m->node, "shards"),
                                            &results[0][i]));
    }
    return MF_OK;
}
