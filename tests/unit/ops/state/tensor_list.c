/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list.c - gradients and limits of tensor lists. */
#include "ops/state/tensor_list.h"

#include "unit/ops/bench_graph.h"

#include <meshflow/graph.h>

/* A list of three scalars. */
static mf_output list_of(bench *b, mf_output items)
{
    return mf_apply(b->g, "TensorListFromTensor", MF_IN(items, mf_ints(b->g, NULL, 0)));
}

static mf_output gathered(bench *b, mf_output list, mf_output indices)
{
    return mf_applyf(b->g, "TensorListGather", MF_IN(list, indices, mf_ints(b->g, NULL, 0)),
                     "element_dtype=float");
}

MF_TEST(tensor_list_gather_has_a_gradient)
{
    bench b = bench_new();
    const mf_output x = VEC(&b, 1, 2, 3), weights = VEC(&b, 5, 7),
                    indices = mf_ints(b.g, (int64_t[]){ 2, 0 }, 2),
                    y = mf_apply(b.g, "Mul", MF_IN(gathered(&b, list_of(&b, x), indices), weights));
    const double want[] = { 7, 0, 5 };
    mf_output dx;

    T_OK(mf_gradients(b.g, &y, 1, &x, 1, NULL, &dx));
    bench_start(&b);
    for (int i = 0; i < 3; i++)
        T_EQ_F(value_at(&b, dx, i), want[i]);
    bench_end(&b);
}

MF_TEST(tensor_list_resize_has_a_gradient)
{
    bench b = bench_new();
    const mf_output x = VEC(&b, 1, 2, 3),
                    shorter = mf_apply(b.g, "TensorListResize", MF_IN(list_of(&b, x), INT(&b, 2))),
                    rows = mf_applyf(b.g, "TensorListStack", MF_IN(shorter, mf_ints(b.g, NULL, 0)),
                                     "element_dtype=float"),
                    y = mf_apply(b.g, "Square", MF_IN(rows));
    const double want[] = { 2, 4, 0 };
    mf_output dx;

    T_OK(mf_gradients(b.g, &y, 1, &x, 1, NULL, &dx));
    bench_start(&b);
    for (int i = 0; i < 3; i++)
        T_EQ_F(value_at(&b, dx, i), want[i]);
    bench_end(&b);
}

MF_TEST(tensor_list_scatter_sets_elements_and_has_a_gradient)
{
    bench b = bench_new();
    const mf_output x = VEC(&b, 1, 2, 3), rows = VEC(&b, 8, 9),
                    indices = mf_ints(b.g, (int64_t[]){ 3, 0 }, 2),
                    into = mf_apply(b.g, "TensorListScatterIntoExistingList",
                                    MF_IN(list_of(&b, x), rows, indices)),
                    all = mf_applyf(b.g, "TensorListStack", MF_IN(into, mf_ints(b.g, NULL, 0)),
                                    "element_dtype=float"),
                    y = mf_apply(b.g, "Square", MF_IN(all));
    const double want[] = { 9, 2, 3, 8 }, want_dx[] = { 0, 4, 6 }, want_rows[] = { 16, 18 };
    mf_output d[2];

    T_OK(mf_gradients(b.g, &y, 1, (mf_output[]){ x, rows }, 2, NULL, d));
    bench_start(&b);
    for (int i = 0; i < 4; i++)
        T_EQ_F(value_at(&b, all, i), want[i]);
    for (int i = 0; i < 3; i++)
        T_EQ_F(value_at(&b, d[0], i), want_dx[i]);
    for (int i = 0; i < 2; i++)
        T_EQ_F(value_at(&b, d[1], i), want_rows[i]);
    bench_end(&b);
}

MF_TEST(tensor_list_scatter_rejects_indices_outside_the_list)
{
    bench b = bench_new();
    const mf_output rows = VEC(&b, 8, 9), none = mf_ints(b.g, NULL, 0),
                    l = mf_apply(
                        b.g, "TensorListScatterV2",
                        MF_IN(rows, mf_ints(b.g, (int64_t[]){ 2, 0 }, 2), none, INT(&b, 2))),
                    below = mf_apply(b.g, "TensorListScatter",
                                     MF_IN(rows, mf_ints(b.g, (int64_t[]){ 1, -1 }, 2), none)),
                    fits = mf_apply(b.g, "TensorListScatter",
                                    MF_IN(rows, mf_ints(b.g, (int64_t[]){ 2, 0 }, 2), none));
    const mf_output length = mf_apply(b.g, "TensorListLength", MF_IN(fits));

    bench_start(&b);
    T_EQ(VALUE(&b, length), 3);
    CANNOT(&b, l, MF_INVALID_ARGUMENT, "index 2 in list with size 2");
    CANNOT(&b, below, MF_INVALID_ARGUMENT, "non-negative, got -1");
    bench_end(&b);
}

/* A client's loop can nest them without end; each is freed within the one around it. */
MF_TEST(tensor_lists_nested_300000_deep_are_freed)
{
    mf_tensor outer = { 0 };

    for (int i = 0; i < 300000; i++) {
        mf_list *l;

        T_OK(mf_list_new(MF_DTYPE_VARIANT, &MF_SCALAR, 1, &l));
        mf_tensor_move(&l->items[0], &outer);
        T_OK(mf_list_wrap(l, &outer));
    }
    mf_tensor_clear(&outer);
}
