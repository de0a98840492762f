/* SPDX-License-Identifier: Apache-2.0 */
/* unary.c - algebraic functions of one tensor: signs, squares, roots, reciprocals, rounding. */
#include "graph/split.h"
#include "ops/math/math_util.h"

#define NEG(x) (-(x))
#define WRAP_NEG(x) MF_WRAP_SUB(0, x)
#define WRAP_ABS(x) ((x) < 0 ? MF_WRAP_SUB(0, x) : (uint64_t)(x))
#define SQUARE(x) ((x) * (x))
#define WRAP_SQUARE(x) MF_WRAP_MUL(x, x)
#define SQRT(x) MF_PICK(x, __builtin_sqrtf, __builtin_sqrt, csqrtf, csqrt)
#define RSQRT(x) (1 / SQRT(x))
#define RECIPROCAL(x) (1 / (x))
/* Zero of either sign becomes +0; NaN is kept. */
#define SIGN(x) ((x) > 0 ? 1 : (x) < 0 ? -1 : (x) != (x) ? (x) : 0)
#define SIGN_INT(x) (((x) > 0) - ((x) < 0))
#define SIGN_COMPLEX(x)                                                                            \
    ((x) == 0 ? 0 : (x) / _Generic((x), float _Complex : cabsf, default : cabs)(x))
#define CEIL(x) MF_PICK_REAL(x, __builtin_ceilf, __builtin_ceil)
/* Ties go to even. */
#define RINT(x) MF_PICK_REAL(x, __builtin_rintf, __builtin_rint)
#define SAME(x) (x)

MF_EACH_FLOAT_COMPLEX(MF_UNARY, neg, NEG)
MF_EACH_SIGNED(MF_UNARY, neg, WRAP_NEG)
MF_LOOP_TABLE(neg, 1, MF_FN_FLOATS_COMPLEX(neg), MF_FN_SIGNED(neg))
MF_EACH_FLOAT(MF_UNARY, abs, MF_ABS)
MF_EACH_SIGNED(MF_UNARY, abs, WRAP_ABS)
MF_LOOP_TABLE(abs, 1, MF_FN_FLOATS(abs), MF_FN_SIGNED(abs))
MF_EACH_FLOAT_COMPLEX(MF_UNARY, square, SQUARE)
MF_EACH_INT(MF_UNARY, square, WRAP_SQUARE)
MF_LOOP_TABLE(square, 1, MF_FN_FLOATS_COMPLEX(square), MF_FN_INTS(square))
MF_EACH_FLOAT(MF_UNARY, sign, SIGN)
MF_EACH_SIGNED(MF_UNARY, sign, SIGN_INT)
MF_EACH_COMPLEX(MF_UNARY, sign, SIGN_COMPLEX)
MF_LOOP_TABLE(sign, 1, MF_FN_FLOATS_COMPLEX(sign), MF_FN_SIGNED(sign))
MF_EACH_FLOAT(MF_UNARY, rint, RINT)
MF_EACH_SIGNED(MF_UNARY, same, SAME)
MF_LOOP_TABLE(round, 1, MF_FN_FLOATS(rint), MF_FN_SIGNED(same))
MF_LOOP_TABLE(rint, 1, MF_FN_FLOATS(rint))
MF_LOOPS_FLOAT(MF_UNARY, 1, floor, MF_FLOOR)
MF_LOOPS_FLOAT(MF_UNARY, 1, ceil, CEIL)
MF_LOOPS_FLOAT_COMPLEX(MF_UNARY, 1, sqrt, SQRT)
MF_LOOPS_FLOAT_COMPLEX(MF_UNARY, 1, rsqrt, RSQRT)
MF_LOOPS_FLOAT_COMPLEX(MF_UNARY, 1, reciprocal, RECIPROCAL)

/* Gradient kernels take (y, dy), where y is the function's value, conjugated for complex types. If
 * dy is 0 the result is 0, even at a pole. */
