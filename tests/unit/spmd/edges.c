/* SPDX-License-Identifier: Apache-2.0 */
/* edges.c - edge cases: empty shards, invalid indices, infinities, rare types. A mesh gives the
 * results of one device, including errors. */
#include "unit/spmd/mesh_test.h"

#include <math.h>
#include <string.h>

static mf_output input(mf_graph *g, const char *name, const char *type, const char *dims)
{
    const mf_output o = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=%s name='%s'", type, name);

    if (dims)
        mf_name_dims(g, o, dims);
    return o;
}

static mf_output variable(mf_graph *g, const char *name, const char *shape, const char *dims)
{
    const mf_output v =
        mf_applyf(g, "VarHandleOp", MF_NO_IN,
                  "dtype=float shape=shape%s shared_name='%s' name='%s'", shape, name, name);

    if (dims)
        mf_name_dims(g, v, dims);
    return v;
}

static mf_tensor *ints(const int32_t *list, int64_t n)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_I32, &n, 1, &t));
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)t->data)[i] = list[i];
    return t;
}

/* ---- sizes ---- */

MF_TEST(mesh_reshape_with_minus_one_works_on_empty_shards)
{
    mf_tensor *x = mesh_numbers(&MF_SHAPE(2, 6), 1);
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    (void)mf_applyf(g, "Reshape",
                    MF_IN(input(g, "x", "float", "batch,"), mf_ints(g, (int64_t[]){ 4, -1 }, 2)),
                    "name='y'");
    mesh_compare(g, "a:4", "batch:a",
                 &(mesh_run){ .feeds = { "x" }, .values = { x }, .fetches = { "y" } });
    mf_tensor_free(x);
    mf_graph_free(g);
}

/* ---- variables ---- */

MF_TEST(mesh_weights_may_have_another_layout_than_their_slots)
{
    mf_tensor *d = mesh_numbers(&MF_SHAPE(8, 6), 1);
    mf_output value, v, slot, train, read;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    value = mf_constant(g, d, NULL);
    v = variable(g, "w", "[8,6]", "rows,cols");
    slot = variable(g, "slot", "[8,6]", "cols,rows");
    train = mf_apply(
        g, "ResourceApplyMomentum",
        MF_IN(v, slot, mf_scalar(g, MF_DTYPE_F32, 0.1), value, mf_scalar(g, MF_DTYPE_F32, 0.9)));
    mf_control(g, train.node, mf_apply(g, "AssignVariableOp", MF_IN(v, value)).node);
    mf_control(g, train.node, mf_apply(g, "AssignVariableOp", MF_IN(slot, value)).node);
    read = mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float name='read'");
    mf_control(g, read.node, train.node);
    mesh_compare(g, "a:2;b:2", "rows:a;weights:b", &(mesh_run){ .fetches = { "read" } });
    mesh_compare(g, "a:3", "rows:a", &(mesh_run){ .fetches = { "read" } });
    mf_graph_free(g);
    mf_tensor_free(d);
}

MF_TEST(mesh_slots_with_contradicting_layouts_are_rejected)
{
    mf_graph *g;
    mf_session *s = NULL;
    const char *const target = "train";
    mf_tensor *d = mesh_numbers(&MF_SHAPE(8, 8), 1);
    mf_output v, m, squares, one;

    T_OK(mf_graph_new(&g));
    one = mf_scalar(g, MF_DTYPE_F32, 0.1);
    v = variable(g, "w", "[8,8]", "rows,cols");
    m = variable(g, "m", "[8,8]", "rows,cols");
    squares = variable(g, "squares", "[8,8]", "cols,rows");
    (void)mf_applyf(g, "ResourceApplyAdam",
                    MF_IN(v, m, squares, one, one, one, one, one, one, mf_constant(g, d, NULL)),
                    "name='train'");
    T_OK(mf_graph_status(g));
    T_OK(mf_mesh_session_new(
        g, &(mf_mesh_options){ .mesh = "a:2;b:2", .layout = "rows:a;weights:b" }, &s));
    T_FAILS(MF_UNIMPLEMENTED, "does not support this split",
            mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &target, 1, NULL));
    mf_session_free(s);
    mf_graph_free(g);
    mf_tensor_free(d);
}

