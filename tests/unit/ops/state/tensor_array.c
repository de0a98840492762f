/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_array.c - TensorArray and stacks. */
#include "unit/ops/bench_graph.h"

static mf_output write_to(bench *b, mf_output array, double index, mf_output value, mf_output flow)
{
    return mf_apply(b->g, "TensorArrayWriteV3", MF_IN(array, INT(b, index), value, flow));
}

MF_TEST(tensor_array_is_written_once_and_read_once)
{
    bench b = bench_new();
    const mf_output a = mf_applyf(b.g, "TensorArrayV3", MF_IN(INT(&b, 2)), "dtype=float"),
                    flow = { a.node, 1 }, one = write_to(&b, a, 0, VEC(&b, 1, 2), flow),
                    again = write_to(&b, a, 0, VEC(&b, 1, 2), one),
                    out_of_it = write_to(&b, a, 2, VEC(&b, 1, 2), flow),
                    read = mf_applyf(b.g, "TensorArrayReadV3", MF_IN(a, INT(&b, 0), one),
                                     "dtype=float"),
                    unwritten = mf_applyf(b.g, "TensorArrayReadV3", MF_IN(a, INT(&b, 1), one),
                                          "dtype=float"),
                    size = mf_apply(b.g, "TensorArraySizeV3", MF_IN(a, one));

    bench_start(&b);
    T_EQ_F(value_at(&b, read, 1), 2);
    T_EQ(VALUE(&b, size), 2);
    CANNOT(&b, again, MF_INVALID_ARGUMENT, "index 0 because it has already been written to");
    CANNOT(&b, out_of_it, MF_INVALID_ARGUMENT,
           "Tried to write to index 2 but array is not resizeable and size is: 2");
    CANNOT(&b, unwritten, MF_INVALID_ARGUMENT, "Could not read from TensorArray index 1");
    bench_end(&b);
}

MF_TEST(tensor_array_gradients_add_up_when_an_element_is_read_twice)
{
    bench b = bench_new();
    const mf_output x = mf_apply(b.g, "Reshape",
                                 MF_IN(VEC(&b, 1, 2, 3, 4), mf_ints(b.g, (int64_t[]){ 2, 2 }, 2))),
                    a = mf_applyf(b.g, "TensorArrayV3", MF_IN(INT(&b, 2)),
                                  "dtype=float clear_after_read=false"),
                    both = mf_ints(b.g, (int64_t[]){ 0, 1 }, 2),
                    flow = mf_apply(b.g, "TensorArrayScatterV3",
                                    MF_IN(a, both, x, ((mf_output){ a.node, 1 }))),
                    read = mf_applyf(b.g, "TensorArrayReadV3", MF_IN(a, INT(&b, 1), flow),
                                     "dtype=float"),
                    all =
                        mf_applyf(b.g, "TensorArrayGatherV3", MF_IN(a, both, flow), "dtype=float"),
                    y = mf_apply(b.g, "AddV2", MF_IN(mf_apply(b.g, "Mul", MF_IN(all, all)), read));
    const double want[] = { 2, 4, 6 + 2, 8 + 2 }; /* `read` is added to both rows */
    mf_output dx;

    T_OK(mf_gradients(b.g, &y, 1, &x, 1, NULL, &dx));
    bench_start(&b);
    for (int i = 0; i < 4; i++)
        T_EQ_F(value_at(&b, dx, i), want[i]);
    bench_end(&b);
}

MF_TEST(tensor_array_splits_and_concatenates)
{
    bench b = bench_new();
    const mf_output a = mf_applyf(b.g, "TensorArrayV3", MF_IN(INT(&b, 2)), "dtype=float"),
                    lengths = mf_applyf(b.g, "Cast", MF_IN(mf_ints(b.g, (int64_t[]){ 1, 3 }, 2)),
                                        "DstT=int64"),
                    short_of = mf_applyf(b.g, "Cast", MF_IN(mf_ints(b.g, (int64_t[]){ 1, 1 }, 2)),
                                         "DstT=int64"),
                    x = VEC(&b, 1, 2, 3, 4), flow = { a.node, 1 },
                    split = mf_apply(b.g, "TensorArraySplitV3", MF_IN(a, x, lengths, flow)),
                    bad = mf_apply(b.g, "TensorArraySplitV3", MF_IN(a, x, short_of, flow));
    mf_output cat = mf_applyf(b.g, "TensorArrayConcatV3", MF_IN(a, split), "dtype=float");

    bench_start(&b);
    T_EQ_F(value_at(&b, cat, 3), 4);
    cat.port = 1;
    T_EQ(value_at(&b, cat, 1), 3);
    CANNOT(&b, bad, MF_INVALID_ARGUMENT, "sum of lengths is 2");
    bench_end(&b);
}

MF_TEST(stack_pops_in_reverse_order_and_respects_its_limit)
{
    bench b = bench_new();
    const mf_output s = mf_applyf(b.g, "StackV2", MF_IN(INT(&b, 2)), "elem_type=float"),
                    one = mf_apply(b.g, "StackPushV2", MF_IN(s, FLOAT(&b, 1))),
                    two = mf_apply(b.g, "StackPushV2", MF_IN(s, FLOAT(&b, 2))),
                    three = mf_apply(b.g, "StackPushV2", MF_IN(s, FLOAT(&b, 3))),
                    empty = mf_applyf(b.g, "StackPopV2", MF_IN(s), "elem_type=float"),
                    pop = mf_applyf(b.g, "StackPopV2", MF_IN(s), "elem_type=float"),
                    wrong = mf_applyf(b.g, "StackPopV2", MF_IN(s), "elem_type=int32");

    mf_control(b.g, two.node, one.node);
    mf_control(b.g, three.node, two.node);
    mf_control(b.g, pop.node, two.node);
    bench_start(&b);
    T_EQ_F(VALUE(&b, pop), 2);
    CANNOT(&b, empty, MF_INVALID_ARGUMENT, "is empty when calling Pop()");
    CANNOT(&b, three, MF_INVALID_ARGUMENT, "overflowed its max_size (2)");
    CANNOT(&b, wrong, MF_INVALID_ARGUMENT, "Must have type float but got int32");
    bench_end(&b);
}
