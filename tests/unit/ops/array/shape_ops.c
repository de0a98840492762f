/* SPDX-License-Identifier: Apache-2.0 */
/* shape_ops.c - shapes whose sizes exceed int32. */
#include "unit/ops/bench_graph.h"

#include <meshflow/graph.h>

/* Of the op on a tensor of these sizes, which is never made. */
static mf_status asked(const char *op, const char *type, int64_t rows, int64_t *first)
{
    bench b = bench_new();
    mf_output sizes, filled;
    const char *fetch = "asked:0";
    mf_tensor value = { 0 }, *result = &value;
    mf_status st;

    sizes = mf_applyf(b.g, "Cast", MF_IN(mf_ints(b.g, (int64_t[]){ 1 << 16 }, 1)), "DstT=int64");
    sizes = mf_apply(b.g, "Mul", MF_IN(sizes, LONG(&b, (double)rows)));
    filled = mf_apply(b.g, "Fill", MF_IN(sizes, mf_scalar(b.g, MF_DTYPE_F32, 0)));
    (void)mf_applyf(b.g, op, MF_IN(filled), "name='asked' out_type=%s", type);
    bench_start(&b);
    st = mf_session_run(b.s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &result);
    if (st == MF_OK)
        *first = value.dtype == MF_DTYPE_I32 ? *(const int32_t *)value.data
                                             : *(const int64_t *)value.data;
    mf_tensor_clear(&value);
    bench_end(&b);
    return st;
}

MF_TEST(shape_ops_reject_sizes_beyond_int32)
{
    int64_t size = 0;

    T_FAILS(MF_INVALID_ARGUMENT, "4294967296", asked("Size", "int32", 1 << 16, &size));
    T_FAILS(MF_INVALID_ARGUMENT, "4294967296", asked("Shape", "int32", 1 << 16, &size));
    T_OK(asked("Size", "int64", 1 << 16, &size));
    T_EQ(size, INT64_C(1) << 32);
    T_OK(asked("Size", "int32", 2, &size));
    T_EQ(size, 1 << 17);
}
