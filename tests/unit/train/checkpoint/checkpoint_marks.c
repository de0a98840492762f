/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_marks.c - nodes are marked with their layer: forward nodes, gradients, variables and
 * slots; also in the function of a step, which computes the shards. */
#include "graph/function.h"
#include "mf_test.h"
#include "train/step/trainer.h"

#include <string.h>

/* Layers 1, 2 and 3; the second has parts. */
static void build(mf_model **m, mf_trainer **t, const char *precision)
{
    mf_output x, y;

    T_OK(mf_model_new(m));
    x = mf_model_input(*m, "x", MF_DTYPE_F32, (int64_t[]){ 4, 8 }, 2);
    y = mf_layer(*m, "Dense", MF_IN(x), "units=8 name=first");
    y = mf_layer(*m, "TransformerBlock", MF_IN(y), "num_heads=2 units=16 name=block");
    y = mf_layer(*m, "Dense", MF_IN(y), "units=3 name=last");
    mf_model_output(*m, y);
    T_OK(mf_model_compile(*m, &(mf_compile_options){ .optimizer = "adam", .precision = precision },
                          t));
}

static int64_t layer_by_name(const char *name)
{
    return strncmp(name, "first/", 6) == 0   ? 1
           : strncmp(name, "block/", 6) == 0 ? 2
           : strncmp(name, "last/", 5) == 0  ? 3
                                             : 0;
}

static mf_node *get(const mf_model *m, const char *name)
{
    mf_node *n = mf_graph_find(m->graph, name);

    if (!n)
        T_FAIL("no node '%s'", name);
    return n;
}

MF_TEST(train_marks_nodes_know_their_layer)
{
    mf_model *m;
    mf_trainer *t;

    build(&m, &t, NULL);
    for (int64_t i = 0; i < m->graph->n_nodes; i++) {
        const mf_node *n = m->graph->nodes[i];

        if (layer_by_name(n->name) && mf_node_layer(n) != layer_by_name(n->name))
            T_FAIL("%s is of layer %lld", n->name, (long long)mf_node_layer(n));
        if ((strncmp(n->name, "gradients/", 10) == 0) != mf_node_is_gradient(n))
            T_FAIL("%s: gradient %d", n->name, mf_node_is_gradient(n));
    }
    T_EQ(mf_node_layer(get(m, "block/dense1/kernel")), 2);
    T_EQ(mf_node_layer(get(m, "last/kernel/Adam")), 3); /* the slots of a weight */
    T_EQ(mf_node_layer(get(m, "x")), 0);
    T_EQ(mf_node_layer(get(m, "label")), 0);
    mf_trainer_free(t);
    mf_model_free(m);
}

/* The number of products in the forward and backward pass, by layer. */
static void count_products(const mf_graph *g, int forward[4], int back[4])
{
    for (int64_t i = 0; i < g->n_nodes; i++) {
        const mf_node *n = g->nodes[i];

        if (strstr(n->op_name, "MatMul"))
            (mf_node_is_gradient(n) ? back : forward)[mf_node_layer(n)]++;
    }
}

static void check_body(const char *precision)
{
    int forward[4] = { 0 }, back[4] = { 0 };
    mf_model *m;
    mf_trainer *t;
    mf_graph *body;

    build(&m, &t, precision);
    T_OK(mf_function_body(m->graph, mf_graph_function(m->graph, "train_step"), NULL, 0, &body));
    count_products(body, forward, back);
    for (int i = 1; i <= 3; i++)
        T_EQ(forward[i], i == 2 ? 8 : 1); /* queries, keys, values, scores, sums, three more */
    T_EQ(back[1], 1); /* no gradient of the fed input is needed */
    T_EQ(back[2], 16);
    T_EQ(back[3], 2);
    T_EQ(forward[0] + back[0], 0);
    mf_graph_free(body);
    mf_trainer_free(t);
    mf_model_free(m);
}

MF_TEST(train_marks_are_in_the_function_of_a_step)
{
    check_body(NULL);
    check_body("bf16");
}