MF_TEST(mesh_value_of_unknown_shape_can_be_assigned_to_a_sharded_variable)
{
    mf_tensor *x = mesh_numbers(&MF_SHAPE(12), 1), *shape, *wrong;
    mf_output v, value, read;
    mf_node *set;
    mf_graph *g;

    shape = ints((int32_t[]){ 6, 2 }, 2);
    wrong = ints((int32_t[]){ 12, 1 }, 2);
    T_OK(mf_graph_new(&g));
    v = variable(g, "v", "[6,2]", "rows,");
    value = mf_apply(g, "Reshape",
                     MF_IN(input(g, "x", "float", NULL), input(g, "shape", "int32", NULL)));
    set = mf_apply(g, "AssignVariableOp", MF_IN(v, value)).node;
    mf_control(g, mf_applyf(g, "AssignAddVariableOp", MF_IN(v, value), "name='add'").node, set);
    read = mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float name='read'");
    mf_control(g, read.node, mf_graph_find(g, "add"));
    mesh_compare(
        g, "a:4", "rows:a",
        &(mesh_run){ .feeds = { "x", "shape" }, .values = { x, shape }, .fetches = { "read" } });
    {
        static const char *const feeds[] = { "x", "shape" }, *const target = "add";
        mf_session *s;

        T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = "a:4", .layout = "rows:a" }, &s));
        T_FAILS(MF_INVALID_ARGUMENT, "not compatible with expected shape [6,2]",
                mf_session_run(s, NULL, feeds, (const mf_tensor *[]){ x, wrong }, 2, NULL, 0,
                               &target, 1, NULL));
        mf_session_free(s);
    }
    mf_graph_free(g);
    mf_tensor_free(x);
    mf_tensor_free(shape);
    mf_tensor_free(wrong);
}

/* ---- invalid indices ---- */

/* Fails on one device and, with sharded rows or classes, on a mesh. */
static void compare_index(const char *op, int32_t bad)
{
    const bool loss = op[0] == 'S', segment = op[0] == 'U';
    mf_tensor *x = mesh_numbers(&MF_SHAPE(loss || segment ? 3 : 60, 5), 3);
    mf_tensor *ids = ints((int32_t[]){ 1, bad, 4 }, 3);
    mf_output table, in;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    table = mf_apply(g, "Neg", MF_IN(input(g, "x", "float", "rows,cols")));
    in = input(g, "ids", "int32", NULL);
    if (segment)
        mf_name_dims(g,
                     mf_applyf(g, op, MF_IN(table, in, mf_scalar(g, MF_DTYPE_I32, 6)), "name='y'"),
                     "segments,cols");
    else
        (void)mf_applyf(g, op,
                        loss ? MF_IN(table, in) : MF_IN(table, in, mf_scalar(g, MF_DTYPE_I32, 0)),
                        "name='y'");
    mesh_compare(
        g, "a:2",
        loss      ? "cols:a"
        : segment ? "segments:a"
                  : "rows:a",
        &(mesh_run){ .feeds = { "x", "ids" }, .values = { x, ids }, .fetches = { "y:0" } });
    mf_graph_free(g);
    mf_tensor_free(x);
    mf_tensor_free(ids);
}

MF_TEST(mesh_out_of_range_indices_fail_on_sharded_dimensions)
{
    static const char *const ops[] = { "GatherV2", "UnsortedSegmentSum",
                                       "SparseSoftmaxCrossEntropyWithLogits" };

    for (int i = 0; i < MF_COUNT(ops); i++) {
        compare_index(ops[i], 3);
        compare_index(ops[i], 60);
        compare_index(ops[i], -1); /* -1 is a valid segment */
    }
}

MF_TEST(mesh_out_of_range_rows_of_sharded_variables_are_not_written)
{
    static const char *const feeds[] = { "ids" }, *const set = "set", *const target = "add";
    mf_tensor *first = mesh_numbers(&MF_SHAPE(6, 2), 1), *rows = mesh_numbers(&MF_SHAPE(2, 2), 2);
    mf_output v;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    v = variable(g, "v", "[6,2]", "rows,");
    (void)mf_applyf(g, "AssignVariableOp", MF_IN(v, mf_constant(g, first, NULL)), "name='set'");
    (void)mf_applyf(g, "ResourceScatterAdd",
                    MF_IN(v, input(g, "ids", "int32", NULL), mf_constant(g, rows, NULL)),
                    "dtype=float name='add'");
    for (int many = 0; many < 2; many++) {
        mf_tensor *good = ints((int32_t[]){ 5, 0 }, 2), *bad = ints((int32_t[]){ 6, 0 }, 2);
        mf_session *s;

        T_OK(many ? mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = "a:2", .layout = "rows:a" },
                                        &s)
                  : mf_session_new(g, NULL, &s));
        T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &set, 1, NULL));
        T_OK(mf_session_run(s, NULL, feeds, (const mf_tensor *[]){ good }, 1, NULL, 0, &target, 1,
                            NULL));
        T_FAILS(MF_INVALID_ARGUMENT, "6 is not in [0, 6)",
                mf_session_run(s, NULL, feeds, (const mf_tensor *[]){ bad }, 1, NULL, 0, &target, 1,
                               NULL));
        mf_session_free(s);
        mf_tensor_free(good);
        mf_tensor_free(bad);
    }
    mf_graph_free(g);
    mf_tensor_free(first);
    mf_tensor_free(rows);
}

/* ---- infinities ---- */

