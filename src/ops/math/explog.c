/* SPDX-License-Identifier: Apache-2.0 */
/* explog.c - exponential and logarithm, and the sigmoid functions made of them. */
#include "ops/math/math_util.h"
#include "ops/math/vmath.h"

/* expm1, log1p and sigmoid of complex numbers. */
#define COMPLEX_FUNCTIONS(kind, TYPE, REAL, F)                                                     \
    static inline TYPE expm1_of_##kind(TYPE z)                                                     \
    {                                                                                              \
        /* e^a cos b - 1 without cancellation near 0: expm1(a) cos b - 2 sin^2(b/2) */             \
        const REAL a = __real__ z, b = __imag__ z, s = Sleef_sin##F##_u10(b / 2);                  \
        const REAL re = mf_expm1##F(a) * Sleef_cos##F##_u10(b) - 2 * s * s;                        \
                                                                                                   \
        return re + mf_exp##F(a) * Sleef_sin##F##_u10(b) * (TYPE)I;                                \
    }                                                                                              \
    static inline TYPE log1p_of_##kind(TYPE z)                                                     \
    {                                                                                              \
        return clog##F(1 + z);                                                                     \
    }                                                                                              \
    static inline TYPE sigmoid_of_##kind(TYPE z)                                                   \
    {                                                                                              \
        return 1 / (1 + cexp##F(-z));                                                              \
    }
COMPLEX_FUNCTIONS(c64, float _Complex, float, f)
COMPLEX_FUNCTIONS(c128, double _Complex, double, )

#define EXP(x) MF_PICK(x, mf_expf, mf_exp, cexpf, cexp)
#define EXPM1(x) MF_PICK(x, mf_expm1f, mf_expm1, expm1_of_c64, expm1_of_c128)
#define LOG(x) MF_PICK(x, mf_logf, mf_log, clogf, clog)
#define LOG1P(x) MF_PICK(x, mf_log1pf, mf_log1p, log1p_of_c64, log1p_of_c128)
#define TANH(x) MF_PICK(x, mf_tanhf, mf_tanh, ctanhf, ctanh)
#define SIGMOID(x) MF_PICK(x, mf_sigmoidf, mf_sigmoid, sigmoid_of_c64, sigmoid_of_c128)
MF_LOOPS_FLOAT_COMPLEX(MF_UNARY, 1, exp, EXP)
MF_LOOPS_FLOAT_COMPLEX(MF_UNARY, 1, expm1, EXPM1)
MF_LOOPS_FLOAT_COMPLEX(MF_UNARY, 1, log, LOG)
MF_LOOPS_FLOAT_COMPLEX(MF_UNARY, 1, log1p, LOG1P)
MF_LOOPS_FLOAT_COMPLEX(MF_UNARY, 1, tanh, TANH)
MF_LOOPS_FLOAT_COMPLEX(MF_UNARY, 1, sigmoid, SIGMOID)

/* Gradients from the function's value y; for complex numbers y is already conjugated. */
#define TANH_GRAD(y, dy) ((dy) * (1 - (y) * (y)))
#define SIGMOID_GRAD(y, dy) ((dy) * (y) * (1 - (y)))
MF_LOOPS_FLOAT_COMPLEX(MF_BINARY, 2, tanh_grad, TANH_GRAD)
MF_LOOPS_FLOAT_COMPLEX(MF_BINARY, 2, sigmoid_grad, SIGMOID_GRAD)

static mf_status exp_of_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(g->dy[0], mf_grad_conj(g, g->y[0]));
    return MF_OK;
}

static mf_status expm1_of_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(g->dy[0], MF_G1("Exp", mf_grad_conj(g, g->x[0])));
    return MF_OK;
}

static mf_status log_of_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(g->dy[0], MF_G1("Reciprocal", mf_grad_conj(g, g->x[0])));
    return MF_OK;
}

static mf_status log1p_of_grad(mf_grad *g)
{
    const mf_output x = mf_grad_conj(g, g->x[0]);

    g->dx[0] = MF_GMUL(g->dy[0], MF_G1("Reciprocal", MF_G2("AddV2", mf_grad_scalar(g, x, 1), x)));
    return MF_OK;
}

