/* SPDX-License-Identifier: Apache-2.0 */
/* cross.c - cross products of 3-vectors in the last dimension. */
#include "ops/math/math_util.h"

typedef void cross_fn(const void *a, const void *b, void *out, int64_t n);

/* Vectors are small and the op is rare: one simple loop per type. */
#define CROSS_KIND(MUL_SUB, kind)                                                                  \
    static void cross_##kind(const void *pa, const void *pb, void *po, int64_t n)                  \
    {                                                                                              \
        const MF_S_##kind *a = pa, *b = pb;                                                        \
        MF_S_##kind *o = po;                                                                       \
        for (int64_t i = 0; i < n; i++, a += 3, b += 3, o += 3) {                                  \
            const MF_C_##kind a0 = MF_LD_##kind(a, 0), a1 = MF_LD_##kind(a, 1),                    \
                              a2 = MF_LD_##kind(a, 2), b0 = MF_LD_##kind(b, 0),                    \
                              b1 = MF_LD_##kind(b, 1), b2 = MF_LD_##kind(b, 2);                    \
            o[0] = MF_ST_##kind(MUL_SUB(a1, b2, a2, b1));                                          \
            o[1] = MF_ST_##kind(MUL_SUB(a2, b0, a0, b2));                                          \
            o[2] = MF_ST_##kind(MUL_SUB(a0, b1, a1, b0));                                          \
        }                                                                                          \
    }
#define MUL_SUB(a, b, c, d) ((a) * (b) - (c) * (d))
#define WRAP_MUL_SUB(a, b, c, d) (MF_WRAP_MUL(a, b) - MF_WRAP_MUL(c, d))
CROSS_KIND(MUL_SUB, f32)
CROSS_KIND(MUL_SUB, f64)
CROSS_KIND(MUL_SUB, f16)
CROSS_KIND(MUL_SUB, bf16)
CROSS_KIND(WRAP_MUL_SUB, i8)
CROSS_KIND(WRAP_MUL_SUB, i16)
CROSS_KIND(WRAP_MUL_SUB, i32)
CROSS_KIND(WRAP_MUL_SUB, i64)
CROSS_KIND(WRAP_MUL_SUB, u8)
CROSS_KIND(WRAP_MUL_SUB, u16)
CROSS_KIND(WRAP_MUL_SUB, u32)
CROSS_KIND(WRAP_MUL_SUB, u64)

static cross_fn *const loops[MF_DTYPE_COUNT] = { MF_FN_FLOATS(cross), MF_FN_INTS(cross) };

static mf_status cross_check_shapes(const mf_shape *a, const mf_shape *b)
{
    char ta[MF_SHAPE_TEXT], tb[MF_SHAPE_TEXT];

    if (!mf_shape_compatible(a, b))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Both inputs must be of same shape: %s vs. %s",
                       mf_shape_text(a, ta), mf_shape_text(b, tb));
    if (a->rank == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input must be at least 1D: %s", mf_shape_text(a, ta));
    if (a->rank > 0 && a->dims[a->rank - 1] != 3 && a->dims[a->rank - 1] != MF_UNKNOWN_DIM)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "Cross-products are only defined for 3-element vectors, not for %s",
                       mf_shape_text(a, ta));
    return MF_OK;
}

static mf_status cross_infer(mf_infer *in)
{
    MF_TRY(cross_check_shapes(&in->in[0], &in->in[1]));
    return mf_shape_merge(&in->in[0], &in->in[1], &in->out[0]);
}

static mf_status cross_run(mf_kernel *k)
{
    const mf_tensor *a = k->in[0], *b = k->in[1];
    mf_tensor *out;

    MF_TRY(cross_check_shapes(&a->shape, &b->shape));
    if (!loops[a->dtype])
        return MF_FAIL(MF_UNIMPLEMENTED, "op Cross has no kernel for type %s",
                       mf_dtype_name(a->dtype));
    MF_TRY(mf_kernel_out(k, 0, &a->shape, &out));
    loops[a->dtype](a->data, b->data, out->data, a->count / 3);
    return MF_OK;
}

static mf_status cross_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("Cross", g->x[1], g->dy[0]);
    g->dx[1] = MF_G2("Cross", g->dy[0], g->x[0]);
    return MF_OK;
}

const mf_op mf_op_cross = {
    .name = "Cross",
    .def = "(a:T, b:T) -> (product:T) {T:type in reals}",
    .flags = MF_OP_INPLACE,
    .infer = cross_infer,
    .grad = cross_grad,
    .run = cross_run,
    .samples = MF_SAMPLES("f32[3] f32[3]", "f32[2,2,3] f32[2,2,3]", "f64[4,3] f64[4,3]",
                          "i32[2,3] i32[2,3]", "u8[3] u8[3]", "bf16[3] bf16[3] !nograd",
                          "f32[0,3] f32[0,3]", "f32[2] f32[2] !fails", "f32[3] f32[2,3] !fails",
                          "f32[] f32[] !fails"),
};
