/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_sums.c - partial sums are added before one reduction. The tests count collectives. With
 * these sizes a reduction sends fewer bytes than a gather of the factors, which the compiler would
 * choose otherwise. */
#include "unit/spmd/mesh_test.h"

#include <string.h>

enum { ROWS = 8, INNER = 12, COLUMNS = 4, MANY = 64 };

/* Variables, so that feeds need no gather. */
static mf_output variable(mf_graph *g, mf_node *init, const char *name, const mf_shape *shape,
                          const char *dims, uint64_t seed)
{
    char text[MF_SHAPE_TEXT];
    const mf_output v =
        mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape%s shared_name='%s'",
                  mf_shape_text(shape, text), name);
    mf_tensor *first = mesh_numbers(shape, seed);

    mf_name_dims(g, v, dims);
    mf_control(g, init,
               mf_apply(g, "AssignVariableOp", MF_IN(v, mf_constant(g, first, NULL))).node);
    mf_tensor_free(first);
    return mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float name='%s'", name);
}

static mf_graph *begin(mf_node **init)
{
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    *init = mf_applyf(g, "NoOp", MF_NO_IN, "name='init'").node;
    return g;
}

static mf_output product(mf_graph *g, mf_output a, mf_output b)
{
    return mf_apply(g, "MatMul", MF_IN(a, b));
}

static mf_output named(mf_graph *g, mf_output o, const char *name)
{
    return mf_applyf(g, "Identity", MF_IN(o), "name='%s'", name);
}

static void run(mf_session *s, const char *fetch, mf_tensor **out)
{
    static const char *const init = "init";

    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL));
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, out));
}

typedef struct counted {
    int64_t collectives, bytes; /* collectives of every device, and bytes received */
} counted;

/* Runs the graph on a mesh, compares the result with one device, and returns the counters. */
static counted count(const mf_graph *g, const char *mesh, const char *layout, const char *fetch)
{
    mf_tensor *want = NULL, *got = NULL;
    mf_session *one, *many;
    mf_mesh_counts c;

    T_OK(mf_graph_status(g));
    T_OK(mf_session_new(g, NULL, &one));
    T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = mesh, .layout = layout }, &many));
    run(one, fetch, &want);
    run(many, fetch, &got);
    T_TRUE(mesh_distance(want, got) <= 1e-5);
    T_OK(mf_mesh_session_counts(many, 0, &c));
    mf_tensor_free(want);
    mf_tensor_free(got);
    mf_session_free(one);
    mf_session_free(many);
    return (counted){ c.collectives, c.received_bytes };
}

/* Bytes that each of four devices receives in an all-reduce. Small sums are sent directly to every
 * device (mesh_direct_reduce_elements); larger sums are reduce-scattered and all-gathered. */
static int64_t reduced_bytes(int64_t elements)
{
    return (elements <= 1024 ? 3 * elements : 2 * elements * 3 / 4) * (int64_t)sizeof(float);
}

/* x w1, x w1 + x w2, and a sum of four products. */
MF_TEST(mesh_products_over_a_sharded_dimension_are_added_before_one_reduction)
{
    mf_node *init;
    mf_graph *g = begin(&init);
    const mf_output x = variable(g, init, "x", &MF_SHAPE(ROWS, INNER), "rows,inner", 1);
    mf_output sum = { 0 };
    counted one, two, four;

    for (int i = 0; i < 4; i++) {
        const char name[] = { 'w', (char)('1' + i), 0 };
        const mf_output w =
            variable(g, init, name, &MF_SHAPE(INNER, COLUMNS), "inner,columns", (uint64_t)i + 2);

        sum = i ? mf_apply(g, "AddV2", MF_IN(sum, product(g, x, w))) : product(g, x, w);
        if (i != 2)
            (void)named(g, sum, i == 0 ? "one" : i == 1 ? "two" : "four");
    }
    one = count(g, "all:4", "inner:all", "one");
    two = count(g, "all:4", "inner:all", "two");
    four = count(g, "all:4", "inner:all", "four");
    T_EQ(one.collectives, 1);
    T_EQ(two.collectives, 1);
    T_EQ(four.collectives, 1);
    T_EQ(one.bytes, reduced_bytes(ROWS * COLUMNS));
    T_EQ(two.bytes, one.bytes);
    T_EQ(four.bytes, one.bytes);
    mf_graph_free(g);
}

/* y = x w1 + x w2 and u = z w1, with given gradients. With sharded columns, the gradient by x is a
 * sum of two products over columns. With sharded rows, the gradient by w1 is a sum of two products
 * over rows. */
MF_TEST(mesh_gradients_over_a_sharded_dimension_are_added_before_one_reduction)
{
    mf_node *init;
    mf_graph *g = begin(&init);
    const mf_output x = variable(g, init, "x", &MF_SHAPE(MANY, INNER), "rows,inner", 1);
    const mf_output z = variable(g, init, "z", &MF_SHAPE(MANY, INNER), "rows,inner", 2);
    const mf_output w = variable(g, init, "w1", &MF_SHAPE(INNER, MANY), "inner,columns", 3);
    const mf_output v = variable(g, init, "w2", &MF_SHAPE(INNER, MANY), "inner,columns", 4);
    const mf_output given[] = {
        variable(g, init, "dy", &MF_SHAPE(MANY, MANY), "rows,columns", 5),
        variable(g, init, "du", &MF_SHAPE(MANY, MANY), "rows,columns", 6),
    };
    const mf_output ys[] = { mf_apply(g, "AddV2", MF_IN(product(g, x, w), product(g, x, v))),
                             product(g, z, w) };
    mf_output by[2];
    counted c;

    T_OK(mf_gradients(g, ys, 2, (mf_output[]){ x, w }, 2, given, by));
    (void)named(g, by[0], "by_x");
    (void)named(g, by[1], "by_w");
    c = count(g, "all:4", "columns:all", "by_x");
    T_EQ(c.collectives, 1);
    T_EQ(c.bytes, reduced_bytes(MANY * INNER));
    c = count(g, "all:4", "rows:all", "by_w");
    T_EQ(c.collectives, 1);
    T_EQ(c.bytes, reduced_bytes(INNER * MANY));
    mf_graph_free(g);
}
