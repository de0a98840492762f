/* SPDX-License-Identifier: Apache-2.0 */
/* portable_graph.c - a run's graph, converted to TensorFlow's ops only, gives the same results.
 * (tests/cli/server.sh trains with it; tests/tf/client.py runs it on TensorFlow servers.) */
#include "base/mem.h"
#include "compiler/rewritten_graph.h"
#include "mf_test.h"

#include <meshflow/session.h>

#include <string.h>

/* The sum over shards of sum(x * w), and x * w, computed with a call of "twice". */
static mf_graph *sharded(void)
{
    mf_graph *g;
    mf_output x, w, a, y, part;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[?,3] name='x'");
    w = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[3] name='w'");
    a = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='a'");
    mf_define(g, "twice", MF_IN(a), MF_IN(mf_apply(g, "AddV2", MF_IN(a, a))));
    y = mf_apply(g, "twice", MF_IN(mf_apply(g, "Mul", MF_IN(x, w))));
    part = mf_apply(g, "Sum", MF_IN(y, mf_ints(g, (int64_t[]){ 0, 1 }, 2)));
    mf_define(g, "part", MF_IN(x, w), MF_IN(part, y));
    (void)mf_applyf(g, "_ShardMap", MF_IN(x, w),
                    "f=@part shards=3 Tbatched=[float] Tshared=[float] Tout=[float,float] "
                    "join=['sum','concat'] name='map'");
    T_OK(mf_graph_status(g));
    return g;
}

static mf_tensor *numbers(const int64_t *dims, int rank)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F32, dims, rank, &t));
    for (int64_t i = 0; i < mf_tensor_count(t); i++)
        ((float *)mf_tensor_data(t))[i] = 0.37f * (float)(i + 1);
    return t;
}

static void run(const mf_graph *g, const char *const *feeds, const mf_tensor *const *values,
                const char *const *fetches, mf_tensor **out)
{
    mf_session *s;

    T_OK(mf_session_new(g, &(mf_session_options){ .threads = 1, .disable = "shards" }, &s));
    T_OK(mf_session_run(s, NULL, feeds, values, 2, fetches, 2, NULL, 0, out));
    mf_session_free(s);
}

MF_TEST(portable_graph_has_only_tensorflow_ops_and_the_same_results)
{
    static const char *const feeds[] = { "x", "w" }, *const fetches[] = { "map:0", "map:1" };
    mf_graph *g = sharded();
    mf_tensor *x = numbers((int64_t[]){ 7, 3 }, 2), *w = numbers((int64_t[]){ 3 }, 1);
    const mf_tensor *values[] = { x, w };
    mf_tensor *before[2] = { 0 }, *after[2] = { 0 };
    mf_node *map = mf_graph_find(g, "map");
    const mf_output in[] = { { mf_graph_find(g, "x"), 0 }, { mf_graph_find(g, "w"), 0 } };
    const mf_output out[] = { { map, 0 }, { map, 1 } };
    const mf_shape shapes[] = { MF_SHAPE(7, 3), MF_SHAPE(3) };
    mf_rewritten r;

    T_OK(mf_portable_graph(
        g,
        &(mf_signature){
            .feeds = in, .fetches = out, .feed_shapes = shapes, .n_feeds = 2, .n_fetches = 2 },
        &r));
    for (int64_t i = 0; i < r.graph->n_nodes; i++)
        T_TRUE(r.graph->nodes[i]->op && r.graph->nodes[i]->op_name[0] != '_');
    run(g, feeds, values, fetches, before);
    run(r.graph, r.feeds, values, r.fetches, after);
    for (int i = 0; i < 2; i++) {
        T_EQ(mf_tensor_count(before[i]), mf_tensor_count(after[i]));
        T_EQ(memcmp(mf_tensor_data(before[i]), mf_tensor_data(after[i]),
                    (size_t)mf_tensor_count(before[i]) * sizeof(float)),
             0);
        mf_tensor_free(before[i]);
        mf_tensor_free(after[i]);
    }
    mf_tensor_free(x);
    mf_tensor_free(w);
    mf_graph_free(r.graph);
    mf_graph_free(g);
}

MF_TEST(portable_graph_names_an_op_without_equivalent)
{
    mf_graph *g;
    mf_output x, y;
    mf_rewritten r;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'");
    y = mf_applyf(g, "_MaxPoolTaps", MF_IN(x), "ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'");
    T_OK(mf_graph_status(g));
    T_FAILS(
        MF_UNIMPLEMENTED, "op _MaxPoolTaps is specific to Meshflow",
        mf_portable_graph(
            g, &(mf_signature){ .feeds = &x, .fetches = &y, .n_feeds = 1, .n_fetches = 1 }, &r));
    mf_graph_free(g);
}
