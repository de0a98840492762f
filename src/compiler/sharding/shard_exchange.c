/* SPDX-License-Identifier: Apache-2.0 */
/* shard_exchange.c - a _ShardMap of which this worker computes some shards and other workers the
 * rest. The local shards are split into branches of the reduction tree (tensor/reduction_tree.h);
 * each is mapped like a separate batch, and its sums are passed to the exchange, bucket by bucket,
 * as soon as they are computed. The exchanged values replace the results of all shards. */
#include "compiler/sharding/shard_map.h"
#include "graph/step_exchange.h"
#include "tensor/reduction_tree.h"

#include <string.h>

typedef struct shard_exchange_parts {
    mf_reduction_tree_node *node;
    mf_output **out; /* by result */
    int n;
} shard_exchange_parts;

static bool is_sum(const mf_shard_map *m, int port)
{
    return strcmp(m->join->strings[port].data, "sum") == 0;
}

/* The bucket of a result. */
static int64_t bucket_of(const mf_shard_map *m, int port)
{
    const mf_attr *buckets = mf_node_attr(m->node, "buckets");

    if (buckets && port < buckets->n)
        return buckets->ints[port];
    return is_sum(m, port) ? 0 : 1;
}

/* The variable of this gradient; "": none. */
static mf_bytes shard_exchange_name_of(const mf_shard_map *m, int port)
{
    const mf_attr *names = mf_node_attr(m->node, "names");

    return names && port < names->n ? names->strings[port] : (mf_bytes){ .data = "" };
}

static mf_status map_parts(const mf_shard_map *all, shard_exchange_parts *p)
{
    const mf_exchange *x = all->c->exchange;
    const int64_t room = mf_reduction_tree_room(x->count, x->grain);

    p->node = MF_ARENA_ARRAY(all->arena, mf_reduction_tree_node, room);
    p->out = MF_ARENA_ARRAY(all->arena, mf_output *, room);
    if (!p->node || !p->out)
        return MF_NOMEM("shards");
    p->n = mf_reduction_tree_share(mf_node_int(all->node, "shards"), x->first, x->count,
                                   all->samples, x->grain, p->node);
    for (int i = 0; i < p->n; i++) {
        const int64_t from = mf_shard_map_begin(all, p->node[i].lo - x->first);
        mf_shard_map m = *all;

        m.first_sample = from;
        m.samples = mf_shard_map_begin(all, p->node[i].hi - x->first) - from;
        m.wanted = p->node[i].hi - p->node[i].lo;
        p->out[i] = MF_ARENA_ARRAY(all->arena, mf_output, all->node->n_outputs);
        if (!p->out[i])
            return MF_NOMEM("shards");
        MF_TRY(mf_shard_branch(&m, p->out[i]));
    }
    return MF_OK;
}

/* Rows are concatenated: one part is sufficient. */
static mf_status shard_exchange_join_rows(mf_shard_map *m, shard_exchange_parts *p)
{
    for (int k = 0; k < m->node->n_outputs; k++) {
        for (int i = 1; i < p->n && !is_sum(m, k); i++)
            MF_TRY(mf_shard_join(m, k, &p->out[0][k], p->out[i][k]));
    }
    return MF_OK;
}

/* ---- a bucket ---- */

typedef struct shard_exchange_bucket {
    int64_t id;
    bool concat;
    int *ports; /* the results in it */
    int n;
    int n_parts;
} shard_exchange_bucket;

static mf_status shard_exchange_find_bucket(const mf_shard_map *m, const shard_exchange_parts *p,
                                            shard_exchange_bucket *b)
{
    b->ports = MF_ARENA_ARRAY(m->arena, int, m->node->n_outputs);
    if (!b->ports)
        return MF_NOMEM("buckets");
    for (int i = 0; i < m->node->n_outputs; i++) {
        if (bucket_of(m, i) != b->id)
            continue;
        if (b->n > 0 && b->concat == is_sum(m, i))
            return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: bucket %lld has both sums and rows",
                           m->node->name, (long long)b->id);
        b->concat = !is_sum(m, i);
        b->ports[b->n++] = i;
    }
    b->n_parts = b->concat && p->n > 1 ? 1 : p->n;
    return MF_OK;
}

static mf_attr int_list(mf_attr_kind kind, int64_t *values, int64_t n)
{
    return (mf_attr){ .kind = kind, .is_list = true, .n = n, .ints = values };
}

/* Number of attributes that both ops have. */
enum { COMMON = 5 };

