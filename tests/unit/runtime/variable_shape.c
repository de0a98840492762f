/* SPDX-License-Identifier: Apache-2.0 */
/* variable_shape.c - variables whose shape changes. */
#include "unit/ops/bench_graph.h"

MF_TEST(variable_assigned_without_validation_takes_another_shape)
{
    bench b = bench_new();
    const mf_output v = mf_applyf(b.g, "VariableV2", MF_IN(MF_END), "shape=shape[2] dtype=float"),
                    two = mf_apply(b.g, "Assign", MF_IN(v, VEC(&b, 1, 2))),
                    three = mf_applyf(b.g, "Assign", MF_IN(v, VEC(&b, 3, 4, 5)),
                                      "validate_shape=false"),
                    twice = mf_apply(b.g, "AddV2", MF_IN(v, v)),
                    size = mf_apply(b.g, "Size", MF_IN(twice)),
                    wrong = mf_apply(b.g, "Assign", MF_IN(v, VEC(&b, 3, 4, 5)));

    bench_start(&b);
    DO(&b, two);
    T_EQ(VALUE(&b, size), 2);
    T_EQ_F(value_at(&b, twice, 1), 4);
    CANNOT(&b, wrong, MF_INVALID_ARGUMENT, "shapes");
    DO(&b, three);
    T_EQ(VALUE(&b, size), 3);
    T_EQ_F(value_at(&b, twice, 2), 10);
    bench_end(&b);
}

MF_TEST(variable_may_change_its_shape_after_an_extension_allows_it)
{
    bench b = bench_new();
    const mf_output v = mf_applyf(b.g, "VariableV2", MF_IN(MF_END), "shape=shape[2] dtype=float"),
                    two = mf_apply(b.g, "Assign", MF_IN(v, VEC(&b, 1, 2))),
                    size = mf_apply(b.g, "Size", MF_IN(v));
    mf_output three;

    bench_start(&b);
    DO(&b, two);
    T_EQ(VALUE(&b, size), 2);
    three = mf_applyf(b.g, "Assign", MF_IN(v, VEC(&b, 3, 4, 5)), "validate_shape=false");
    T_OK(mf_session_extend(b.s, b.g));
    DO(&b, three);
    T_EQ(VALUE(&b, size), 3);
    bench_end(&b);
}