MF_TEST(mesh_scores_of_minus_infinity_work_over_sharded_classes)
{
    static const char *const ops[] = { "Softmax", "LogSoftmax",
                                       "SparseSoftmaxCrossEntropyWithLogits",
                                       "SoftmaxCrossEntropyWithLogits" };
    mf_tensor *x = mesh_numbers(&MF_SHAPE(4, 6), 3), *dense = mesh_numbers(&MF_SHAPE(4, 6), 4);
    mf_tensor *labels = ints((int32_t[]){ 1, 0, 5, 2 }, 4);
    float *at = x->data;

    for (int i = 0; i < 6; i++) {
        at[i] = i == 1 ? at[i] : -INFINITY; /* one class remains */
        at[6 + i] = i < 3 ? -INFINITY : at[6 + i]; /* no class of the first device, and not the
                                                      label */
        at[12 + i] = i == 4 ? -INFINITY : at[12 + i];
        at[18 + i] = -INFINITY; /* no class */
    }
    for (int i = 0; i < MF_COUNT(ops); i++) {
        const bool sparse = ops[i][1] == 'p', two = i >= 2;
        mf_output in;
        mf_graph *g;

        T_OK(mf_graph_new(&g));
        in = input(g, "x", "float", ",classes");
        (void)mf_applyf(g, ops[i],
                        two ? MF_IN(in, input(g, "labels", sparse ? "int32" : "float", NULL))
                            : MF_IN(in),
                        "name='y'");
        mesh_compare(g, "a:2", "classes:a",
                     &(mesh_run){ .feeds = { "x", two ? "labels" : NULL },
                                  .values = { x, sparse ? labels : dense },
                                  .fetches = { "y:0", two ? "y:1" : NULL } });
        mf_graph_free(g);
    }
    mf_tensor_free(x);
    mf_tensor_free(dense);
    mf_tensor_free(labels);
}

/* ---- rare types ---- */

/* Sets bits in all positions; a double cannot represent these values. */
static mf_tensor *integers(mf_dtype type, const mf_shape *shape)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(type, shape->dims, shape->rank, &t));
    for (size_t i = 0; i < (size_t)t->count * mf_dtype_cell(type); i++)
        ((uint8_t *)t->data)[i] = (uint8_t)(i * 167 % 251);
    return t;
}

static void compare_integers(const char *op, mf_dtype type)
{
    mf_tensor *x = integers(type, &MF_SHAPE(8, 40)), *ids = mesh_classes(8, 2, 1);
    const bool segment = op[0] == 'U';
    mf_output in;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    in = mf_apply(g, "Invert", MF_IN(input(g, "x", mf_dtype_name(type), "batch,")));
    (void)mf_applyf(
        g, op,
        segment ? MF_IN(in, input(g, "ids", "int32", "batch"), mf_scalar(g, MF_DTYPE_I32, 2))
                : MF_IN(in, mf_ints(g, (int64_t[]){ 0 }, 1)),
        "name='y'");
    mesh_compare(g, "a:4", "batch:a",
                 &(mesh_run){ .feeds = { "x", segment ? "ids" : NULL },
                              .values = { x, ids },
                              .fetches = { "y" } });
    mf_graph_free(g);
    mf_tensor_free(x);
    mf_tensor_free(ids);
}

MF_TEST(mesh_reductions_support_integers_of_every_size)
{
    static const mf_dtype types[] = { MF_DTYPE_I8, MF_DTYPE_I16, MF_DTYPE_I32, MF_DTYPE_I64,
                                      MF_DTYPE_U8, MF_DTYPE_U16, MF_DTYPE_U32, MF_DTYPE_U64 };
    static const char *const ops[] = { "Sum", "Max", "Min", "UnsortedSegmentSum" };

    for (int i = 0; i < MF_COUNT(types); i++) {
        for (int k = 0; k < MF_COUNT(ops); k++)
            compare_integers(ops[k], types[i]);
    }
}

/* ---- random numbers ---- */

MF_TEST(random_ops_without_a_seed_agree_on_all_devices_of_a_mesh)
{
    static const char *const feed = "x", *const fetches[] = { "u", "y" };
    mf_tensor *x = mesh_numbers(&MF_SHAPE(8, 40), 1), *out[2] = { NULL };
    mf_mesh_counts counts;
    mf_session *s;
    mf_output u;
    mf_graph *g;

    memset(x->data, 0, (size_t)x->count * sizeof(float));
    T_OK(mf_graph_new(&g));
    u = mf_applyf(g, "RandomUniform", MF_IN(mf_ints(g, (int64_t[]){ 8, 40 }, 2)),
                  "dtype=float name='u'");
    (void)mf_applyf(g, "AddV2", MF_IN(input(g, "x", "float", "batch,"), u), "name='y'");
    T_OK(mf_graph_status(g));
    T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = "a:4", .layout = "batch:a" }, &s));
    T_OK(mf_session_run(s, NULL, &feed, (const mf_tensor *[]){ x }, 1, fetches, 2, NULL, 0, out));
    T_EQ_F(mesh_distance(out[0], out[1]), 0);
    T_OK(mf_mesh_session_counts(s, 0, &counts));
    T_TRUE(counts.collectives > 0); /* other devices computed rows of y */
    mf_tensor_free(out[0]);
    mf_tensor_free(out[1]);
    mf_session_free(s);
    mf_graph_free(g);
    mf_tensor_free(x);
}
