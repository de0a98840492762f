/* SPDX-License-Identifier: Apache-2.0 */
/* recompute.c - gradients that use recomputed activations. */
#include "graph/recompute.h"

#include "compiler/compiler.h"
#include "mf_test.h"

#include <meshflow/session.h>

#include <stdio.h>
#include <string.h>

typedef struct net {
    mf_graph *g;
    mf_output x, loss, dx;
} net;

static mf_output op1(mf_graph *g, int layer, const char *op, mf_output a)
{
    g->mark.layer = layer;
    a = mf_apply(g, op, MF_IN(a));
    g->mark.layer = 0;
    return a;
}

/* x -> layer 1: Tanh, Sigmoid -> layer 2: Tanh -> layer 3: Sigmoid, Tanh -> Sum. */
static void build(net *n, bool random)
{
    mf_output y;

    T_OK(mf_graph_new(&n->g));
    n->x = mf_applyf(n->g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[1000] name='x'");
    y = op1(n->g, 1, "Tanh", n->x);
    if (random) {
        n->g->mark.layer = 1;
        y = mf_apply(
            n->g, "Mul",
            MF_IN(y, mf_applyf(n->g, "RandomUniform", MF_IN(mf_ints(n->g, (int64_t[]){ 1000 }, 1)),
                               "dtype=float seed=7 seed2=8 name='random'")));
        n->g->mark.layer = 0;
    }
    y = op1(n->g, 1, "Sigmoid", y);
    y = op1(n->g, 2, "Tanh", y);
    y = op1(n->g, 3, "Tanh", op1(n->g, 3, "Sigmoid", y));
    n->loss = mf_apply(n->g, "Sum", MF_IN(y, mf_ints(n->g, (int64_t[]){ 0 }, 1)));
    T_OK(mf_gradients(n->g, &n->loss, 1, &n->x, 1, NULL, &n->dx));
}

static int count(const mf_graph *g, const char *op, bool again)
{
    int n = 0;

    for (int64_t i = 0; i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];

        n += !node->removed && strcmp(node->op_name, op) == 0 &&
             again == (strstr(node->name, "recompute/") != NULL);
    }
    return n;
}

/* The gradient with respect to x, where x[i] = i / 1000. */
static mf_tensor *run(const net *n)
{
    mf_session *s;
    mf_tensor *x, *dx = NULL;
    char name[64];

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ 1000 }, 1, &x));
    for (int i = 0; i < 1000; i++)
        ((float *)mf_tensor_data(x))[i] = (float)i / 1000.0f;
    T_OK(mf_session_new(n->g, NULL, &s));
    (void)snprintf(name, sizeof name, "%s:%d", n->dx.node->name, n->dx.port);
    T_OK(mf_session_run(s, NULL, (const char *[]){ "x" }, (const mf_tensor *[]){ x }, 1,
                        (const char *[]){ name }, 1, NULL, 0, &dx));
    mf_session_free(s);
    mf_tensor_free(x);
    return dx;
}

static void check_same(bool random, const int64_t *segment)
{
    net kept, again;
    mf_tensor *a, *b;

    build(&kept, random);
    build(&again, random);
    T_OK(mf_recompute(again.g, segment, 3));
    T_OK(mf_graph_verify(again.g));
    a = run(&kept);
    b = run(&again);
    T_TRUE(memcmp(mf_tensor_data(a), mf_tensor_data(b), 4000) == 0);
    mf_tensor_free(a);
    mf_tensor_free(b);
    mf_graph_free(kept.g);
    mf_graph_free(again.g);
}

MF_TEST(recompute_gradients_are_the_same_bits)
{
    check_same(false, (int64_t[]){ 0, 1, 2, 3 });
    check_same(false, (int64_t[]){ 0, 1, 1, 2 });
    check_same(false, (int64_t[]){ 0, 1, 1, 1 });
    check_same(false, (int64_t[]){ 0, 0, 1, 0 });
    check_same(true, (int64_t[]){ 0, 1, 1, 2 });
}

/* Layers 1 and 2 as one segment: the inner nodes are Tanh and Sigmoid; the last Tanh is its output.
 */