static mf_status tanh_of_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("TanhGrad", mf_grad_conj(g, g->y[0]), g->dy[0]);
    return MF_OK;
}

static mf_status sigmoid_of_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("SigmoidGrad", mf_grad_conj(g, g->y[0]), g->dy[0]);
    return MF_OK;
}

static mf_status tanh_grad_grad(mf_grad *g)
{
    const mf_output a = mf_grad_conj(g, g->x[0]), b = mf_grad_conj(g, g->x[1]);

    g->dx[0] = MF_GMUL(MF_GMUL(MF_GSCALE(g->dy[0], -2), b), a);
    g->dx[1] = MF_G2("TanhGrad", a, g->dy[0]);
    return MF_OK;
}

static mf_status sigmoid_grad_grad(mf_grad *g)
{
    const mf_output a = mf_grad_conj(g, g->x[0]), b = mf_grad_conj(g, g->x[1]);
    const mf_output gb = MF_GMUL(g->dy[0], b);

    g->dx[0] = MF_G2("Sub", gb, MF_GMUL(MF_GSCALE(gb, 2), a));
    g->dx[1] = MF_G2("SigmoidGrad", a, g->dy[0]);
    return MF_OK;
}

#define DEF "(x:T) -> (y:T) {T:type in " MF_DEF_FLOATS_COMPLEX "}"
#define GRAD_DEF "(y:T, dy:T) -> (z:T) {T:type in " MF_DEF_FLOATS_COMPLEX "}"
#define SAMPLES(RANGE)                                                                             \
    "f32[2,19]" RANGE, "f64[5]" RANGE, "f32[]" RANGE, "bf16[3]" RANGE, "f16[3]" RANGE, "f32[0,2]", \
        "c64[3]@0.5:1.5 !nograd", "c128[2]@0.5:1.5 !nograd"

const mf_op mf_ops_explog[] = {
    MF_LOOP_OP("Exp", DEF, exp_loop, exp_of_grad, SAMPLES(""),
               "f32[7]{nan,inf,-inf,89,-104,-88,-0} !nograd",
               "f64[5]{nan,inf,-inf,710,-750} !nograd"),
    MF_LOOP_OP("Expm1", DEF, expm1_loop, expm1_of_grad, SAMPLES(""),
               "f32[7]{nan,inf,-inf,89,-104,1e-20,-0} !nograd"),
    MF_LOOP_OP("Log", DEF, log_loop, log_of_grad, SAMPLES("@0.5:4"),
               "f32[7]{nan,inf,-inf,0,-0,-1,1} !nograd", "f64[5]{nan,inf,0,-1,1} !nograd"),
    MF_LOOP_OP("Log1p", DEF, log1p_loop, log1p_of_grad, SAMPLES("@-0.5:4"),
               "f32[7]{nan,inf,-inf,-1,-0,-2,1e-20} !nograd"),
    MF_LOOP_OP("Tanh", DEF, tanh_loop, tanh_of_grad, SAMPLES(""),
               "f32[7]{nan,inf,-inf,20,-20,1e-20,-0} !nograd"),
    MF_SAME_SHAPE_OP("TanhGrad", GRAD_DEF, tanh_grad_loop, tanh_grad_grad, "f32[2,3]@-1:1 f32[2,3]",
                     "f64[3]@-1:1 f64[3]", "f16[3]@-1:1 f16[3] !nograd", "c64[3] c64[3] !nograd",
                     "f32[0] f32[0]", "f32[2] f32[3] !fails"),
    MF_LOOP_OP("Sigmoid", DEF, sigmoid_loop, sigmoid_of_grad, SAMPLES(""),
               "f32[7]{nan,inf,-inf,90,-90,1e-20,-0} !nograd"),
    MF_SAME_SHAPE_OP("SigmoidGrad", GRAD_DEF, sigmoid_grad_loop, sigmoid_grad_grad,
                     "f32[2,3]@0:1 f32[2,3]", "f64[3]@0:1 f64[3]", "bf16[3]@0:1 bf16[3] !nograd",
                     "c64[3] c64[3] !nograd", "f32[0] f32[0]", "f32[2] f32[3] !fails"),
    { 0 },
};