#define CONJ(x) _Generic((x), float _Complex : conjf, default : conj)(x)
#define SQRT_GRAD(y, dy) ((dy) == 0 ? 0 : (dy) / (y) / 2)
#define SQRT_GRAD_COMPLEX(y, dy) ((dy) == 0 ? 0 : (dy) / CONJ(y) / 2)
#define CUBE(y) ((y) * (y) * (y))
#define RSQRT_GRAD(y, dy) ((dy) == 0 ? 0 : (dy)*CUBE(y) / -2)
#define RSQRT_GRAD_COMPLEX(y, dy) ((dy) == 0 ? 0 : (dy)*CUBE(CONJ(y)) / -2)
#define RECIPROCAL_GRAD(y, dy) ((dy) == 0 ? 0 : -(dy) * ((y) * (y)))
#define RECIPROCAL_GRAD_COMPLEX(y, dy) ((dy) == 0 ? 0 : -(dy) * (CONJ(y) * CONJ(y)))
#define GRAD_LOOPS(NAME, EXPR)                                                                     \
    MF_EACH_FLOAT(MF_BINARY, NAME, EXPR)                                                           \
    MF_EACH_COMPLEX(MF_BINARY, NAME, EXPR##_COMPLEX)                                               \
    MF_LOOP_TABLE(NAME, 2, MF_FN_FLOATS_COMPLEX(NAME))
GRAD_LOOPS(sqrt_grad, SQRT_GRAD)
GRAD_LOOPS(rsqrt_grad, RSQRT_GRAD)
GRAD_LOOPS(reciprocal_grad, RECIPROCAL_GRAD)

/* ---- gradients ---- */

static mf_status neg_grad(mf_grad *g)
{
    g->dx[0] = MF_G1("Neg", g->dy[0]);
    return MF_OK;
}

static mf_status abs_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(g->dy[0], MF_G1("Sign", g->x[0]));
    return MF_OK;
}

static mf_status square_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(g->dy[0], MF_GSCALE(mf_grad_conj(g, g->x[0]), 2));
    return MF_OK;
}

static mf_status sign_grad(mf_grad *g)
{
    g->dx[0] = MF_G1("ZerosLike", g->x[0]);
    return MF_OK;
}

static mf_status sqrt_of_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("SqrtGrad", g->y[0], g->dy[0]);
    return MF_OK;
}

static mf_status rsqrt_of_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("RsqrtGrad", g->y[0], g->dy[0]);
    return MF_OK;
}

static mf_status reciprocal_of_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("ReciprocalGrad", g->y[0], g->dy[0]);
    return MF_OK;
}

static mf_status sqrt_grad_grad(mf_grad *g)
{
    const mf_output ga = MF_G2("RealDiv", g->dy[0], g->x[0]);

    g->dx[0] = MF_GMUL(MF_G1("Neg", mf_grad_conj(g, ga)), g->y[0]);
    g->dx[1] = MF_GSCALE(ga, 0.5);
    return MF_OK;
}

static mf_status rsqrt_grad_grad(mf_grad *g)
{
    const mf_output a = mf_grad_conj(g, g->x[0]), dy = mf_grad_conj(g, g->dy[0]);

    g->dx[0] = MF_GMUL(MF_GMUL(MF_GSCALE(dy, -1.5), g->x[1]), MF_G1("Square", a));
    g->dx[1] = MF_G2("RsqrtGrad", a, g->dy[0]);
    return MF_OK;
}

static mf_status reciprocal_grad_grad(mf_grad *g)
{
    const mf_output a = mf_grad_conj(g, g->x[0]), dy = mf_grad_conj(g, g->dy[0]);

    g->dx[0] = MF_GMUL(MF_GMUL(MF_GSCALE(dy, -2), g->x[1]), a);
    g->dx[1] = MF_G2("ReciprocalGrad", a, g->dy[0]);
    return MF_OK;
}

#define SIGNED_DEF "(x:T) -> (y:T) {T:type in " MF_DEF_SIGNED_COMPLEX "}"
#define FLOAT_COMPLEX_DEF "(x:T) -> (y:T) {T:type in " MF_DEF_FLOATS_COMPLEX "}"
#define GRAD_DEF "(y:T, dy:T) -> (z:T) {T:type in " MF_DEF_FLOATS_COMPLEX "}"
#define FLOAT_DEF "(x:T) -> (y:T) {T:type in floats}"
#define ROUNDING_SAMPLES                                                                           \
    "f32[6]{0.5,1.5,-2.5,-0.5,0.49999997,1e9}", "f32[2,3]@-9:9", "f64[5]@-9:9",                    \
        "bf16[3]@-9:9 !notf", "f16[0] !notf", "f32[]", "f32[3]{nan,inf,-0}"
#define GRAD_SAMPLES                                                                               \
    "f32[2,3]@0.5:2 f32[2,3]", "f64[3]@0.5:2 f64[3]", "c64[2]@1:2 c64[2] !nograd",                 \
        "bf16[3]@1:2 bf16[3] !nograd", "f16[3]@1:2 f16[3] !nograd", "f32[0] f32[0]",               \
        "f32[2] f32[3] !fails", "f32[3]{0,inf,nan} f32[3]{0,0,0} !nograd"

