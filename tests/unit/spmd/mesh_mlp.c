/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_mlp.c - an MLP trains on one device and under data-parallel, model-parallel and mixed
 * layouts. */
#include "unit/spmd/mesh_test.h"

#include <stdio.h>

typedef struct layout_case {
    const char *mesh, *layout;
    bool exact;
    double most; /* distance; 0: the same bits */
    int64_t variables; /* numbers that device 0 holds, including slots; 0: not checked */
} layout_case;

static void free_all(mf_tensor **t)
{
    for (int i = 0; i < MESH_MLP_RESULTS; i++)
        mf_tensor_free(t[i]);
}

static void compare(const mesh_mlp *sizes, const layout_case *c)
{
    mf_graph *g = mesh_mlp_graph(sizes);
    mf_tensor *one[MESH_MLP_RESULTS], *many[MESH_MLP_RESULTS];
    mf_session *a, *b;
    mf_mesh_counts counts;
    double most = 0;

    T_OK(mf_session_new(g, &(mf_session_options){ .threads = 2 }, &a));
    T_OK(mf_mesh_session_new(
        g,
        &(mf_mesh_options){
            .mesh = c->mesh, .layout = c->layout, .exact = c->exact, .session.threads = 2 },
        &b));
    mesh_mlp_train(a, sizes, 3, one);
    mesh_mlp_train(b, sizes, 3, many);
    for (int i = 0; i < MESH_MLP_RESULTS; i++) {
        const double d = mesh_distance(one[i], many[i]);

        most = d > most ? d : most;
    }
    T_OK(mf_mesh_session_counts(b, 0, &counts));
    printf("# %s %s%s: distance %.2g, variables %lld, received %lld in %lld collectives\n", c->mesh,
           c->layout, c->exact ? " exact" : "", most, (long long)counts.variable_bytes / 4,
           (long long)counts.received_bytes, (long long)counts.collectives);
    T_TRUE(most <= c->most);
    for (int p = 0; mf_mesh_session_counts(b, p, &counts) == MF_OK; p++)
        T_EQ(counts.planned_bytes, counts.received_bytes);
    T_OK(mf_mesh_session_counts(b, 0, &counts));
    T_TRUE(0 < counts.busy_ns && counts.busy_ns <= counts.run_ns);
    if (c->variables)
        T_EQ(counts.variable_bytes, 4 * c->variables);
    free_all(one);
    free_all(many);
    mf_session_free(a);
    mf_session_free(b);
    mf_graph_free(g);
}

static void compare_all(const mesh_mlp *sizes, const layout_case *cases, int n)
{
    for (int i = 0; i < n; i++)
        compare(sizes, &cases[i]);
}

/* Weights and slots of a device: twice (pixels * hidden + hidden + hidden * classes + classes),
 * where hidden may be sharded. */
MF_TEST(mesh_mlp_trains_under_every_layout_as_on_one_device)
{
    static const mesh_mlp sizes = { 12, 20, 16, 10 };
    static const layout_case cases[] = {
        { "rows:2;cols:2", "", false, 0, 2 * (320 + 16 + 160 + 10) },
        { "rows:2;cols:2", "batch:rows", false, 1e-6, 2 * (320 + 16 + 160 + 10) },
        { "rows:2;cols:2", "hidden:cols", false, 1e-6, 2 * (160 + 8 + 80 + 10) },
        { "rows:2;cols:2", "batch:rows;hidden:cols", false, 1e-6, 2 * (160 + 8 + 80 + 10) },
        { "all:4", "batch:all", false, 1e-6, 0 },
        { "all:4", "hidden:all", false, 1e-6, 2 * (80 + 4 + 40 + 10) },
        { "all:4", "pixels:all", false, 1e-6, 0 },
        { "rows:2;cols:2", "batch:rows;batch:cols", false, 1e-6, 0 },
        { "rows:2;cols:2", "hidden:rows;classes:cols", false, 1e-6, 2 * (160 + 8 + 40 + 5) },
        { "rows:2;cols:2", "batch:rows", true, 0, 0 },
        { "rows:2;cols:2", "hidden:cols", true, 0, 2 * (160 + 8 + 80 + 10) },
        { "rows:2;cols:2", "batch:rows;hidden:cols", true, 0, 0 },
        { "rows:2;cols:2", "pixels:rows;classes:cols", true, 0, 0 },
    };

    compare_all(&sizes, cases, MF_COUNT(cases));
}

