/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_moe.c - a mixture of experts whose samples and experts are sharded along the same axis: only
 * samples are sent to their experts and back, and no weights of experts. */
#include "models/model.h"
#include "unit/spmd/mesh_test.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 8, PLACES = 6, WIDTH = 8, UNITS = 16, EXPERTS = 4, CAPACITY = 4, STEPS = 3 };

/* A dense layer, experts, and a gradient descent step on the sum of squares and the layer's loss:
 * targets "init" and "train"; fetches "w0" and so on read the weights. */
typedef struct net {
    mf_model *model;
    int n; /* weights */
} net;

static mf_output sum(mf_graph *g, mf_output x, int rank)
{
    return mf_apply(g, "Sum", MF_IN(x, mf_ints(g, (int64_t[]){ 0, 1, 2 }, rank)));
}

static net build(void)
{
    mf_output x, y, loss, one, weights[8], d[8];
    mf_node *init, *train;
    mf_model *m;
    net n;

    T_OK(mf_model_new(&m));
    mf_graph *g = mf_model_graph(m);
    x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ PLACES, WIDTH }, 2);
    y = mf_layer(m, "Dense", MF_IN(x), "units=%d use_bias=false", WIDTH);
    y = mf_layer(m, "MixtureOfExperts", MF_IN(y), "experts=%d units=%d", EXPERTS, UNITS);
    T_OK(mf_model_status(m));
    loss = mf_apply(g, "AddV2",
                    MF_IN(sum(g, mf_apply(g, "Square", MF_IN(y)), 3), sum(g, m->losses[0], 1)));
    n = (net){ m, (int)m->n_weights };
    T_EQ(n.n, 4);
    for (int i = 0; i < n.n; i++)
        weights[i] = m->weights[i]->value;
    one = mf_scalar(g, MF_DTYPE_F32, 1); /* otherwise the loss would be summed only for its shape */
    T_OK(mf_gradients(g, &loss, 1, weights, n.n, &one, d));
    init = mf_applyf(g, "NoOp", MF_NO_IN, "name='init'").node;
    train = mf_applyf(g, "NoOp", MF_NO_IN, "name='train'").node;
    for (int i = 0; i < n.n; i++) {
        const mf_output handle = m->weights[i]->handle;

        mf_control(g, init,
                   mf_apply(g, "AssignVariableOp", MF_IN(handle, m->weights[i]->initial)).node);
        mf_control(g, train,
                   mf_apply(g, "ResourceApplyGradientDescent",
                            MF_IN(handle, mf_scalar(g, MF_DTYPE_F32, 0.01), d[i]))
                       .node);
        (void)mf_applyf(g, "ReadVariableOp", MF_IN(handle), "dtype=float name='w%d'", i);
    }
    T_OK(mf_graph_status(g));
    return n;
}

static void train(mf_session *s, int steps)
{
    const char *const feeds[] = { "seed", "x" }, *const targets[] = { "init", "train" };
    mf_tensor *x = mesh_numbers(&MF_SHAPE(BATCH, PLACES, WIDTH), 7), *seed;
    const mf_tensor *values[2];

    T_OK(mf_tensor_new(MF_DTYPE_I64, NULL, 0, &seed));
    *(int64_t *)seed->data = 3;
    values[0] = seed;
    values[1] = x;
    T_OK(mf_session_run(s, NULL, feeds, values, 1, NULL, 0, targets, 1, NULL));
    for (int i = 0; i < steps; i++)
        T_OK(mf_session_run(s, NULL, feeds + 1, values + 1, 1, NULL, 0, targets + 1, 1, NULL));
    mf_tensor_free(x);
    mf_tensor_free(seed);
}

/* The weights after some steps are those of one device. */
static void compare(const net *n, mf_session *one, mf_session *mesh, bool exact)
{
    for (int i = 0; i < n->n; i++) {
        char name[8];
        const char *fetch = name;
        mf_tensor *want = NULL, *got = NULL;

        (void)snprintf(name, sizeof name, "w%d", i);
        T_OK(mf_session_run(one, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &want));
        T_OK(mf_session_run(mesh, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &got));
        if (exact)
            T_TRUE(memcmp(want->data, got->data, (size_t)want->count * 4) == 0);
        else
            T_TRUE(mesh_distance(want, got) < 1e-5);
        mf_tensor_free(want);
        mf_tensor_free(got);
    }
}

static void check(const char *mesh, const char *layout, bool exact, int64_t bytes)
{
    const net n = build();
    const mf_mesh_options o = { .mesh = mesh, .layout = layout, .exact = exact };
    mf_mesh_counts before, after;
    mf_session *one, *many;

    T_OK(mf_session_new(mf_model_graph(n.model), NULL, &one));
    T_OK(mf_mesh_session_new(mf_model_graph(n.model), &o, &many));
    train(one, 0);
    train(many, 0);
    T_OK(mf_mesh_session_counts(many, 0, &before));
    train(one, STEPS);
    train(many, STEPS);
    T_OK(mf_mesh_session_counts(many, 0, &after));
    T_EQ(after.planned_bytes, after.received_bytes);
    if (bytes > 0)
        T_EQ(after.received_bytes - before.received_bytes, STEPS * bytes);
    compare(&n, one, many, exact);
    mf_session_free(one);
    mf_session_free(many);
    mf_model_free(n.model);
}

/* Each of four devices has two samples and one expert. Of [experts, samples, capacity, width] it
 * has two samples of all experts, and receives the six other samples of its expert, which is the
 * minimum. This happens four times: to the experts and back, forward and backward. Gradients of the
 * two replicated weights (64 and 32 numbers) come from three other devices. */
MF_TEST(moe_dispatch_is_an_all_to_all_along_the_samples_axis)
{
    const int64_t all_to_all = 6 * CAPACITY * WIDTH * 4;
    const int64_t gradients = 3 * (WIDTH * WIDTH + WIDTH * EXPERTS) * 4;

    check("all:4", "batch:all;experts:all", false, 4 * all_to_all + gradients);
}

/* Each of two devices has four samples and two experts, and receives the four other samples.
 * Gradients come from the other device. */
MF_TEST(moe_all_to_all_sends_the_fewest_bytes_between_two_devices)
{
    check("all:2", "batch:all;experts:all", false,
          4 * (2 * 4 * CAPACITY * WIDTH * 4) + (WIDTH * WIDTH + WIDTH * EXPERTS) * 4);
}

MF_TEST(moe_trains_the_same_under_every_layout)
{
    static const char *const layouts[][2] = {
        { "all:4", "experts:all" },
        { "rows:2;cols:2", "batch:rows;experts:cols" },
        { "rows:2;cols:2", "experts:rows;ff:cols" },
        { "all:3", "batch:all;experts:all" },
        { "rows:2;cols:2", "batch:rows;batch:cols;experts:cols" },
    };

    for (int i = 0; i < MF_COUNT(layouts); i++) {
        check(layouts[i][0], layouts[i][1], false, 0);
        check(layouts[i][0], layouts[i][1], true, 0);
    }
}
