/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_relayout.c - variables are resharded to another layout while a session exists. */
#include "unit/spmd/mesh_test.h"

#include <string.h>

/* A matrix variable with set, update and read. */
static mf_graph *counter(void)
{
    mf_graph *g;
    mf_output v, x;

    T_OK(mf_graph_new(&g));
    v = mf_applyf(g, "VarHandleOp", MF_NO_IN,
                  "dtype=float shape=shape[7,6] shared_name='v' name='v'");
    mf_name_dims(g, v, "batch,hidden");
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[7,6] name='x'");
    (void)mf_applyf(g, "AssignVariableOp", MF_IN(v, x), "name='set'");
    (void)mf_applyf(g, "AssignAddVariableOp", MF_IN(v, x), "name='add'");
    (void)mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float name='get'");
    T_OK(mf_graph_status(g));
    return g;
}

static void run(mf_session *s, const char *target, const mf_tensor *x)
{
    T_OK(mf_session_run(s, NULL, (const char *const[]){ "x" }, &x, 1, NULL, 0, &target, 1, NULL));
}

static void reads(mf_session *s, const mf_tensor *x, float times)
{
    mf_tensor *got = NULL;

    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, (const char *const[]){ "get" }, 1, NULL, 0, &got));
    for (int64_t i = 0; i < x->count; i++)
        T_EQ(((const float *)got->data)[i], ((const float *)x->data)[i] * times);
    mf_tensor_free(got);
}

MF_TEST(mesh_relayout_keeps_the_values_of_variables)
{
    static const struct {
        const char *mesh, *layout;
        int64_t elements; /* missing elements of all devices together */
    } WAYS[] = {
        { "a:2;b:2", "batch:a;hidden:b", 0 }, /* all devices had the complete matrix */
        { "a:2;b:2", "batch:b;hidden:a", 21 }, /* (0,1) and (1,0) have no element that they need */
        { "a:2;b:2", "", 4 * 42 - 42 },
        { "a:3 | b:1", "batch:a", 0 }, /* the first three had the complete matrix; the second mesh
                                          holds nothing */
        { "a:4", "hidden:a",
          42 - 6 - 4 - 2 }, /* shards of 2, 2, 1 and 1 columns, without the elements in their rows
                             */
    };
    mf_tensor *x = mesh_numbers(&MF_SHAPE(7, 6), 5);
    mf_graph *g = counter();
    mf_session *s;
    int64_t bytes = -1;

    T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = "a:4", .layout = "" }, &s));
    run(s, "set", x);
    for (int i = 0; i < MF_COUNT(WAYS); i++) {
        mf_mesh_counts counts;

        T_OK(mf_mesh_session_relayout(
            s, &(mf_mesh_options){ .mesh = WAYS[i].mesh, .layout = WAYS[i].layout }, &bytes));
        if (WAYS[i].elements * 4 != bytes)
            T_FAIL("'%s' took %lld bytes, not %lld", WAYS[i].layout, (long long)bytes,
                   (long long)WAYS[i].elements * 4);
        reads(s, x, 1);
        T_OK(mf_mesh_session_counts(s, 1, &counts));
        T_EQ(counts.planned_bytes, counts.received_bytes);
    }
    run(s, "add", x);
    reads(s, x, 2);
    T_FAILS(MF_INVALID_ARGUMENT, "2 devices, but the session has 4",
            mf_mesh_session_relayout(s, &(mf_mesh_options){ .mesh = "a:2", .layout = "" }, NULL));
    reads(s, x, 2);
    mf_session_free(s);
    mf_tensor_free(x);
    mf_graph_free(g);
}

MF_TEST(mesh_relayout_rejects_uninitialized_variables)
{
    mf_graph *g = counter();
    mf_session *s;

    T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = "a:2", .layout = "" }, &s));
    T_FAILS(MF_FAILED_PRECONDITION, "'v' has no value",
            mf_mesh_session_relayout(s, &(mf_mesh_options){ .mesh = "a:2", .layout = "batch:a" },
                                     NULL));
    mf_session_free(s);
    mf_graph_free(g);
}
