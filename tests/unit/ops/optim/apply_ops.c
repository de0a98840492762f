/* SPDX-License-Identifier: Apache-2.0 */
/* apply_ops.c - updates of variables by optimizers; reads of variables; tensor lists as values. */
#include "unit/ops/bench_graph.h"

/* A variable with this start value; *init sets it. */
static mf_output variable(bench *b, bool resource, mf_output value, mf_output *init)
{
    const mf_output v =
        mf_applyf(b->g, resource ? "VarHandleOp" : "VariableV2", MF_NO_IN,
                  "dtype=float shape=shape[3]%s", resource ? " shared_name='w'" : "");

    *init = mf_apply(b->g, resource ? "AssignVariableOp" : "Assign", MF_IN(v, value));
    return v;
}

static mf_output read_of(bench *b, bool resource, mf_output v)
{
    return resource ? mf_applyf(b->g, "ReadVariableOp", MF_IN(v), "dtype=float")
                    : mf_apply(b->g, "Identity", MF_IN(v));
}

MF_TEST(optimizer_steps_are_the_same_on_references_and_resources)
{
    for (int resource = 0; resource < 2; resource++) {
        bench b = bench_new();
        mf_output init[2];
        const mf_output w = variable(&b, resource, VEC(&b, 1, 2, 3), &init[0]),
                        m = mf_applyf(b.g, resource ? "VarHandleOp" : "VariableV2", MF_NO_IN,
                                      "dtype=float shape=shape[3]%s",
                                      resource ? " shared_name='m'" : "");
        mf_output step, value = read_of(&b, resource, w);

        init[1] =
            mf_apply(b.g, resource ? "AssignVariableOp" : "Assign", MF_IN(m, VEC(&b, 0, 0, 0)));
        step = mf_apply(b.g, resource ? "ResourceApplyMomentum" : "ApplyMomentum",
                        MF_IN(w, m, FLOAT(&b, 0.5), VEC(&b, 1, 0, -1), FLOAT(&b, 0.5)));
        bench_start(&b);
        CANNOT(&b, step, MF_FAILED_PRECONDITION, "uninitialized");
        DO(&b, init[0]);
        DO(&b, init[1]);
        DO(&b, step); /* momentum 1: 1 - 0.5 */
        DO(&b, step); /* momentum 1.5: 0.5 - 0.75 */
        T_EQ_F(value_at(&b, value, 0), -0.25);
        T_EQ_F(value_at(&b, value, 1), 2);
        T_EQ_F(value_at(&b, value, 2), 4.25);
        bench_end(&b);
    }
}

MF_TEST(optimizer_updates_a_row_as_often_as_it_is_named)
{
    bench b = bench_new();
    mf_output init, init_a;
    const mf_output w = variable(&b, true, VEC(&b, 1, 1, 1), &init),
                    a = mf_applyf(b.g, "VarHandleOp", MF_NO_IN,
                                  "dtype=float shape=shape[3] shared_name='a'"),
                    rows = mf_ints(b.g, (int64_t[]){ 2, 2 }, 2),
                    step = mf_apply(b.g, "ResourceSparseApplyAdagrad",
                                    MF_IN(w, a, FLOAT(&b, 1), VEC(&b, 3, 4), rows)),
                    bad = mf_apply(b.g, "ResourceSparseApplyAdagrad",
                                   MF_IN(w, a, FLOAT(&b, 1), VEC(&b, 3, 4),
                                         mf_ints(b.g, (int64_t[]){ 0, 3 }, 2))),
                    value = read_of(&b, true, w);

    init_a = mf_apply(b.g, "AssignVariableOp", MF_IN(a, VEC(&b, 0, 0, 0)));
    bench_start(&b);
    DO(&b, init);
    DO(&b, init_a);
    CANNOT(&b, bad, MF_INVALID_ARGUMENT, "Index 3 at offset 1 in indices is out of range");
    DO(&b, step); /* 1 - 3/sqrt(9), then - 4/sqrt(25) */
    T_EQ_F(value_at(&b, value, 0), 1);
    T_NEAR(value_at(&b, value, 2), -0.8, 1e-6);
    bench_end(&b);
}

MF_TEST(variable_reads_are_snapshots)
{
    bench b = bench_new();
    mf_output init;
    const mf_output w = variable(&b, true, VEC(&b, 1, 2, 3), &init), value = read_of(&b, true, w),
                    add = mf_apply(b.g, "AssignAddVariableOp", MF_IN(w, VEC(&b, 1, 1, 1))),
                    destroy = mf_apply(b.g, "DestroyResourceOp", MF_IN(w)),
                    is = mf_apply(b.g, "VarIsInitializedOp", MF_IN(w));
    mf_tensor *before = NULL;

    bench_start(&b);
    T_EQ(VALUE(&b, is), 0);
    CANNOT(&b, value, MF_FAILED_PRECONDITION, "Could not find variable w.");
    CANNOT(&b, add, MF_NOT_FOUND, "Resource localhost/w/");
    DO(&b, init);
    T_EQ(VALUE(&b, is), 1);
    T_OK(run_for(&b, value, 0, &before));
    DO(&b, add);
    T_EQ_F(mf_tensor_float_at(before, 0), 1);
    T_EQ_F(value_at(&b, value, 0), 2);
    DO(&b, destroy);
    T_EQ(VALUE(&b, is), 0);
    mf_tensor_free(before);
    bench_end(&b);
}

MF_TEST(tensor_list_is_a_value)
{
    bench b = bench_new();
    const mf_output shape = mf_ints(b.g, (int64_t[]){ 2 }, 1),
                    l = mf_applyf(b.g, "EmptyTensorList", MF_IN(shape, INT(&b, 2)),
                                  "element_dtype=float"),
                    one = mf_apply(b.g, "TensorListPushBack", MF_IN(l, VEC(&b, 1, 2))),
                    two = mf_apply(b.g, "TensorListPushBack", MF_IN(one, VEC(&b, 3, 4))),
                    three = mf_apply(b.g, "TensorListPushBack", MF_IN(two, VEC(&b, 3, 4))),
                    set = mf_apply(b.g, "TensorListSetItem", MF_IN(two, INT(&b, 0), VEC(&b, 9, 9))),
                    all =
                        mf_applyf(b.g, "TensorListStack", MF_IN(two, shape), "element_dtype=float"),
                    changed =
                        mf_applyf(b.g, "TensorListStack", MF_IN(set, shape), "element_dtype=float"),
                    sum = mf_apply(b.g, "AddV2", MF_IN(all, changed));
    const double want[] = { 10, 11, 6, 8 }; /* both lists are seen: neither changed the other */

    bench_start(&b);
    for (int i = 0; i < 4; i++)
        T_EQ_F(value_at(&b, sum, i), want[i]);
    CANNOT(&b, three, MF_INVALID_ARGUMENT, "full list");
    bench_end(&b);
}
