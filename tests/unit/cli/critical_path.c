/* SPDX-License-Identifier: Apache-2.0 */
/* critical_path.c - the chain of nodes that determines the time of a traced run. */
#include "cli/critical_path.h"

#include "mf_test.h"

#include <string.h>

/* Records that the node ran for this time and ends now. */
static void took(mf_trace *t, const mf_graph *g, const char *name, int64_t seconds)
{
    const mf_node *node = mf_map_find(&g->names, name);

    T_TRUE(node != NULL);
    mf_trace_add(t, node->name, node->op_name, mf_trace_now() - seconds * 1000000000);
}

/* x -> a -> b -> y, x -> c -> y, and d after c. */
static mf_graph *two_ways(void)
{
    mf_graph *g;
    mf_output x, b, c;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'");
    b = mf_applyf(g, "Neg", MF_IN(mf_applyf(g, "Neg", MF_IN(x), "name='a'")), "name='b'");
    c = mf_applyf(g, "Abs", MF_IN(x), "name='c'");
    (void)mf_applyf(g, "AddV2", MF_IN(b, c), "name='y'");
    (void)mf_applyf(g, "NoOp", MF_NO_IN, "name='d'");
    T_OK(mf_graph_status(g));
    return g;
}

MF_TEST(critical_path_is_the_chain_that_took_longest)
{
    mf_graph *g = two_ways();
    mf_critical_path p;
    mf_trace *t;

    T_OK(mf_trace_new(&t));
    took(t, g, "a", 30);
    took(t, g, "b", 40);
    took(t, g, "c", 60); /* longer than a or b, shorter than both */
    took(t, g, "y", 10);
    took(t, g, "d", 50);
    T_OK(mf_critical_path_find(g, t, &p));
    T_EQ(p.n, 3);
    T_STREQ(p.nodes[0].node->name, "a");
    T_STREQ(p.nodes[1].node->name, "b");
    T_STREQ(p.nodes[2].node->name, "y");
    T_EQ(p.n_ran, 5);
    T_NEAR((double)p.ns / 1e9, 80, 5);
    T_NEAR((double)p.all_ns / 1e9, 190, 5);
    mf_critical_path_deinit(&p);
    mf_trace_free(t);
    mf_graph_free(g);
}

MF_TEST(critical_path_sums_executions_and_attributes_functions_to_their_call)
{
    mf_graph *g = two_ways(), *inside;
    mf_critical_path p;
    mf_trace *t;
    mf_buf out = { 0 };

    T_OK(mf_graph_new(&inside)); /* as the function of node c */
    (void)mf_applyf(inside, "NoOp", MF_NO_IN, "name='c/deep/inside'");
    T_OK(mf_trace_new(&t));
    took(t, g, "a", 30);
    took(t, g, "c", 20);
    took(t, g, "c", 20);
    took(t, inside, "c/deep/inside", 20);
    T_OK(mf_critical_path_find(g, t, &p));
    T_EQ(p.n, 1);
    T_STREQ(p.nodes[0].node->name, "c");
    T_NEAR((double)p.ns / 1e9, 60, 5);
    mf_critical_path_text(&p, &out);
    T_OK(mf_buf_finish(&out));
    T_TRUE(strstr(out.data, "critical path: 1 nodes of 4 executions, ") &&
           strstr(out.data, "Abs  c\n"));
    mf_buf_deinit(&out);
    mf_critical_path_deinit(&p);
    mf_trace_free(t);
    mf_graph_free(inside);
    mf_graph_free(g);
}

MF_TEST(critical_path_of_an_empty_trace_is_empty)
{
    mf_graph *g = two_ways();
    mf_critical_path p;
    mf_trace *t;

    T_OK(mf_trace_new(&t));
    T_OK(mf_critical_path_find(g, t, &p));
    T_EQ(p.n, 0);
    T_EQ(p.ns, 0);
    mf_critical_path_deinit(&p);
    mf_trace_free(t);
    mf_graph_free(g);
}
