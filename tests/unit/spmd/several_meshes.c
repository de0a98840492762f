/* SPDX-License-Identifier: Apache-2.0 */
/* several_meshes.c - one graph on several meshes. */
#include "unit/spmd/mesh_test.h"

static mf_output input(mf_graph *g, const char *name, const char *dims)
{
    const mf_output o = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='%s'", name);

    mf_name_dims(g, o, dims);
    return o;
}

/* relu(x @ a) on the first mesh, its product with b on the second, and their sum with x on the
 * first. */
static mf_graph *there_and_back(void)
{
    mf_graph *g;
    mf_output x, h, y;

    T_OK(mf_graph_new(&g));
    x = input(g, "x", "batch,k");
    h = mf_apply(g, "Relu", MF_IN(mf_apply(g, "MatMul", MF_IN(x, input(g, "a", "k,hidden")))));
    mf_put_on_mesh(g, h, 0);
    y = mf_apply(g, "MatMul", MF_IN(h, input(g, "b", "hidden,k")));
    mf_put_on_mesh(g, y, 1);
    y = mf_applyf(g, "AddV2", MF_IN(x, y), "name='y'");
    mf_put_on_mesh(g, y, 0);
    T_OK(mf_graph_status(g));
    return g;
}

MF_TEST(mesh_tensors_move_between_meshes_of_different_shapes)
{
    static const char *const MESHES[] = { "r:2 | r:2", "r:2;c:2 | c:3", "r:1 | r:5", "r:3 | c:1" };
    mf_tensor *x = mesh_numbers(&MF_SHAPE(7, 6), 1), *a = mesh_numbers(&MF_SHAPE(6, 5), 2),
              *b = mesh_numbers(&MF_SHAPE(5, 6), 3);
    mf_graph *g = there_and_back();

    for (int i = 0; i < MF_COUNT(MESHES); i++)
        mesh_compare(
            g, MESHES[i],
            i == 0 || i == 2 ? "batch:r"
            : i == 1         ? "batch:r;hidden:c"
                             : "batch:r;k:c",
            &(mesh_run){ .feeds = { "x", "a", "b" }, .values = { x, a, b }, .fetches = { "y" } });
    mf_tensor_free(x);
    mf_tensor_free(a);
    mf_tensor_free(b);
    mf_graph_free(g);
}

MF_TEST(mesh_index_out_of_range_is_named)
{
    mf_graph *g = there_and_back();
    mf_session *s = NULL;

    mf_put_on_mesh(g, mf_apply(g, "Neg", MF_IN(mf_scalar(g, MF_DTYPE_F32, 1))), 4);
    T_OK(mf_graph_status(g));
    T_FAILS(
        MF_INVALID_ARGUMENT, "there is no mesh 4, only 0 to 1",
        mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = "r:2 | r:2", .layout = "batch:r" }, &s));
    mf_graph_free(g);
}

/* The second layer is on the second mesh. */
MF_TEST(mesh_layers_on_several_meshes_train_as_on_one_device)
{
    static const char *const MESHES[] = { "rows:2;cols:2 | rows:1", "rows:1 | rows:2;cols:2",
                                          "rows:3 | rows:2;cols:2" };
    static const mesh_mlp SIZES = { 12, 10, 8, 5 };
    mf_graph *g = mesh_mlp_graph(&SIZES);
    mf_tensor *want[MESH_MLP_RESULTS], *got[MESH_MLP_RESULTS];
    mf_session *s;

    mf_put_on_mesh(g, (mf_output){ mf_graph_find(g, "w1"), 0 }, 0);
    mf_put_on_mesh(g, (mf_output){ mf_graph_find(g, "b1"), 0 }, 0);
    mf_put_on_mesh(g, (mf_output){ mf_graph_find(g, "w2"), 0 }, 1);
    mf_put_on_mesh(g, (mf_output){ mf_graph_find(g, "b2"), 0 }, 1);
    T_OK(mf_session_new(g, &(mf_session_options){ .threads = 2 }, &s));
    mesh_mlp_train(s, &SIZES, 3, want);
    mf_session_free(s);
    for (int i = 0; i < MF_COUNT(MESHES); i++) {
        T_OK(mf_mesh_session_new(
            g, &(mf_mesh_options){ .mesh = MESHES[i], .layout = "batch:rows;hidden:cols" }, &s));
        mesh_mlp_train(s, &SIZES, 3, got);
        for (int k = 0; k < MESH_MLP_RESULTS; k++) {
            if (!(mesh_distance(want[k], got[k]) <= 1e-5))
                T_FAIL("%s: result %d is %g away", MESHES[i], k, mesh_distance(want[k], got[k]));
            mf_tensor_free(got[k]);
        }
        mf_session_free(s);
    }
    for (int k = 0; k < MESH_MLP_RESULTS; k++)
        mf_tensor_free(want[k]);
    mf_graph_free(g);
}
