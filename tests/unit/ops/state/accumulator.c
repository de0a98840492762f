/* SPDX-License-Identifier: Apache-2.0 */
/* accumulator.c - accumulators of dense and sparse gradients. */
#include "unit/ops/bench_graph.h"

static mf_output apply(bench *b, mf_output acc, double step, mf_output gradient)
{
    return mf_apply(b->g, "ResourceAccumulatorApplyGradient", MF_IN(acc, LONG(b, step), gradient));
}

MF_TEST(accumulator_returns_the_mean_and_drops_stale_gradients)
{
    bench b = bench_new();
    const mf_output acc = mf_applyf(b.g, "ResourceConditionalAccumulator", MF_NO_IN,
                                    "dtype=float shape=shape[2]"),
                    one = apply(&b, acc, 0, VEC(&b, 1, 2)), two = apply(&b, acc, 0, VEC(&b, 3, 6)),
                    bad = apply(&b, acc, 0, VEC(&b, 1, 2, 3)),
                    take = mf_applyf(b.g, "ResourceAccumulatorTakeGradient", MF_IN(acc, INT(&b, 2)),
                                     "dtype=float"),
                    none = mf_applyf(b.g, "ResourceAccumulatorTakeGradient", MF_IN(acc, INT(&b, 0)),
                                     "dtype=float"),
                    count = mf_apply(b.g, "ResourceAccumulatorNumAccumulated", MF_IN(acc)),
                    step =
                        mf_apply(b.g, "ResourceAccumulatorSetGlobalStep", MF_IN(acc, LONG(&b, 0)));

    bench_start(&b);
    CANNOT(&b, bad, MF_INVALID_ARGUMENT, "Shape mismatch: expected [2], got [3]");
    CANNOT(&b, none, MF_INVALID_ARGUMENT, "num_required must be positive, but was 0");
    DO(&b, one);
    T_FAILS(MF_DEADLINE_EXCEEDED, "", run_for(&b, take, 50, NULL));
    DO(&b, two);
    T_EQ(VALUE(&b, count), 2);
    T_EQ_F(value_at(&b, take, 1), 4);
    DO(&b, one); /* the accumulator is at step 1 by now */
    T_EQ(VALUE(&b, count), 0);
    DO(&b, step);
    DO(&b, one);
    T_EQ(VALUE(&b, count), 1);
    bench_end(&b);
}

MF_TEST(accumulator_of_sparse_gradients_divides_each_row_by_its_own_count)
{
    static int64_t two[] = { 2, 1 };
    bench b = bench_new();
    const mf_output acc = mf_applyf(b.g, "SparseConditionalAccumulator", MF_NO_IN,
                                    "dtype=float shape=shape[4,1]"),
                    shape = mf_applyf(b.g, "Cast", MF_IN(mf_ints(b.g, (int64_t[]){ 4, 1 }, 2)),
                                      "DstT=int64"),
                    dims = mf_ints(b.g, two, 2);
    const double rows[3][2] = { { 0, 2 }, { 2, 3 }, { 9, 10 } };
    mf_output add[3], take;

    for (int i = 0; i < 3; i++) {
        const mf_output index = mf_applyf(
            b.g, "Cast",
            MF_IN(mf_ints(b.g, (int64_t[]){ (int64_t)rows[i][0], (int64_t)rows[i][1] }, 2)),
            "DstT=int64");
        const mf_output value = mf_apply(b.g, "Reshape", MF_IN(VEC(&b, 1, 3), dims));

        add[i] = mf_applyf(b.g, "SparseAccumulatorApplyGradient",
                           MF_IN(acc, LONG(&b, 0), index, value, shape), "has_known_shape=true");
    }
    take = mf_applyf(b.g, "SparseAccumulatorTakeGradient", MF_IN(acc, INT(&b, 2)), "dtype=float");
    bench_start(&b);
    DO(&b, add[0]);
    DO(&b, add[1]);
    CANNOT(&b, add[2], MF_INVALID_ARGUMENT,
           "index of slice 0 exceeded limits of shape; index is 9 exceeded 4");
    take.port = 1;
    {
        const double want[] = { 1, 2, 3 }; /* rows 0, 2 (3 and 1) and 3 */
        mf_tensor *t = NULL;

        T_OK(run_for(&b, take, 0, &t));
        T_EQ(mf_tensor_count(t), 3);
        for (int i = 0; i < 3; i++)
            T_EQ_F(mf_tensor_float_at(t, i), want[i]);
        mf_tensor_free(t);
    }
    bench_end(&b);
}

/* SyncReplicasOptimizer declares (). */
MF_TEST(accumulator_of_sparse_gradients_without_a_shape_accepts_any_gradient)
{
    bench b = bench_new();
    const mf_output acc = mf_applyf(b.g, "SparseConditionalAccumulator", MF_NO_IN,
                                    "dtype=float shape=shape[]"),
                    rows = mf_ints(b.g, (int64_t[]){ 1, 2 }, 2),
                    value = mf_apply(b.g, "Reshape", MF_IN(VEC(&b, 5, 7), rows)),
                    index = mf_applyf(b.g, "Cast", MF_IN(mf_ints(b.g, (int64_t[]){ 29 }, 1)),
                                      "DstT=int64"),
                    shape = mf_applyf(b.g, "Cast", MF_IN(mf_ints(b.g, (int64_t[]){ 30, 2 }, 2)),
                                      "DstT=int64"),
                    add = mf_applyf(b.g, "SparseAccumulatorApplyGradient",
                                    MF_IN(acc, LONG(&b, 0), index, value, shape),
                                    "has_known_shape=true");
    mf_output take =
        mf_applyf(b.g, "SparseAccumulatorTakeGradient", MF_IN(acc, INT(&b, 1)), "dtype=float");

    bench_start(&b);
    DO(&b, add);
    take.port = 1;
    T_EQ_F(value_at(&b, take, 1), 7);
    bench_end(&b);
}
