/* SPDX-License-Identifier: Apache-2.0 */
/* trig.c - trigonometric and hyperbolic functions and their inverses. */
#include "ops/math/math_util.h"

#include <sleef.h>

/* The real functions are SLEEF's, within 1 ulp and with the same bits on every machine. */
#define TRIG(NAME)                                                                                 \
    MF_EACH_FLOAT(MF_UNARY, NAME, REAL_##NAME)                                                     \
    MF_EACH_COMPLEX(MF_UNARY, NAME, COMPLEX_##NAME)                                                \
    MF_LOOP_TABLE(NAME, 1, MF_FN_FLOATS_COMPLEX(NAME))
#define REAL_FN(x, NAME) MF_PICK_REAL(x, Sleef_##NAME##f_u10, Sleef_##NAME##_u10)
#define COMPLEX_FN(x, NAME) _Generic((x), float _Complex : c##NAME##f, default : c##NAME)(x)

#define REAL_sin(x) REAL_FN(x, sin)
#define REAL_cos(x) REAL_FN(x, cos)
#define REAL_tan(x) REAL_FN(x, tan)
#define REAL_asin(x) REAL_FN(x, asin)
#define REAL_acos(x) REAL_FN(x, acos)
#define REAL_atan(x) REAL_FN(x, atan)
#define REAL_sinh(x) REAL_FN(x, sinh)
#define REAL_cosh(x) REAL_FN(x, cosh)
#define REAL_asinh(x) REAL_FN(x, asinh)
#define REAL_acosh(x) REAL_FN(x, acosh)
#define REAL_atanh(x) REAL_FN(x, atanh)
#define COMPLEX_sin(x) COMPLEX_FN(x, sin)
#define COMPLEX_cos(x) COMPLEX_FN(x, cos)
#define COMPLEX_tan(x) COMPLEX_FN(x, tan)
#define COMPLEX_asin(x) COMPLEX_FN(x, asin)
#define COMPLEX_acos(x) COMPLEX_FN(x, acos)
#define COMPLEX_atan(x) COMPLEX_FN(x, atan)
#define COMPLEX_sinh(x) COMPLEX_FN(x, sinh)
#define COMPLEX_cosh(x) COMPLEX_FN(x, cosh)
#define COMPLEX_asinh(x) COMPLEX_FN(x, asinh)
#define COMPLEX_acosh(x) COMPLEX_FN(x, acosh)
#define COMPLEX_atanh(x) COMPLEX_FN(x, atanh)

TRIG(sin)
TRIG(cos)
TRIG(tan)
TRIG(asin)
TRIG(acos)
TRIG(atan)
TRIG(sinh)
TRIG(cosh)
TRIG(asinh)
TRIG(acosh)
TRIG(atanh)

/* ---- gradients ---- */

/* dx = dy * f(conj(x)) */
static mf_status trig_times(mf_grad *g, const char *f)
{
    g->dx[0] = MF_GMUL(g->dy[0], MF_G1(f, mf_grad_conj(g, g->x[0])));
    return MF_OK;
}

static mf_status sin_grad(mf_grad *g)
{
    return trig_times(g, "Cos");
}

static mf_status cos_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(MF_G1("Neg", g->dy[0]), MF_G1("Sin", mf_grad_conj(g, g->x[0])));
    return MF_OK;
}

static mf_status tan_grad(mf_grad *g)
{
    const mf_output secant = MF_G1("Reciprocal", MF_G1("Cos", mf_grad_conj(g, g->x[0])));

    g->dx[0] = MF_GMUL(MF_G1("Square", secant), g->dy[0]);
    return MF_OK;
}

/* 1 + x^2 or 1 - x^2, by `op`. */
static mf_output one_and_square(mf_grad *g, const char *op)
{
    const mf_output x = mf_grad_conj(g, g->x[0]);

    return MF_G2(op, mf_grad_scalar(g, x, 1), MF_G1("Square", x));
}

static mf_status asin_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(g->dy[0], MF_G1("Reciprocal", MF_G1("Sqrt", one_and_square(g, "Sub"))));
    return MF_OK;
}

static mf_status acos_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(MF_G1("Neg", g->dy[0]),
                       MF_G1("Reciprocal", MF_G1("Sqrt", one_and_square(g, "Sub"))));
    return MF_OK;
}

static mf_status atan_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(g->dy[0], MF_G1("Reciprocal", one_and_square(g, "AddV2")));
    return MF_OK;
}

static mf_status atanh_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(g->dy[0], MF_G1("Reciprocal", one_and_square(g, "Sub")));
    return MF_OK;
}

static mf_status sinh_grad(mf_grad *g)
{
    return trig_times(g, "Cosh");
}

static mf_status cosh_grad(mf_grad *g)
{
    return trig_times(g, "Sinh");
}

static mf_status asinh_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("RealDiv", g->dy[0], MF_G1("Cosh", mf_grad_conj(g, g->y[0])));
    return MF_OK;
}

static mf_status acosh_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("RealDiv", g->dy[0], MF_G1("Sinh", mf_grad_conj(g, g->y[0])));
    return MF_OK;
}

#define DEF "(x:T) -> (y:T) {T:type in " MF_DEF_FLOATS_COMPLEX "}"
#define TRIG_OP(NAME, FN, RANGE)                                                                   \
    MF_LOOP_OP(NAME, DEF, FN##_loop, FN##_grad, "f32[2,7]" RANGE, "f64[5]" RANGE, "f32[]" RANGE,   \
               "bf16[3]" RANGE, "f16[3]" RANGE, "f32[0,2]", "c64[3]@0.1:0.9 !nograd",              \
               "c128[2]@0.1:0.9 !nograd", "f32[4]{nan,inf,-inf,-0} !nograd")

const mf_op mf_ops_trig[] = {
    TRIG_OP("Sin", sin, ""),
    TRIG_OP("Cos", cos, ""),
    TRIG_OP("Tan", tan, "@-1:1"),
    TRIG_OP("Asin", asin, "@-0.9:0.9"),
    TRIG_OP("Acos", acos, "@-0.9:0.9"),
    TRIG_OP("Atan", atan, ""),
    TRIG_OP("Sinh", sinh, ""),
    TRIG_OP("Cosh", cosh, ""),
    TRIG_OP("Asinh", asinh, ""),
    TRIG_OP("Acosh", acosh, "@1.5:4"),
    TRIG_OP("Atanh", atanh, "@-0.9:0.9"),
    { 0 },
};