MF_TEST(recompute_copies_inner_nodes_and_waits_for_gradients)
{
    net n;
    mf_node *from;

    build(&n, false);
    T_OK(mf_recompute(n.g, (int64_t[]){ 0, 1, 1, 0 }, 3));
    T_EQ(count(n.g, "Tanh", true), 1);
    T_EQ(count(n.g, "Sigmoid", true), 1);
    T_EQ(count(n.g, "Identity", true), 1);
    from = mf_graph_find(n.g, "recompute/from/x");
    T_TRUE(from != NULL);
    T_EQ(from->n_controls, 1);
    T_TRUE(mf_node_is_gradient(from->controls[0]));
    T_EQ(mf_node_layer(from->controls[0]), 3);
    T_EQ(mf_node_layer(mf_graph_find(n.g, "recompute/Tanh")), 1);
    T_TRUE(mf_node_is_gradient(mf_graph_find(n.g, "recompute/Tanh")));
    for (int64_t i = 0; i < n.g->n_nodes; i++) {
        const mf_node *g = n.g->nodes[i];

        for (int k = 0; strcmp(g->op_name, "SigmoidGrad") == 0 && k < g->n_inputs; k++)
            T_TRUE(g->inputs[k].node != mf_graph_find(n.g, "Sigmoid"));
    }
    mf_graph_free(n.g);
}

/* The layer has only inputs and outputs: nothing can be recomputed. */
MF_TEST(recompute_skips_layers_without_inner_nodes)
{
    net n;
    int64_t before;

    build(&n, false);
    before = n.g->n_nodes;
    T_OK(mf_recompute(n.g, (int64_t[]){ 0, 0, 1, 0 }, 3));
    T_EQ(n.g->n_nodes, before);
    mf_graph_free(n.g);
}

/* A random number is drawn once; values computed from it may be recomputed. */
MF_TEST(recompute_keeps_outputs_of_stateful_ops)
{
    net n;

    build(&n, true);
    T_OK(mf_recompute(n.g, (int64_t[]){ 0, 1, 1, 0 }, 3));
    T_EQ(count(n.g, "RandomUniform", true), 0);
    T_TRUE(mf_graph_find(n.g, "recompute/from/random") != NULL);
    T_EQ(count(n.g, "Mul", true), 1);
    mf_graph_free(n.g);
}

MF_TEST(recompute_copies_survive_common_subexpression_elimination)
{
    mf_compile c = { 0 };
    net n;

    build(&n, false);
    T_OK(mf_recompute(n.g, (int64_t[]){ 0, 1, 1, 0 }, 3));
    T_OK(mf_passes_parse("fuse", &c.disabled));
    T_OK(mf_compile_begin(&c, n.g,
                          &(mf_signature){ .feeds = &n.x,
                                           .feed_shapes = &MF_SHAPE(1000),
                                           .fetches = &n.dx,
                                           .n_feeds = 1,
                                           .n_fetches = 1 }));
    T_OK(mf_compile_passes(&c));
    T_EQ(count(c.graph, "Tanh", true), 1);
    T_EQ(count(c.graph, "Sigmoid", true), 1);
    T_EQ(count(c.graph, "Tanh", false), 3);
    mf_compile_end(&c);
    mf_graph_free(n.g);
}

/* The second half of a layer depends on an op outside of it: copies must not wait for themselves.
 */
MF_TEST(recompute_a_segment_that_is_entered_twice)
{
    net n = { 0 };
    mf_output y, z;

    T_OK(mf_graph_new(&n.g));
    n.x = mf_applyf(n.g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[1000] name='x'");
    y = op1(n.g, 1, "Sigmoid", op1(n.g, 1, "Tanh", n.x));
    y = op1(n.g, 0, "Square", y);
    z = op1(n.g, 1, "Tanh", op1(n.g, 1, "Sigmoid", y));
    n.loss = mf_apply(n.g, "Sum", MF_IN(op1(n.g, 2, "Tanh", z), mf_ints(n.g, (int64_t[]){ 0 }, 1)));
    T_OK(mf_gradients(n.g, &n.loss, 1, &n.x, 1, NULL, &n.dx));
    T_OK(mf_recompute(n.g, (int64_t[]){ 0, 1, 0 }, 2));
    T_OK(mf_graph_verify(n.g));
    T_EQ(count(n.g, "Sigmoid", true), 1);
    T_EQ(count(n.g, "Tanh", true), 1);
    mf_tensor_free(run(&n));
    mf_graph_free(n.g);
}
