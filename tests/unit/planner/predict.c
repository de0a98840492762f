/* SPDX-License-Identifier: Apache-2.0 */
/* predict.c - predictions for a step equal the counters of its devices, and the planner chooses the
 * layout with the smallest prediction. */
#include "planner/search.h"
#include "unit/spmd/mesh_test.h"

#include <stdio.h>
#include <string.h>

static const mesh_mlp SIZES = { 12, 20, 16, 10 };

static const char *const FEEDS[] = { "x", "label" }, *const FETCHES[] = { "loss:0" },
                         *const TARGETS[] = { "train" };

/* A machine on which all times are known: 1 ns for a unit of work, 5 us for a round, 1 ns a byte.
 */
static mf_planned_machine machine(void)
{
    mf_planned_machine m = { .links = { 1000, 5000, 1000, 1 }, .threads = 1, .cores = 2 };

    T_OK(mf_op_times_fixed(1, &m.times));
    return m;
}

static mf_planned_step step_of(const mf_graph *g, mf_shape shapes[2])
{
    shapes[0] = MF_SHAPE(SIZES.batch, SIZES.pixels);
    shapes[1] = MF_SHAPE(SIZES.batch);
    return (mf_planned_step){ .graph = g,
                              .names = { FEEDS, FETCHES, TARGETS, 2, 1, 1 },
                              .feed_shapes = shapes };
}

static mf_mesh_setup setup_of(const char *mesh, const char *layout)
{
    mf_mesh_setup s = { 0 };

    T_OK(mf_meshes_parse(mesh, layout, &s.meshes, &s.rules));
    s.n = s.meshes.devices;
    return s;
}

static void run_step(mf_session *s)
{
    mf_tensor *x = mesh_numbers(&MF_SHAPE(SIZES.batch, SIZES.pixels), 1);
    mf_tensor *label = mesh_classes(SIZES.batch, (int32_t)SIZES.classes, 2), *loss = NULL;
    const mf_tensor *in[] = { x, label };

    T_OK(mf_session_run(s, NULL, FEEDS, in, 2, FETCHES, 1, TARGETS, 1, &loss));
    mf_tensor_free(x);
    mf_tensor_free(label);
    mf_tensor_free(loss);
}

/* All devices, one step. */
static void compare(const mf_graph *g, const char *mesh, const char *layout)
{
    static const char *const init = "init";
    mf_shape shapes[2];
    const mf_planned_step step = step_of(g, shapes);
    mf_planned_machine m = machine();
    const mf_mesh_setup setup = setup_of(mesh, layout);
    mf_mesh_device_prediction said[16];
    mf_prediction all;
    mf_session *s;

    T_OK(mf_predict_step(&step, &m, &setup, &all, said));
    T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = mesh, .layout = layout }, &s));
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL));
    for (int i = 0; i < setup.n; i++) {
        mf_mesh_counts before;

        T_OK(mf_mesh_session_counts(s, i, &before));
        said[i].sent_bytes += before.sent_bytes; /* of work before the step */
        said[i].received_bytes += before.received_bytes;
        said[i].collectives += before.collectives;
    }
    run_step(s);
    for (int i = 0; i < setup.n; i++) {
        mf_mesh_counts is;

        T_OK(mf_mesh_session_counts(s, i, &is));
        T_EQ(is.sent_bytes, said[i].sent_bytes);
        T_EQ(is.received_bytes, said[i].received_bytes);
        T_EQ(is.collectives, said[i].collectives);
        T_EQ(is.variable_bytes, said[i].variable_bytes);
        T_TRUE(is.planned_step_bytes > 0);
        T_TRUE(said[i].activation_bytes >= is.planned_step_bytes); /* kernels' own included */
        T_TRUE(said[i].compute_ns > 0 && said[i].activation_bytes > 0);
    }
    printf("# %s %s: %lld bytes in %lld collectives, %lld rounds\n", mesh, layout,
           (long long)all.sent_bytes, (long long)all.collectives, (long long)all.rounds);
    mf_session_free(s);
    mf_op_times_free(m.times);
}

MF_TEST(predicted_bytes_and_variables_equal_those_counted_by_devices)
{
    static const char *const layouts[] = { "",
                                           "batch:rows",
                                           "hidden:cols",
                                           "batch:rows;hidden:cols",
                                           "batch:rows;batch:cols;weights:rows",
                                           "pixels:rows;classes:cols",
                                           "hidden:rows;hidden:cols;weights:cols" };
    mf_graph *g = mesh_mlp_graph(&SIZES);

    for (int i = 0; i < MF_COUNT(layouts); i++) {
        compare(g, "rows:2;cols:2", layouts[i]);
        compare(g, "rows:3;cols:2", layouts[i]);
    }
    mf_graph_free(g);
}