static mf_status common_attrs(const mf_shard_map *m, const mf_shape *shapes,
                              const shard_exchange_bucket *b, mf_named_attr attrs[COMMON])
{
    int64_t *types = MF_ARENA_ARRAY(m->arena, int64_t, b->n);
    mf_shape *known = MF_ARENA_ARRAY(m->arena, mf_shape, b->n);
    mf_bytes *names = MF_ARENA_ARRAY(m->arena, mf_bytes, b->n);

    if (!types || !known || !names)
        return MF_NOMEM("buckets");
    for (int i = 0; i < b->n; i++) {
        types[i] = mf_type_base(m->node->out_types[b->ports[i]]);
        known[i] = shapes[b->ports[i]];
        names[i] = shard_exchange_name_of(m, b->ports[i]);
        if (b->concat && known[i].rank > 0)
            known[i].dims[0] = -1;
    }
    attrs[0] = (mf_named_attr){ "bucket", mf_shard_int(b->id) };
    attrs[1] = (mf_named_attr){ "concat", { .kind = MF_ATTR_BOOL, .n = 1, .b = b->concat } };
    attrs[2] = (mf_named_attr){ "types", int_list(MF_ATTR_TYPE, types, b->n) };
    attrs[3] =
        (mf_named_attr){ "shapes",
                         { .kind = MF_ATTR_SHAPE, .is_list = true, .n = b->n, .shapes = known } };
    attrs[4] =
        (mf_named_attr){ "names",
                         { .kind = MF_ATTR_STRING, .is_list = true, .n = b->n, .strings = names } };
    return MF_OK;
}

/* A worker without samples does not use the shared values. It must still wait for them, because
 * they may come from an exchange that other workers need it to join. */
static mf_status await_shared(mf_shard_map *m, mf_node *begin)
{
    for (int i = m->n_batched; i < m->node->n_inputs; i++)
        mf_control(m->c->graph, begin, m->node->inputs[i].node);
    return mf_graph_status(m->c->graph);
}

static mf_status begin_bucket(mf_shard_map *m, const shard_exchange_parts *p,
                              const shard_exchange_bucket *b, const mf_named_attr *common,
                              mf_output *ticket)
{
    const int n = b->n_parts * b->n;
    mf_output *in = MF_ARENA_ARRAY(m->arena, mf_output, n);
    int64_t *types = MF_ARENA_ARRAY(m->arena, int64_t, n);
    int64_t *ranges = MF_ARENA_ARRAY(m->arena, int64_t, 2 * b->n_parts);
    mf_named_attr attrs[COMMON + 2];

    if (!in || !types || !ranges)
        return MF_NOMEM("buckets");
    for (int i = 0; i < n; i++) {
        in[i] = p->out[i / b->n][b->ports[i % b->n]];
        types[i] = mf_type_base(m->node->out_types[b->ports[i % b->n]]);
    }
    for (int i = 0; i < b->n_parts; i++) {
        ranges[2 * i] = p->node[i].lo;
        ranges[2 * i + 1] = p->node[b->concat ? p->n - 1 : i].hi;
    }
    memcpy(attrs, common, COMMON * sizeof *common);
    attrs[COMMON] = (mf_named_attr){ "T", int_list(MF_ATTR_TYPE, types, n) };
    attrs[COMMON + 1] = (mf_named_attr){ "parts", int_list(MF_ATTR_INT, ranges, 2 * b->n_parts) };
    MF_TRY(mf_shard_node(m, "_ExchangeBegin", in, n, attrs, MF_COUNT(attrs), ticket));
    return b->n_parts > 0 ? MF_OK : await_shared(m, ticket->node);
}

static mf_status emit_bucket(mf_shard_map *m, const shard_exchange_parts *p, const mf_shape *shapes,
                             const shard_exchange_bucket *b, mf_output *outs)
{
    mf_named_attr common[COMMON];
    mf_output ticket, end;

    MF_TRY(common_attrs(m, shapes, b, common));
    MF_TRY(begin_bucket(m, p, b, common, &ticket));
    MF_TRY(mf_shard_node(m, "_ExchangeEnd", &ticket, 1, common, COMMON, &end));
    for (int i = 0; i < b->n; i++)
        outs[b->ports[i]] = (mf_output){ end.node, i };
    return MF_OK;
}

/* ---- the map ---- */

/* The shape of every result: that of a part. A worker without samples infers it. */
static mf_status find_shapes(mf_shard_map *m, const shard_exchange_parts *p, mf_shape *shapes)
{
    if (p->n == 0)
        return mf_shard_shapes(m, shapes);
    MF_TRY(mf_infer_more(m->c));
    for (int i = 0; i < m->node->n_outputs; i++) {
        const mf_output o = p->out[0][i];

        shapes[i] = mf_compile_facts(m->c, o.node)->shapes[o.port];
    }
    return MF_OK;
}

mf_status mf_shard_exchange(mf_shard_map *m, mf_output *outs)
{
    mf_shape *shapes = MF_ARENA_ARRAY(m->arena, mf_shape, m->node->n_outputs);
    shard_exchange_parts p = { 0 };
    int left = m->node->n_outputs;

    if (!shapes)
        return MF_NOMEM("buckets");
    MF_TRY(map_parts(m, &p));
    MF_TRY(shard_exchange_join_rows(m, &p));
    MF_TRY(find_shapes(m, &p, shapes));
    for (int64_t id = 0; left > 0; id++) {
        shard_exchange_bucket b = { .id = id };

        MF_TRY(shard_exchange_find_bucket(m, &p, &b));
        if (b.n > 0)
            MF_TRY(emit_bucket(m, &p, shapes, &b, outs));
        left -= b.n;
    }
    return MF_OK;
}
