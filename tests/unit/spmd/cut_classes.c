/* SPDX-License-Identifier: Apache-2.0 */
/* cut_classes.c - softmax and cross entropy over sharded classes give the results of one device,
 * and no device ever holds a complete row. */
#include "unit/spmd/mesh_test.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 6, CLASSES = 11 };

static void compare(const char *op, bool labels, bool dense)
{
    static const char *const names[] = { "x", "labels" };
    const char *fetches[] = { "op:0", "op:1" };
    const bool two = labels;
    mf_tensor *x = mesh_numbers(&MF_SHAPE(BATCH, CLASSES), 3);
    mf_tensor *l =
        dense ? mesh_numbers(&MF_SHAPE(BATCH, CLASSES), 4) : mesh_classes(BATCH, CLASSES, 5);
    const mf_tensor *feeds[] = { x, l };
    mf_tensor *want[2] = { NULL }, *got[2] = { NULL };
    mf_output in[3] = { { 0 }, MF_END, MF_END };
    mf_mesh_counts counts;
    mf_session *one, *mesh;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    in[0] = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'");
    mf_name_dims(g, in[0], "batch,classes");
    if (labels)
        in[1] = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=%s name='labels'",
                          dense ? "float" : "int32");
    (void)mf_applyf(g, op, in, "name='op'");
    T_OK(mf_graph_status(g));
    T_OK(mf_session_new(g, NULL, &one));
    T_OK(mf_mesh_session_new(
        g, &(mf_mesh_options){ .mesh = "a:2;b:3", .layout = "batch:a;classes:b" }, &mesh));
    T_OK(mf_session_run(one, NULL, names, feeds, 1 + two, fetches, 1 + two, NULL, 0, want));
    T_OK(mf_session_run(mesh, NULL, names, feeds, 1 + two, fetches, 1 + two, NULL, 0, got));
    for (int i = 0; i < 1 + two; i++) {
        T_TRUE(mesh_distance(want[i], got[i]) < 1e-5);
        mf_tensor_free(want[i]);
        mf_tensor_free(got[i]);
    }
    /* The maximum and the sum (and the sums of losses and labels): three rows of four bytes from
     * two other devices each. Then results are gathered for the fetching device. */
    T_OK(mf_mesh_session_counts(mesh, 0, &counts));
    T_TRUE(counts.collectives >= 2);
    mf_session_free(one);
    mf_session_free(mesh);
    mf_graph_free(g);
    mf_tensor_free(x);
    mf_tensor_free(l);
}

MF_TEST(mesh_softmax_and_cross_entropy_work_over_sharded_classes)
{
    compare("Softmax", false, false);
    compare("LogSoftmax", false, false);
    compare("SparseSoftmaxCrossEntropyWithLogits", true, false);
    compare("SoftmaxCrossEntropyWithLogits", true, true);
}

/* ---- the maximum of a row ---- */

enum { ROWS = 4, WIDTH = 240, CHOSEN = 3 };

/* Four devices have 60 of 240 columns each. Each device receives three candidates per row from each
 * of the three others: a value and an index, four bytes each. Some values are equal, so the order
 * of candidates matters. */
static void choose(bool exact)
{
    static const char *const name = "x";
    const char *fetches[] = { "op:0", "op:1" };
    mf_tensor *x = mesh_numbers(&MF_SHAPE(ROWS, WIDTH), 3), *want[2] = { NULL }, *got[2] = { NULL };
    const mf_mesh_options o = { .mesh = "a:4", .layout = "classes:a", .exact = exact };
    const mf_tensor *feed = x;
    mf_mesh_counts counts;
    mf_session *one, *mesh;
    mf_output in;
    mf_graph *g;

    for (int64_t i = 0; i < x->count; i++)
        ((float *)x->data)[i] = (float)(int)(((float *)x->data)[i] * 4);
    T_OK(mf_graph_new(&g));
    in = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'");
    mf_name_dims(g, in, "batch,classes");
    in = mf_apply(g, "Neg", MF_IN(in));
    (void)mf_applyf(g, "TopKV2", MF_IN(in, mf_scalar(g, MF_DTYPE_I32, CHOSEN)), "name='op'");
    T_OK(mf_graph_status(g));
    T_OK(mf_session_new(g, NULL, &one));
    T_OK(mf_mesh_session_new(g, &o, &mesh));
    T_OK(mf_session_run(one, NULL, &name, &feed, 1, fetches, 2, NULL, 0, want));
    T_OK(mf_session_run(mesh, NULL, &name, &feed, 1, fetches, 2, NULL, 0, got));
    for (int i = 0; i < 2; i++) {
        T_TRUE(memcmp(want[i]->data, got[i]->data, ROWS * CHOSEN * 4) == 0);
        mf_tensor_free(want[i]);
        mf_tensor_free(got[i]);
    }
    T_OK(mf_mesh_session_counts(mesh, 0, &counts));
    T_EQ(counts.received_bytes, 3 * ROWS * CHOSEN * 8);
    mf_session_free(one);
    mf_session_free(mesh);
    mf_graph_free(g);
    mf_tensor_free(x);
}

MF_TEST(mesh_top_k_over_sharded_classes_equals_one_device)
{
    choose(false);
    choose(true);
}
