/* SPDX-License-Identifier: Apache-2.0 */
/* divide.c - quotients and remainders of two broadcast tensors.
 *
 * Integers: a zero divisor is rejected before the computation, so the loops only avoid undefined
 * behaviour; the smallest integer divided by -1 wraps to itself. */
#include "graph/split.h"
#include "ops/math/math_util.h"

#include <math.h>

#define DIV(x, y) ((x) / (y))
#define DIV_NO_NAN(x, y) ((y) == 0 ? 0 : (x) / (y))
#define XDIVY(x, y) ((x) == 0 ? (x) : (x) / (y))
#define FLOOR_DIV(x, y) MF_FLOOR((x) / (y))
#define TRUNC_DIV(x, y) MF_PICK_REAL((x) / (y), __builtin_truncf, __builtin_trunc)
/* For 16-bit floats the quotient is first rounded to that type, which may reach the next integer.
 */
#define FLOOR_DIV_16(x, y, KIND)                                                                   \
    __builtin_floorf(mf_##KIND##_to_f32(mf_##KIND##_from_f32((x) / (y))))
#define TRUNC_DIV_16(x, y, KIND)                                                                   \
    __builtin_truncf(mf_##KIND##_to_f32(mf_##KIND##_from_f32((x) / (y))))
#define FLOOR_DIV_F16(x, y) FLOOR_DIV_16(x, y, f16)
#define FLOOR_DIV_BF16(x, y) FLOOR_DIV_16(x, y, bf16)
#define TRUNC_DIV_F16(x, y) TRUNC_DIV_16(x, y, f16)
#define TRUNC_DIV_BF16(x, y) TRUNC_DIV_16(x, y, bf16)
/* fmod is exact, so its bits are the same everywhere. */
#define TRUNC_MOD(x, y) _Generic((x), float : fmodf, double : fmod)(x, y)
#define FLOOR_MOD(x, y) _Generic((x), float : floor_mod_float, double : floor_mod_double)(x, y)

static double floor_mod_double(double x, double y)
{
    const double m = fmod(x, y);

    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}

static float floor_mod_float(float x, float y)
{
    const float m = fmodf(x, y);

    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}

#define U64(x) ((uint64_t)(x))
#define ROUNDS_DOWN(x, y) ((x) % (y) != 0 && ((x) < 0) != ((y) < 0))
#define DIV_SIGNED(x, y) ((y) == 0 ? 0 : (y) == -1 ? 0 - U64(x) : U64((x) / (y)))
#define FLOOR_DIV_SIGNED(x, y)                                                                     \
    ((y) == 0 ? 0 : (y) == -1 ? 0 - U64(x) : U64((x) / (y)) - U64(ROUNDS_DOWN(x, y)))
#define MOD_SIGNED(x, y) ((y) == 0 || (y) == -1 ? 0 : (x) % (y))
#define FLOOR_MOD_SIGNED(x, y)                                                                     \
    ((y) == 0 || (y) == -1 ? 0 : U64((x) % (y)) + (ROUNDS_DOWN(x, y) ? U64(y) : 0))
#define DIV_UNSIGNED(x, y) ((y) == 0 ? 0u : (x) / (y))
#define MOD_UNSIGNED(x, y) ((y) == 0 ? 0u : (x) % (y))

MF_EACH_FLOAT_COMPLEX(MF_BINARY, div, DIV)
MF_EACH_SIGNED(MF_BINARY, div, DIV_SIGNED)
MF_EACH_UNSIGNED(MF_BINARY, div, DIV_UNSIGNED)
MF_BINARY(trunc_div, f32, TRUNC_DIV)
MF_BINARY(trunc_div, f64, TRUNC_DIV)
MF_BINARY(trunc_div, f16, TRUNC_DIV_F16)
MF_BINARY(trunc_div, bf16, TRUNC_DIV_BF16)
MF_BINARY(floor_div, f32, FLOOR_DIV)
MF_BINARY(floor_div, f64, FLOOR_DIV)
MF_BINARY(floor_div, f16, FLOOR_DIV_F16)
MF_BINARY(floor_div, bf16, FLOOR_DIV_BF16)
MF_EACH_SIGNED(MF_BINARY, floor_div, FLOOR_DIV_SIGNED)
MF_EACH_FLOAT(MF_BINARY, mod, TRUNC_MOD)
MF_EACH_SIGNED(MF_BINARY, mod, MOD_SIGNED)
MF_EACH_UNSIGNED(MF_BINARY, mod, MOD_UNSIGNED)
MF_EACH_FLOAT(MF_BINARY, floor_mod, FLOOR_MOD)
MF_EACH_SIGNED(MF_BINARY, floor_mod, FLOOR_MOD_SIGNED)

/* Float loops are visible and may be fused; integer loops are hidden. */
MF_LOOP_TABLE(real_div, 2, MF_FN_FLOATS_COMPLEX(div))
MF_LOOP_TABLE(int_div, 2, MF_FN_INTS(div))
MF_LOOP_TABLE(trunc_div, 2, MF_FN_FLOATS(trunc_div))
MF_LOOP_TABLE(floor_div, 2, MF_FN_FLOATS(floor_div))
MF_LOOP_TABLE(int_floor_div, 2, MF_FN_SIGNED(floor_div), MF_FN_UNSIGNED(div))
MF_LOOP_TABLE(mod, 2, MF_FN_FLOATS(mod))
MF_LOOP_TABLE(int_mod, 2, MF_FN_INTS(mod))
MF_LOOP_TABLE(floor_mod, 2, MF_FN_FLOATS(floor_mod))
MF_LOOP_TABLE(int_floor_mod, 2, MF_FN_SIGNED(floor_mod), MF_FN_UNSIGNED(mod))
MF_LOOPS_FLOAT_COMPLEX(MF_BINARY, 2, div_no_nan, DIV_NO_NAN)
MF_LOOPS_FLOAT_COMPLEX(MF_BINARY, 2, xdivy, XDIVY)

/* A zero divisor counts only if there is a quotient: an empty numerator has none. */
static mf_status divide_divide(mf_kernel *k, const mf_loop *ints)
{
    static const char zero[8];
    const mf_tensor *y = k->in[1];
    const size_t cell = mf_dtype_cell(y->dtype);

    if (!mf_dtype_is_int(y->dtype))
        return mf_loop_run(k);
    for (int64_t i = 0; k->in[0]->count > 0 && i < y->count; i++) {
        if (memcmp((const char *)y->data + (size_t)i * cell, zero, cell) == 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Integer division by zero");
    }
    return mf_loop_run_hidden(k, ints);
}

static mf_status div_run(mf_kernel *k)
{
    return divide_divide(k, &int_div_loop);
}

static mf_status floor_div_run(mf_kernel *k)
{
    return divide_divide(k, &int_floor_div_loop);
}

static mf_status mod_run(mf_kernel *k)
{
    return divide_divide(k, &int_mod_loop);
}

static mf_status floor_mod_run(mf_kernel *k)
{
    return divide_divide(k, &int_floor_mod_loop);
}

/* (dy / y, dy * ((-x / y) / y)), with the node's own quotient op. */
static mf_status quotient_grad(mf_grad *g)
{
    const char *op = g->node->op_name;
    const mf_output x = mf_grad_conj(g, g->x[0]), y = mf_grad_conj(g, g->x[1]);

    mf_grad_broadcast2(g, MF_G2(op, g->dy[0], y),
                       MF_GMUL(g->dy[0], MF_G2(op, MF_G2(op, MF_G1("Neg", x), y), y)));
    return MF_OK;
}

static mf_status floor_mod_grad(mf_grad *g)
{
    const mf_output quotient = MF_G2("FloorDiv", g->x[0], g->x[1]);

    mf_grad_broadcast2(g, g->dy[0], MF_GMUL(g->dy[0], MF_G1("Neg", quotient)));
    return MF_OK;
}

static mf_status xdivy_grad(mf_grad *g)
{
    const mf_output x = g->x[0], y = g->x[1];
    const mf_output x_not_zero =
        mf_applyf(g->graph, "Cast", MF_IN(MF_G2("NotEqual", x, mf_grad_scalar(g, x, 0))), "DstT=%s",
                  mf_dtype_name(mf_grad_type(x)));

    mf_grad_broadcast2(g, MF_GMUL(MF_G2("Xdivy", x_not_zero, y), g->dy[0]),
                       MF_GMUL(MF_G2("Xdivy", MF_G1("Neg", x), MF_G1("Square", y)), g->dy[0]));
    return MF_OK;
}

#define DIVISION_OP(NAME, DEF, LOOP, RUN, GRAD, ...)                                               \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_INPLACE, .infer = mf_loop_infer, .grad = GRAD,    \
        .run = RUN, .loop = &(LOOP), .samples = MF_SAMPLES(__VA_ARGS__)                            \
    }
#define QUOTIENT_DEF                                                                               \
    "(x:T, y:T) -> (z:T) {T:type in [bfloat16,half,float,double,uint8,int8,uint16,int16,int32,"    \
    "uint32,uint64,int64,complex64,complex128]}"
#define INT_SAMPLES                                                                                \
    "i32[4]{-7,7,-7,7} i32[4]{2,-2,-2,2}", "i64[2,3]@-50:50 i64[3]@1:9",                           \
        "i32[2]{-2147483648,5} i32[2]{-1,-1} !notf", "i32[3] i32[]{0} !fails", "i32[0] i32[]{0}",  \
        "f32[2] f32[3] !fails"

const mf_op mf_ops_divide[] = {
    MF_LOOP_OP_SPLIT("RealDiv", QUOTIENT_DEF, real_div_loop, quotient_grad, mf_split_scaled,
                     "f32[2,3] f32[3]@0.5:2", "f64[4] f64[4]@1:3", "f32[] f32[]{0} !nograd",
                     "c64[3] c64[3]{1,2,3}", "bf16[3] bf16[3]@1:2", "f16[3] f16[]@1:2",
                     "f32[0] f32[1]", "i32[2] i32[2] !fails", "f32[2] f32[3] !fails"),
    DIVISION_OP("Div", QUOTIENT_DEF, real_div_loop, div_run, quotient_grad, "f32[2,3] f32[3]@0.5:2",
                "c128[2] c128[2]{1,3}", "u8[3]{250,7,9} u8[3]{7,2,3}", INT_SAMPLES),
    DIVISION_OP("TruncateDiv", QUOTIENT_DEF, trunc_div_loop, div_run, mf_grad_none,
                "u16[3]@0:9 u16[]@1:3", "f32[2]{-7.5,7.5} f32[2]{2,-2}", INT_SAMPLES),
    DIVISION_OP("FloorDiv", QUOTIENT_DEF, floor_div_loop, floor_div_run, mf_grad_none,
                "f32[4]{-7.5,7.5,5,-6} f32[4]{2,-2,inf,3}", "f64[3] f64[]@1:2",
                "i8[4]{-128,127,-7,5} i8[4]{3,-3,2,-2}", "u32[3]@0:99 u32[3]@1:9",
                "f16[3] f16[3]@1:2", "bf16[2]{-3.328125,4} bf16[2]{0.6640625,3}", INT_SAMPLES),
    DIVISION_OP("FloorMod", "(x:T, y:T) -> (z:T) {T:type in reals}", floor_mod_loop, floor_mod_run,
                floor_mod_grad, "f32[4]{-7.5,7.5,5,-6} f32[4]{2,-2,-3,4}",
                "f64[3,1]@0.1:0.9 f64[2]@1:2", "bf16[3] bf16[3]@1:2 !nograd",
                "u8[3]@0:99 u8[3]@1:9", INT_SAMPLES),
    DIVISION_OP("Mod",
                "(x:T, y:T) -> (z:T) {T:type in [int32,int64,half,half,bfloat16,float,double]}",
                mod_loop, mod_run, mf_grad_missing, "f32[4]{-7.5,7.5,5,-6} f32[4]{2,-2,-3,3}",
                "f64[3] f64[]@1:2", INT_SAMPLES),
    DIVISION_OP(
        "TruncateMod", "(x:T, y:T) -> (z:T) {T:type in [int32,int64,bfloat16,half,float,double]}",
        mod_loop, mod_run, mf_grad_missing, "f32[4]{-7.5,7.5,5,-6} f32[4]{2,-2,-3,3}", INT_SAMPLES),
    MF_LOOP_OP("DivNoNan",
               "(x:T, y:T) -> (z:T) {T:type in [half,float,bfloat16,double,complex64,complex128]}",
               div_no_nan_loop, quotient_grad, "f32[2,3] f32[3]@0.5:2",
               "f32[4]{1,0,inf,nan} f32[4]{0,0,0,1} !nograd", "f64[3] f64[]{2}",
               "c64[2] c64[2]{1,0} !nograd", "bf16[3] bf16[3]@1:2"),
    MF_LOOP_OP("Xdivy",
               "(x:T, y:T) -> (z:T) {T:type in [half,bfloat16,float,double,complex64,complex128]}",
               xdivy_loop, xdivy_grad, "f32[2,3]@1:2 f32[3]@0.5:2",
               "f32[3]{0,0,1} f32[3]{0,nan,0} !nograd", "f64[3]@1:2 f64[]{2}", "f16[2] f16[2]@1:2",
               "c64[2] c64[2]{1,2} !nograd"),
    { 0 },
};