MF_TEST(mesh_sizes_need_not_be_multiples_of_the_mesh)
{
    static const mesh_mlp sizes = { 7, 11, 5, 3 };
    static const layout_case cases[] = {
        { "a:3", "batch:a", false, 1e-6, 0 },
        { "a:3", "hidden:a", false, 1e-6, 2 * (11 * 2 + 2 + 2 * 3 + 3) },
        { "a:2;b:3", "batch:a;hidden:b", false, 1e-6, 0 },
        { "a:2;b:3", "batch:b;hidden:a", true, 0, 0 },
        { "a:7", "hidden:a", false, 1e-6, 0 }, /* two devices have no elements */
        { "a:2,1", "hidden:a", false, 1e-6, 2 * (11 * 3 + 3 + 3 * 3 + 3) },
        { "a:3,1;b:2", "batch:a;hidden:b", false, 1e-6, 0 },
        { "a:9,1", "batch:a", true, 0, 0 },
        { "a:4", "classes:a", true, 0, 0 },
    };

    compare_all(&sizes, cases, MF_COUNT(cases));
}

/* Slots are halves or quarters; weights are replicated or sharded differently. */
MF_TEST(mesh_slots_may_be_sharded_where_weights_are_replicated)
{
    static const mesh_mlp sizes = { 12, 20, 16, 10 };
    static const int64_t all = 320 + 16 + 160 + 10;
    static const layout_case cases[] = {
        { "rows:2;cols:2", "batch:rows;slots:rows", false, 1e-6, all + all / 2 },
        { "all:4", "batch:all;slots:all;gradients:all", false, 1e-6, all + 80 + 4 + 40 + 3 },
        { "rows:2;cols:2", "hidden:cols;slots:rows", false, 1e-6, 258 + 80 + 4 + 40 + 5 },
        { "rows:2;cols:2", "weights:rows;slots:cols", false, 1e-6, all / 2 + 80 + 4 + 40 + 3 },
        { "rows:2;cols:2", "batch:rows;slots:rows", true, 0, all + all / 2 },
        { "a:3", "hidden:a;slots:a", true, 0, 0 },
    };

    compare_all(&sizes, cases, MF_COUNT(cases));
}

MF_TEST(mesh_contradicting_layouts_of_a_graph_are_rejected)
{
    static const mesh_mlp sizes = { 12, 20, 16, 10 };
    mf_graph *g = mesh_mlp_graph(&sizes);
    mf_session *s;

    T_FAILS(MF_INVALID_ARGUMENT, "two of its dimensions are split along the axis 'a'",
            mf_mesh_session_new(
                g, &(mf_mesh_options){ .mesh = "a:2", .layout = "hidden:a;pixels:a" }, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "needs slots:a or weights:a",
            mf_mesh_session_new(
                g, &(mf_mesh_options){ .mesh = "a:2;b:2", .layout = "slots:b;gradients:a" }, &s));
    mf_graph_free(g);
}

/* The last batch of an epoch is smaller; its step is not counted as a smaller graph. */
MF_TEST(mesh_step_is_counted_on_a_full_batch)
{
    const mesh_mlp whole = { .batch = 12, .pixels = 5, .hidden = 6, .classes = 4 },
                   last = { .batch = 5, .pixels = 5, .hidden = 6, .classes = 4 };
    mf_graph *g = mesh_mlp_graph(&whole);
    mf_tensor *results[MESH_MLP_RESULTS];
    mf_mesh_counts counts;
    mf_session *s;

    T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = "all:2", .layout = "batch:all" }, &s));
    mesh_mlp_train(s, &whole, 3, results);
    free_all(results);
    mesh_mlp_train(s, &last, 1, results); /* compiles the graph; not counted */
    free_all(results);
    T_OK(mf_mesh_session_counts(s, 0, &counts));
    T_TRUE(counts.run_ns > 0);
    mf_session_free(s);
    mf_graph_free(g);
}
