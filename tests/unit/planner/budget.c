/* SPDX-License-Identifier: Apache-2.0 */
/* budget.c - planning within a time limit: measured kernels, predicted pipelines, and the beam
 * search over layouts. The limits are so short or so long that the speed of the machine does not
 * matter. */
#include "planner/search.h"
#include "unit/spmd/mesh_test.h"

#include <stdio.h>

static const mesh_mlp SIZES = { 12, 20, 16, 10 };

static const char *const FEEDS[] = { "x", "label" }, *const FETCHES[] = { "loss:0" },
                         *const TARGETS[] = { "train" };

/* The two layers are layers of a model. */
static mf_graph *layered(void)
{
    static const char *const names[] = { "w1", "b1", "w2", "b2" };
    mf_graph *g = mesh_mlp_graph(&SIZES);

    for (int i = 0; i < MF_COUNT(names); i++) {
        const mf_attr layer = { .kind = MF_ATTR_INT, .n = 1, .i = 1 + i / 2 };

        T_OK(mf_node_set_attr(g, mf_graph_find(g, names[i]), "_layer", &layer));
    }
    return g;
}

typedef struct wanted {
    const char *mesh;
    double pipeline_seconds;
    int64_t kernel_ns, limit;
} wanted;

typedef struct found {
    int64_t kernels;
    mf_plan_result plan;
} found;

/* kernel_ns 0: nothing is measured, all times are known. */
static found search(const mf_graph *g, const wanted *w)
{
    const mf_shape shapes[] = { MF_SHAPE(SIZES.batch, SIZES.pixels), MF_SHAPE(SIZES.batch) };
    const mf_planned_step step = { .graph = g,
                                   .names = { FEEDS, FETCHES, TARGETS, 2, 1, 1 },
                                   .feed_shapes = shapes };
    mf_planned_machine m = { .links = { 1000, 5000, 1000, 1 }, .threads = 1, .cores = 2 };
    mf_mesh mesh;
    const mf_plan_request r = { .step = &step,
                                .machine = &m,
                                .meshes = &mesh,
                                .n_meshes = 1,
                                .pipeline_seconds = w->pipeline_seconds,
                                .limit = w->limit };
    found f;

    T_OK(w->kernel_ns ? mf_op_times_new(1, 1, w->kernel_ns, &m.times)
                      : mf_op_times_fixed(1, &m.times));
    T_OK(mf_mesh_parse(w->mesh, &mesh));
    T_OK(mf_plan_search(&r, &f.plan));
    f.kernels = mf_op_times_count(m.times);
    mf_op_times_free(m.times);
    return f;
}

/* The planner then uses known times of the op, or none, and still chooses a layout. */
MF_TEST(kernels_are_measured_within_the_time_limit)
{
    mf_graph *g = layered();
    found little = search(g, &(wanted){ "all:2", -1, 1, 0 });
    found enough = search(g, &(wanted){ "all:2", -1, (int64_t)1e15, 0 });

    T_EQ(little.kernels, 1); /* the first took longer than a nanosecond */
    T_TRUE(enough.kernels > 10);
    T_EQ(little.plan.n, enough.plan.n);
    T_EQ(little.plan.all[0].status, MF_OK);
    mf_plan_result_deinit(&little.plan);
    mf_plan_result_deinit(&enough.plan);
    mf_graph_free(g);
}

MF_TEST(pipelines_are_predicted_within_the_time_limit)
{
    mf_graph *g = layered();
    found none = search(g, &(wanted){ "all:2", -1, 0, 0 });
    found little = search(g, &(wanted){ "all:2", 1e-9, 0, 0 });
    found enough = search(g, &(wanted){ "all:2", 1e6, 0, 0 });

    T_TRUE(none.plan.pipelines == 0 && !none.plan.pipelines_left);
    T_TRUE(little.plan.pipelines <= 1 && little.plan.pipelines_left);
    T_TRUE(enough.plan.pipelines > 1 && !enough.plan.pipelines_left);
    mf_plan_result_deinit(&none.plan);
    mf_plan_result_deinit(&little.plan);
    mf_plan_result_deinit(&enough.plan);
    mf_graph_free(g);
}

/* With all times known the search is the same everywhere. */
MF_TEST(a_beam_search_predicts_few_of_many_layouts)
{
    mf_graph *g = layered();
    found f = search(g, &(wanted){ "a:2;b:2;c:3", -1, 0, 0 });

    printf("# %lld of %lld layouts\n", (long long)f.plan.n, (long long)f.plan.possible);
    T_TRUE(!f.plan.exhaustive);
    T_TRUE(f.plan.possible > 300);
    T_TRUE(f.plan.n <= 300);
    mf_plan_result_deinit(&f.plan);
    mf_graph_free(g);
}
