/* SPDX-License-Identifier: Apache-2.0 */
/* large.c - a mesh of many devices: memory for planning is linear in the number of devices. */
#include "spmd/lower/spmd_compile.h"
#include "unit/spmd/mesh_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static long peak_kib(void)
{
    struct rusage u;

    T_EQ(getrusage(RUSAGE_SELF, &u), 0);
    return u.ru_maxrss;
}

/* Compiles a convolution for n devices that exchange halos with their neighbours. */
static void compile_halo(int n)
{
    mf_mesh_setup setup = { .n = n };
    mf_shape shape = MF_SHAPE(1, 2 * n, 4, 2);
    mf_mesh_variables variables;
    mf_graph *g, **graphs = mf_calloc(n, sizeof *graphs);
    int64_t *receives = mf_calloc(n, sizeof *receives);
    const mf_run_names names = { (const char *[]){ "x" }, NULL, (const char *[]){ "y" }, 1, 0, 1 };
    mf_arena *arena = mf_arena_new();
    mf_tensor *f = mesh_numbers(&MF_SHAPE(3, 3, 2, 2), 1);
    mf_mesh_costs costs;
    mf_signature sig;
    mf_output x;
    char mesh[32];

    (void)snprintf(mesh, sizeof mesh, "a:%d", n);
    T_OK(mf_meshes_parse(mesh, "height:a", &setup.meshes, &setup.rules));
    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'");
    mf_name_dims(g, x, ",height,,");
    x = mf_apply(g, "Neg", MF_IN(x));
    for (int i = 0; i < 3; i++)
        x = mf_applyf(g, "Conv2D", MF_IN(x, mf_constant(g, f, NULL)),
                      "strides=[1,1,1,1] padding='SAME' name='%s'", i < 2 ? "c" : "y");
    T_OK(mf_graph_status(g));
    T_OK(mf_mesh_variables_init(&variables));
    T_OK(mf_mesh_costs_init(&costs));
    T_OK(mf_signature_find(g, &names, arena, &sig));
    sig.feed_shapes = &shape;
    T_OK(mf_mesh_compile(g, &sig, &setup, &variables, graphs, receives, &costs));
    T_TRUE(receives[n / 2] > 0);
    for (int i = 0; i < n; i++)
        mf_graph_free(graphs[i]);
    mf_mesh_costs_deinit(&costs);
    mf_mesh_variables_deinit(&variables);
    mf_graph_free(g);
    mf_free(graphs);
    mf_free(receives);
    mf_arena_free(arena);
    mf_tensor_free(f);
}

MF_TEST(mesh_planning_memory_is_linear_in_devices)
{
    const long before = peak_kib();
    long few, many;

    compile_halo(128);
    few = peak_kib() - before;
    compile_halo(1024);
    many = peak_kib() - before;
    printf("# 128 devices: %ld KiB, 1024: %ld KiB\n", few, many);
    T_TRUE(many < 16 * few + 16384);
}