/* The second layer is on the second mesh. */
MF_TEST(predicted_bytes_of_several_meshes_equal_those_counted_by_devices)
{
    static const char *const meshes[] = { "rows:1 | rows:1", "rows:2 | rows:2", "rows:2 | rows:3",
                                          "rows:1 | rows:2;cols:2", "rows:2;cols:2 | rows:1" };
    static const char *const layouts[] = { "batch:rows", "batch:rows;weights:rows", "batch:rows",
                                           "batch:rows;hidden:cols", "batch:rows;hidden:cols" };
    mf_graph *g = mesh_mlp_graph(&SIZES);

    mf_put_on_mesh(g, (mf_output){ mf_graph_find(g, "w1"), 0 }, 0);
    mf_put_on_mesh(g, (mf_output){ mf_graph_find(g, "b1"), 0 }, 0);
    mf_put_on_mesh(g, (mf_output){ mf_graph_find(g, "w2"), 0 }, 1);
    mf_put_on_mesh(g, (mf_output){ mf_graph_find(g, "b2"), 0 }, 1);
    for (int i = 0; i < MF_COUNT(meshes); i++)
        compare(g, meshes[i], layouts[i]);
    mf_graph_free(g);
}

static mf_plan_result search(const mf_graph *g, const char *mesh, int64_t memory, int64_t limit)
{
    mf_shape shapes[2];
    const mf_planned_step step = step_of(g, shapes);
    mf_planned_machine m = machine();
    mf_mesh axes;
    const mf_plan_request r = { .step = &step,
                                .machine = &m,
                                .meshes = &axes,
                                .n_meshes = 1,
                                .memory = memory,
                                .limit = limit };
    mf_plan_result found;

    T_OK(mf_mesh_parse(mesh, &axes));
    T_OK(mf_plan_search(&r, &found));
    mf_op_times_free(m.times);
    return found;
}

/* All combinations: each of five dimensions is split or not. */
static double least_step(const mf_graph *g)
{
    static const char *const dims[] = { "batch", "pixels", "hidden", "classes", "weights" };
    mf_shape shapes[2];
    const mf_planned_step step = step_of(g, shapes);
    mf_planned_machine m = machine();
    double least = 0;

    for (int bits = 0; bits < 1 << MF_COUNT(dims); bits++) {
        char layout[128] = "";
        mf_mesh_setup setup;
        mf_prediction is;

        for (int d = 0; d < MF_COUNT(dims); d++) {
            const size_t n = strlen(layout);

            if (bits >> d & 1)
                (void)snprintf(layout + n, sizeof layout - n, "%s%s:all", n ? ";" : "", dims[d]);
        }
        setup = setup_of("all:4", layout);
        if (mf_predict_step(&step, &m, &setup, &is, NULL) == MF_OK &&
            (least == 0 || is.step_ns < least))
            least = is.step_ns;
    }
    mf_op_times_free(m.times);
    return least;
}

MF_TEST(the_choice_has_the_smallest_predicted_time_of_all_layouts)
{
    mf_graph *g = mesh_mlp_graph(&SIZES);
    mf_plan_result all = search(g, "all:4", 0, 0), beam = search(g, "all:4", 0, 1);
    const double least = least_step(g);

    T_TRUE(all.exhaustive && !beam.exhaustive);
    T_EQ(all.n, 32);
    T_TRUE(all.all[0].is.step_ns == least);
    T_TRUE(beam.all[0].is.step_ns == least);
    T_TRUE(all.all[all.n - 1].status != MF_OK); /* two dimensions of one tensor along one axis */
    for (int64_t i = 1; i < all.n && all.all[i].status == MF_OK; i++)
        T_TRUE(all.all[i].is.step_ns >= all.all[i - 1].is.step_ns);
    mf_plan_result_deinit(&all);
    mf_plan_result_deinit(&beam);
    mf_graph_free(g);
}

MF_TEST(axes_of_one_size_are_interchangeable_and_unused_sizes_are_skipped)
{
    mf_graph *g = mesh_mlp_graph(&SIZES);
    mf_plan_result square = search(g, "a:2;b:2", 0, 2000), tall = search(g, "a:20", 0, 0);

    T_EQ(square.n, (1024 + 32) / 2); /* 5 dimensions, 2 axes; one of each pair */
    T_EQ(tall.n, 4); /* batch, hidden and classes are smaller than 20 */
    mf_plan_result_deinit(&square);
    mf_plan_result_deinit(&tall);
    mf_graph_free(g);
}

MF_TEST(layouts_that_exceed_the_memory_are_not_chosen)
{
    mf_graph *g = mesh_mlp_graph(&SIZES);
    mf_plan_result any = search(g, "all:4", 0, 0), least = search(g, "all:4", 1, 0), tight;
    const int64_t most = mf_prediction_memory(&any.all[0].is);
    const int64_t fewest = mf_prediction_memory(&least.all[0].is);

    T_TRUE(any.fits && !least.fits); /* no layout fits one byte */
    T_TRUE(fewest < most);
    for (int64_t i = 0; i < any.n && any.all[i].status == MF_OK; i++)
        T_TRUE(mf_prediction_memory(&any.all[i].is) >= fewest);
    tight = search(g, "all:4", fewest, 0);
    T_TRUE(tight.fits);
    T_EQ(mf_prediction_memory(&tight.all[0].is), fewest);
    T_TRUE(tight.all[0].is.step_ns >= any.all[0].is.step_ns);
    mf_plan_result_deinit(&any);
    mf_plan_result_deinit(&least);
    mf_plan_result_deinit(&tight);
    mf_graph_free(g);
}
