/* SPDX-License-Identifier: Apache-2.0 */
/* exact.c - shards of odd sizes give the bits of one device if no sum is split. */
#include "unit/spmd/mesh_test.h"

#include <stdio.h>

typedef struct exact_case {
    const char *op, *attrs;
    mf_shape a, b; /* b of rank 0: no second input */
    const char *a_dims, *b_dims;
} exact_case;

/* layout NULL: without a mesh. *together: number of collectives so far. */
static mf_tensor *result(const mf_graph *g, const char *layout, const mf_tensor *a,
                         const mf_tensor *b, bool two, int64_t *together)
{
    static const char *const names[] = { "a", "b" }, *const fetch = "op:0";
    const mf_mesh_options o = { .mesh = "x:3", .layout = layout, .exact = true };
    const mf_tensor *feeds[] = { a, b };
    mf_tensor *out = NULL;
    mf_mesh_counts counts;
    mf_session *s;

    T_OK(layout ? mf_mesh_session_new(g, &o, &s) : mf_session_new(g, NULL, &s));
    T_OK(mf_session_run(s, NULL, names, feeds, two ? 2 : 1, &fetch, 1, NULL, 0, &out));
    if (layout) {
        T_OK(mf_mesh_session_counts(s, 0, &counts));
        *together += counts.collectives;
    }
    mf_session_free(s);
    return out;
}

/* whole: any split would change rounding, so the op is not split. */
static void compare(const exact_case *c, bool whole)
{
    static const char *const layouts[] = { "m:x", "n:x", "k:x", "b:x" };
    const bool two = c->b.rank > 0;
    mf_tensor *a = mesh_numbers(&c->a, 1), *b = mesh_numbers(&c->b, 2), *want;
    mf_output in[3] = { { 0 }, { 0 }, MF_END };
    int64_t together = 0;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    in[0] = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='a'");
    mf_name_dims(g, in[0], c->a_dims);
    in[1] = two ? mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='b'") : (mf_output)MF_END;
    if (two)
        mf_name_dims(g, in[1], c->b_dims);
    (void)mf_applyf(g, c->op, in, "name='op' %s", c->attrs);
    T_OK(mf_graph_status(g));
    want = result(g, NULL, a, b, two, &together);
    for (int i = 0; i < MF_COUNT(layouts); i++) {
        mf_tensor *got = result(g, layouts[i], a, b, two, &together);
        const double d = mesh_distance(want, got);

        if (d != 0)
            T_FAIL("%s %s under %s: %g", c->op, c->attrs, layouts[i], d);
        mf_tensor_free(got);
    }
    if ((together == 0) != whole)
        T_FAIL("%s %s is %s cut", c->op, c->attrs, whole ? "nevertheless" : "never");
    mf_tensor_free(want);
    mf_tensor_free(a);
    mf_tensor_free(b);
    mf_graph_free(g);
}

MF_TEST(mesh_shards_of_odd_sizes_give_the_same_bits_as_one_device)
{
    static const exact_case cases[] = {
        { "MatMul", "", { 2, { 832, 64 } }, { 2, { 64, 256 } }, "m,k", "k,n" },
        { "MatMul", "", { 2, { 32, 784 } }, { 2, { 784, 128 } }, "m,k", "k,n" },
        { "MatMul", "transpose_a=true", { 2, { 832, 64 } }, { 2, { 832, 256 } }, "k,m", "k,n" },
        { "MatMul", "transpose_b=true", { 2, { 832, 64 } }, { 2, { 256, 64 } }, "m,k", "n,k" },
        { "MatMul",
          "transpose_a=true transpose_b=true",
          { 2, { 64, 100 } },
          { 2, { 256, 64 } },
          "k,m",
          "n,k" },
        { "BatchMatMulV2", "", { 3, { 13, 50, 40 } }, { 3, { 13, 40, 70 } }, "b,m,k", "b,k,n" },
        { "BatchMatMulV2",
          "adj_y=true",
          { 3, { 4, 64, 16 } },
          { 3, { 4, 64, 16 } },
          "b,m,k",
          "b,n,k" },
        { "Tanh", "", { 2, { 100, 256 } }, { 0 }, "m,n", "" },
        { "Exp", "", { 2, { 13, 100 } }, { 0 }, "m,n", "" },
        { "Sigmoid", "", { 2, { 13, 100 } }, { 0 }, "m,n", "" },
        { "Erf", "", { 2, { 13, 100 } }, { 0 }, "m,n", "" },
        { "Softmax", "", { 2, { 100, 33 } }, { 0 }, "m,n", "" },
    };
    static const exact_case sum = { "BiasAddGrad", "", { 2, { 832, 256 } }, { 0 }, "m,n", "" };

    for (int i = 0; i < MF_COUNT(cases); i++)
        compare(&cases[i], false);
    compare(&sum, true);
}