const mf_op mf_ops_unary[] = {
    MF_LOOP_OP_SPLIT("Neg", SIGNED_DEF, neg_loop, neg_grad, mf_split_additive, "f32[2,3]", "f64[]",
                     "i32[2]{-2147483648,5}", "i8[3]", "i64[3]", "c64[3]", "bf16[3]", "f16[3]",
                     "f32[0]"),
    MF_LOOP_OP("Abs",
               "(x:T) -> (y:T) {T:type in [bfloat16,half,float,double,int8,int16,int32,int64]}",
               abs_loop, abs_grad, "f32[2,3]", "f64[]@1:2", "i32[2]{-2147483648,-5}", "i16[3]",
               "bf16[3]", "f16[0]", "f32[3]{-0,nan,-inf} !nograd"),
    MF_LOOP_OP("Square",
               "(x:T) -> (y:T) {T:type in [bfloat16,half,float,double,int8,int16,int32,int64,uint8,"
               "uint16,uint32,uint64,complex64,complex128]}",
               square_loop, square_grad, "f32[2,3]", "f64[]", "i32[2]{65537,-5}", "u8[3]{200,3,16}",
               "c64[3]", "bf16[3]", "f16[2]", "f32[0]"),
    MF_LOOP_OP("Sqrt", FLOAT_COMPLEX_DEF, sqrt_loop, sqrt_of_grad, "f32[2,3]@0.5:4", "f64[]@1:2",
               "f32[4]{0,-0,-1,inf} !nograd", "c64[3]@1:2 !nograd", "bf16[3]@1:2", "f16[3]@1:2",
               "f32[0]"),
    MF_SAME_SHAPE_OP("SqrtGrad", GRAD_DEF, sqrt_grad_loop, sqrt_grad_grad, GRAD_SAMPLES),
    MF_LOOP_OP("Rsqrt", FLOAT_COMPLEX_DEF, rsqrt_loop, rsqrt_of_grad, "f32[2,3]@0.5:4", "f64[]@1:2",
               "f32[4]{0,-0,-1,inf} !nograd", "c64[3]@1:2 !nograd", "bf16[3]@1:2", "f16[3]@1:2",
               "f32[0]"),
    MF_SAME_SHAPE_OP("RsqrtGrad", GRAD_DEF, rsqrt_grad_loop, rsqrt_grad_grad, GRAD_SAMPLES),
    MF_LOOP_OP("Reciprocal", SIGNED_DEF, reciprocal_loop, reciprocal_of_grad, "f32[2,3]@0.5:2",
               "f64[]@1:2", "f32[3]{0,-0,inf} !nograd", "c64[3]@1:2 !nograd", "bf16[3]@1:2",
               "i32[2] !fails"),
    MF_LOOP_OP("Inv", SIGNED_DEF, reciprocal_loop, reciprocal_of_grad, "f32[2,3]@0.5:2",
               "f64[]@1:2", "c128[3]@1:2 !nograd", "f16[3]@1:2", "i64[2] !fails"),
    MF_SAME_SHAPE_OP("ReciprocalGrad", GRAD_DEF, reciprocal_grad_loop, reciprocal_grad_grad,
                     GRAD_SAMPLES),
    MF_SAME_SHAPE_OP("InvGrad", GRAD_DEF, reciprocal_grad_loop, reciprocal_grad_grad, GRAD_SAMPLES),
    MF_LOOP_OP("Sign", SIGNED_DEF, sign_loop, sign_grad, "f32[2,3]", "f32[4]{nan,-0,0,inf} !nograd",
               "f64[]", "i32[5]", "i8[5]", "c64[3] !nograd", "bf16[3]", "f32[0]"),
    MF_LOOP_OP("Floor", FLOAT_DEF, floor_loop, mf_grad_none, ROUNDING_SAMPLES),
    MF_LOOP_OP("Ceil", FLOAT_DEF, ceil_loop, mf_grad_none, ROUNDING_SAMPLES),
    MF_LOOP_OP("Round", SIGNED_DEF, round_loop, mf_grad_none, ROUNDING_SAMPLES, "i32[4] !notf",
               "i8[3] !notf", "c64[2] !fails"),
    MF_LOOP_OP("Rint", FLOAT_DEF, rint_loop, mf_grad_none, ROUNDING_SAMPLES),
    { 0 },
};
