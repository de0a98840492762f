/* SPDX-License-Identifier: Apache-2.0 */
/* searchsorted.c - insertion points in sorted rows: LowerBound and UpperBound. */
#include "ops/array/array_util.h"
#include "ops/array/strided_copy.h"
#include "ops/control/grad_util.h"
#include "ops/math/elementwise.h"

/* The first of n sorted elements that is not less than value (upper: that is greater). */
#define SEARCH(NAME, kind, EXPR)                                                                   \
    static int64_t search_##kind(const void *sorted, int64_t n, const void *values, int64_t i,     \
                                 bool upper)                                                       \
    {                                                                                              \
        const MF_S_##kind *a = sorted, *b = values;                                                \
        const MF_C_##kind v = MF_LD_##kind(b, i);                                                  \
        int64_t low = 0;                                                                           \
        while (n > 0) {                                                                            \
            const int64_t half = n / 2;                                                            \
            const MF_C_##kind x = MF_LD_##kind(a, low + half);                                     \
            if (upper ? !(v < x) : x < v) {                                                        \
                low += half + 1;                                                                   \
                n -= half + 1;                                                                     \
            } else {                                                                               \
                n = half;                                                                          \
            }                                                                                      \
        }                                                                                          \
        return low;                                                                                \
    }
MF_EACH_FLOAT(SEARCH, search, )
MF_EACH_INT(SEARCH, search, )

typedef int64_t search_fn(const void *sorted, int64_t n, const void *values, int64_t i, bool upper);
static search_fn *const search_fns[MF_DTYPE_COUNT] = { MF_FN_FLOATS(search), MF_FN_INTS(search) };

static mf_status search_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 2));
    MF_TRY(mf_infer_rank(in, 1, 2));
    in->out[0] = in->in[1];
    return MF_OK;
}

static mf_status search_run(mf_kernel *k)
{
    const mf_tensor *sorted = k->in[0], *values = k->in[1];
    const bool upper = k->node->op_name[0] == 'U';
    search_fn *fn = search_fns[sorted->dtype];
    int64_t n, per_row;
    mf_tensor *out;

    if (!fn)
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel for type %s", k->node->op_name,
                       mf_dtype_name(sorted->dtype));
    if (sorted->shape.rank != 2 || values->shape.rank != 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Shape must be rank 2 but is rank %d for `%s` argument",
                       sorted->shape.rank != 2 ? sorted->shape.rank : values->shape.rank,
                       sorted->shape.rank != 2 ? "sorted_inputs" : "values");
    if (sorted->shape.dims[0] != values->shape.dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Leading dim_size of both tensors must match: %" PRId64 " vs. %" PRId64,
                       sorted->shape.dims[0], values->shape.dims[0]);
    MF_TRY(mf_kernel_out(k, 0, &values->shape, &out));
    n = sorted->shape.dims[1];
    per_row = values->shape.dims[1];
    for (int64_t i = 0; i < values->count; i++)
        mf_index_put(out, i,
                     fn(mf_cell_at(sorted->dtype, sorted->data, i / per_row * n), n, values->data,
                        i, upper));
    return MF_OK;
}

#define SEARCH_OP(NAME, DEF_)                                                                      \
    {                                                                                              \
        .name = NAME, .def = DEF_, .infer = search_infer, .grad = mf_grad_missing,                 \
        .run = search_run,                                                                         \
        .samples = MF_SAMPLES("i32[1,4]{1,2,2,3} i32[1,5]{2,0,9,3,1}",                             \
                              "f32[2,3]{0,1,2,3,4,5} f32[2,2]{1,5,1,5} ; out_type=int64 !nograd",  \
                              "f64[1,0] f64[1,2] !nograd", "i8[2,2]{0,1,1,1} i8[2,0]",             \
                              "i32[2,2]{1,2,3,4} i32[1,2] !fails", "i32[2] i32[2] !fails")         \
    }

const mf_op mf_ops_search[] = {
    SEARCH_OP("LowerBound", "(sorted_inputs:T, values:T) -> (output:out_type) {T:type, "
                            "out_type:type=int32 in index}"),
    SEARCH_OP("UpperBound", "(sorted_inputs:T, values:T) -> (output:out_type) {T:type, "
                            "out_type:type=int32 in index}"),
    { 0 },
};
