/* SPDX-License-Identifier: Apache-2.0 */
/* portable_graph.c - converts a run's graph to TensorFlow's ops. The meaning of _ShardMap is its
 * plain lowering (shard_map.c); each of the few remaining ops of ours is expressed with several
 * TensorFlow ops. */
#include "compiler/rewritten_graph.h"

#include <string.h>

/* x[from:to] */
static mf_status replace_rows(mf_graph *g, mf_node *n)
{
    const int64_t from = mf_node_int(n, "from"), to = mf_node_int(n, "to");
    const mf_output in[] = { n->inputs[0], mf_ints(g, &from, 1), mf_ints(g, &to, 1),
                             mf_ints(g, (int64_t[]){ 1 }, 1) };

    MF_TRY(mf_graph_status(g));
    return mf_node_become(g, n,
                          &(mf_node_spec){ .op = "StridedSlice", .inputs = in, .n_inputs = 4 });
}

/* Seed and step, modified by stream and shard: the numbers differ from ours, but are as
 * independent, and are reproducible when a step is repeated. */
static mf_output portable_graph_seed_of(mf_graph *g, const mf_node *n)
{
    const int64_t zero = 0, two = 2, one = 1;
    const mf_output clock = mf_apply(
        g, "StridedSlice",
        MF_IN(n->inputs[1], mf_ints(g, &zero, 1), mf_ints(g, &two, 1), mf_ints(g, &one, 1)));
    mf_output shift = { 0 };
    mf_tensor *t;

    if (mf_tensor_new(MF_DTYPE_I64, &two, 1, &t) != MF_OK)
        return shift;
    ((int64_t *)mf_tensor_data(t))[0] = mf_node_int(n, "stream");
    ((int64_t *)mf_tensor_data(t))[1] = (int64_t)((uint64_t)mf_node_int(n, "offset") << 32);
    shift = mf_constant(g, t, NULL);
    mf_tensor_free(t);
    return mf_apply(g, "AddV2", MF_IN(clock, shift));
}

static mf_status replace_uniform(mf_graph *g, mf_node *n)
{
    const mf_output in[] = { mf_apply(g, "Shape", MF_IN(n->inputs[0])),
                             portable_graph_seed_of(g, n) };

    MF_TRY(mf_graph_status(g));
    return mf_node_become(
        g, n, &(mf_node_spec){ .op = "StatelessRandomUniform", .inputs = in, .n_inputs = 2 });
}

/* Are all elements of all inputs finite? */
static mf_status replace_all_finite(mf_graph *g, mf_node *n)
{
    mf_output all = mf_scalar(g, MF_DTYPE_BOOL, 1);
    mf_node_spec spec = { .op = "Identity", .inputs = &all, .n_inputs = 1 };

    for (int i = 0; i < n->n_inputs; i++) {
        const mf_output finite = mf_apply(g, "IsFinite", MF_IN(n->inputs[i]));
        const mf_output flat =
            mf_apply(g, "Reshape", MF_IN(finite, mf_ints(g, (int64_t[]){ -1 }, 1)));

        all =
            mf_apply(g, "LogicalAnd",
                     MF_IN(all, mf_apply(g, "All", MF_IN(flat, mf_ints(g, (int64_t[]){ 0 }, 1)))));
    }
    MF_TRY(mf_graph_status(g));
    return mf_node_become(g, n, &spec);
}

static mf_status portable_graph_replace(mf_graph *g, mf_node *n)
{
    if (strcmp(n->op_name, "_Rows") == 0)
        return replace_rows(g, n);
    if (strcmp(n->op_name, "_SampleUniform") == 0)
        return replace_uniform(g, n);
    if (strcmp(n->op_name, "_AllFinite") == 0)
        return replace_all_finite(g, n);
    if (n->op_name[0] != '_' || strcmp(n->op_name, "_Arg") == 0 ||
        strcmp(n->op_name, "_Retval") == 0)
        return MF_OK;
    return MF_FAIL(MF_UNIMPLEMENTED,
                   "op %s is specific to Meshflow and unknown to TensorFlow's servers ({{node "
                   "%s}})",
                   n->op_name, n->name);
}

static mf_status make_portable(mf_compile *c)
{
    c->disabled = UINT64_MAX; /* only lowerings with the same meaning everywhere */
    MF_TRY(mf_pass_inline(c));
    for (int64_t i = 0; i < c->graph->n_nodes; i++) {
        if (!c->graph->nodes[i]->removed)
            MF_TRY(portable_graph_replace(c->graph, c->graph->nodes[i]));
    }
    return MF_OK;
}

mf_status mf_portable_graph(const mf_graph *graph, const mf_signature *sig, mf_rewritten *out)
{
    mf_compile c = { 0 };
    mf_status st;

    *out = (mf_rewritten){ 0 };
    st = mf_compile_begin(&c, graph, sig);
    if (st == MF_OK)
        st = make_portable(&c);
    if (st == MF_OK)
        st = mf_rewritten_graph(&c, sig, out);
    mf_compile_end(&c);
    return st;
}
