/* SPDX-License-Identifier: Apache-2.0 */
/* lower_grappler_ops.c - graphs from TensorFlow masters, with nodes that Grappler has fused or
 * lowered. */
#include "graph/graph.h"
#include "mf_test.h"
#include "tensor/tensor.h"

#include <meshflow/session.h>

static mf_graph *graph_new(void)
{
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    return g;
}

static mf_output floats(mf_graph *g, const int64_t *dims, int rank, const float *values)
{
    mf_tensor *t;
    mf_output o;

    T_OK(mf_tensor_new(MF_DTYPE_F32, dims, rank, &t));
    for (int64_t i = 0; i < mf_tensor_count(t); i++)
        ((float *)mf_tensor_data(t))[i] = values[i];
    o = mf_constant(g, t, NULL);
    mf_tensor_free(t);
    return o;
}
#define VECTOR(g, ...) floats(g, (const int64_t[]){ 2 }, 1, (const float[]){ __VA_ARGS__ })

static mf_status run(mf_graph *g, const char *feed, int32_t value, mf_tensor **out)
{
    const char *const fetch = "out:0";
    mf_session *s;
    mf_tensor *t;
    mf_status st;

    T_OK(mf_graph_status(g));
    T_OK(mf_tensor_new(MF_DTYPE_I32, NULL, 0, &t));
    *(int32_t *)mf_tensor_data(t) = value;
    T_OK(mf_session_new(g, &(mf_session_options){ .threads = 1 }, &s));
    st = mf_session_run(s, NULL, &feed, (const mf_tensor *const *)&t, feed ? 1 : 0, &fetch, 1, NULL,
                        0, out);
    mf_session_free(s);
    mf_tensor_free(t);
    return st;
}

static void expect(mf_graph *g, const char *feed, int32_t value, float first, float second)
{
    mf_tensor *t = NULL;

    T_OK(run(g, feed, value, &t));
    T_EQ_F(((const float *)mf_tensor_data(t))[0], first);
    T_EQ_F(((const float *)mf_tensor_data(t))[1], second);
    mf_tensor_free(t);
}

MF_TEST(switch_case_that_a_master_of_TensorFlow_lowered_takes_the_branch_or_the_last_one)
{
    mf_graph *g = graph_new();
    const mf_output k = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=int32 name='k'");
    const mf_output s = mf_applyf(g, "_SwitchN", MF_IN(VECTOR(g, 3, -4), k), "num_outs=3 T=float");
    const mf_output ways[] = { mf_apply(g, "Neg", MF_IN(s)),
                               mf_apply(g, "Square", MF_IN(((mf_output){ s.node, 1 }))),
                               mf_apply(g, "Abs", MF_IN(((mf_output){ s.node, 2 }))) };

    (void)mf_applyf(g, "Merge", MF_IN(ways[0], ways[1], ways[2]), "name='out'");
    expect(g, "k:0", 0, -3, 4);
    expect(g, "k:0", 1, 9, 16);
    expect(g, "k:0", 2, 3, 4);
    expect(g, "k:0", -1, 3, 4);
    expect(g, "k:0", 7, 3, 4);
    mf_graph_free(g);
}

static mf_output fused(mf_graph *g, const char *ops, int n)
{
    const mf_output x = floats(g, (const int64_t[]){ 1, 2 }, 2, (const float[]){ 1, 2 }),
                    w = floats(g, (const int64_t[]){ 2, 2 }, 2, (const float[]){ 1, -1, 2, -3 });

    return n ? mf_applyf(g, "_FusedMatMul", MF_IN(x, w, VECTOR(g, 10, 1)),
                         "T=float num_args=1 name='out' fused_ops=%s", ops)
             : mf_applyf(g, "_FusedMatMul", MF_IN(x, w),
                         "T=float num_args=0 name='out' fused_ops=%s", ops);
}

MF_TEST(layer_that_a_master_of_TensorFlow_fused_is_a_product_a_sum_and_an_activation)
{
    mf_graph *g = graph_new();

    (void)fused(g, "['BiasAdd', 'Relu']", 1);
    expect(g, NULL, 0, 15, 0);
    mf_graph_free(g);
    g = graph_new();
    (void)fused(g, "['BiasAdd']", 1);
    expect(g, NULL, 0, 15, -6);
    mf_graph_free(g);
    g = graph_new();
    (void)mf_applyf(g, "_UnaryOpsComposition", MF_IN(VECTOR(g, 3, -4)),
                    "T=float name='out' op_names=['Square', 'Neg']");
    expect(g, NULL, 0, -9, -16);
    mf_graph_free(g);
}

MF_TEST(layer_fused_with_an_unknown_op_names_node_and_op)
{
    mf_tensor *t = NULL;
    mf_graph *g = graph_new();

    (void)fused(g, "['BiasAdd', 'Wobble']", 1);
    T_FAILS(MF_UNIMPLEMENTED, "{{node out}}: _FusedMatMul with 'Wobble' is not supported",
            run(g, NULL, 0, &t));
    mf_graph_free(g);
    g = graph_new();
    (void)fused(g, "['BiasAdd']", 0);
    T_FAILS(MF_INVALID_ARGUMENT, "_FusedMatMul has too few arguments", run(g, NULL, 0, &t));
    mf_graph_free(g);
}
