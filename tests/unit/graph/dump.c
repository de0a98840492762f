/* SPDX-License-Identifier: Apache-2.0 */
/* dump.c - graphs as text and for Graphviz. */
#include "graph/graph.h"
#include "mf_test.h"

#include <string.h>

static mf_graph *small_graph(void)
{
    mf_graph *g;
    mf_output x, y;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[2,?] name='x'");
    y = mf_applyf(g, "MatMul", MF_IN(x, x), "transpose_b=true name='y' device='/cpu:0'");
    mf_control(g, mf_applyf(g, "NoOp", MF_NO_IN, "name='end'").node, y.node);
    T_OK(mf_graph_status(g));
    return g;
}

MF_TEST(dump_prints_one_line_per_node_without_defaults)
{
    mf_graph *g = small_graph();
    mf_buf text = { 0 };

    mf_graph_print(g, &text);
    T_STREQ(text.data, "x = Placeholder() {dtype=float, shape=shape[2,?]} : float\n"
                       "y = MatMul(x:0, x:0) {T=float, transpose_b=true} @/cpu:0 : float\n"
                       "end = NoOp(^y)\n");
    mf_buf_deinit(&text);
    mf_graph_free(g);
}

MF_TEST(dump_for_graphviz_has_every_node_and_edge)
{
    mf_graph *g = small_graph();
    mf_buf text = { 0 };

    mf_graph_dot(g, &text);
    T_TRUE(strstr(text.data, "label=\"y\\nMatMul\"") != NULL);
    T_TRUE(strstr(text.data, "n0 -> n1;") != NULL);
    T_TRUE(strstr(text.data, "n1 -> n2 [style=dashed];") != NULL);
    mf_buf_deinit(&text);
    mf_graph_free(g);
}
