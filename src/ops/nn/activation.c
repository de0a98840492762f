/* SPDX-License-Identifier: Apache-2.0 */
/* activation.c - activations: Relu and related functions. NaN passes through. */
#include "ops/math/math_util.h"
#include "ops/math/vmath.h"

#define EXP(x) MF_PICK_REAL(x, mf_expf, mf_exp)
#define EXPM1(x) MF_PICK_REAL(x, mf_expm1f, mf_expm1)
/* A constant or a param in x's type: a double would promote the whole expression. */
#define AS(x, value) ((__typeof__((x) + (x)))(value))

#define RELU(x) ((x) <= 0 ? 0 : (x))
#define RELU6(x) ((x) <= 0 ? 0 : (x) >= 6 ? 6 : (x))
#define RELU_GRAD(dy, x) ((dy)*AS(dy, (x) > 0))
#define RELU6_GRAD(dy, x) ((dy)*AS(dy, (x) > 0 && (x) < 6))
#define RELU_GRAD_INT(dy, x) ((x) > 0 ? (dy) : 0)
#define RELU6_GRAD_INT(dy, x) ((x) > 0 && (x) < 6 ? (dy) : 0)
#define LEAKY(x) ((x) > 0 ? (x) : (x)*AS(x, param))
#define LEAKY_GRAD(dy, x) ((x) > 0 ? (dy) : (dy)*AS(dy, param))
#define ELU(x) ((x) < 0 ? EXPM1(x) : (x))
#define ELU_GRAD(dy, y) ((y) < 0 ? ((y) + 1) * (dy) : (dy))
/* scale and scale * alpha, with which activations keep mean 0 and variance 1. */
#define SELU_SCALE(x) AS(x, 1.0507009873554804934193349852946)
#define SELU_SCALE_ALPHA(x) AS(x, 1.7580993408473768599402175208123)
#define SELU(x) ((x) < 0 ? SELU_SCALE_ALPHA(x) * EXPM1(x) : SELU_SCALE(x) * (x))
#define SELU_GRAD(dy, y) ((y) < 0 ? (dy) * ((y) + SELU_SCALE_ALPHA(y)) : (dy)*SELU_SCALE(y))
#define SOFTPLUS(x) MF_PICK_REAL(x, mf_softplusf, mf_softplus)
#define SOFTPLUS_GRAD(dy, x) ((dy) / (EXP(-(x)) + 1))
#define SOFTSIGN(x) ((x) / (1 + MF_ABS(x)))
#define SOFTSIGN_GRAD(dy, x) ((dy) / ((1 + MF_ABS(x)) * (1 + MF_ABS(x))))

#define REAL_LOOPS(M, ARITY, NAME, EXPR, INT_EXPR)                                                 \
    MF_EACH_FLOAT(M, NAME, EXPR)                                                                   \
    MF_EACH_INT(M, NAME, INT_EXPR)                                                                 \
    MF_LOOP_TABLE(NAME, ARITY, MF_FN_FLOATS(NAME), MF_FN_INTS(NAME), [MF_DTYPE_QI8] = NAME##_i8)
REAL_LOOPS(MF_UNARY, 1, relu, RELU, RELU)
REAL_LOOPS(MF_UNARY, 1, relu6, RELU6, RELU6)
REAL_LOOPS(MF_BINARY, 2, relu_grad, RELU_GRAD, RELU_GRAD_INT)
REAL_LOOPS(MF_BINARY, 2, relu6_grad, RELU6_GRAD, RELU6_GRAD_INT)
MF_EACH_FLOAT(MF_UNARY, leaky_relu, LEAKY)
MF_EACH_FLOAT(MF_BINARY, leaky_relu_grad, LEAKY_GRAD)
static const mf_loop leaky_relu_loop = { .arity = 1,
                                         .fn = { MF_FN_FLOATS(leaky_relu) },
                                         .param = "alpha" };
static const mf_loop leaky_relu_grad_loop = { .arity = 2,
                                              .fn = { MF_FN_FLOATS(leaky_relu_grad) },
                                              .param = "alpha" };
MF_LOOPS_FLOAT(MF_UNARY, 1, elu, ELU)
MF_LOOPS_FLOAT(MF_BINARY, 2, elu_grad, ELU_GRAD)
MF_LOOPS_FLOAT(MF_UNARY, 1, selu, SELU)
MF_LOOPS_FLOAT(MF_BINARY, 2, selu_grad, SELU_GRAD)
MF_LOOPS_FLOAT(MF_UNARY, 1, softplus, SOFTPLUS)
MF_LOOPS_FLOAT(MF_BINARY, 2, softplus_grad, SOFTPLUS_GRAD)
MF_LOOPS_FLOAT(MF_UNARY, 1, softsign, SOFTSIGN)
MF_LOOPS_FLOAT(MF_BINARY, 2, softsign_grad, SOFTSIGN_GRAD)

/* ---- gradients ---- */

static mf_status relu_of_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("ReluGrad", g->dy[0], g->y[0]);
    return MF_OK;
}

static mf_status relu6_of_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("Relu6Grad", g->dy[0], g->y[0]);
    return MF_OK;
}

static mf_status elu_of_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("EluGrad", g->dy[0], g->y[0]);
    return MF_OK;
}

static mf_status selu_of_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("SeluGrad", g->dy[0], g->y[0]);
    return MF_OK;
}

static mf_status softplus_of_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(g->dy[0], MF_G1("Sigmoid", g->x[0]));
    return MF_OK;
}

static mf_status softsign_of_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("SoftsignGrad", g->dy[0], g->x[0]);
    return MF_OK;
}

static mf_output leaky_grad_of(mf_grad *g, mf_output x)
{
    return mf_applyf(g->graph, "LeakyReluGrad", MF_IN(g->dy[0], x), "alpha=%.9g",
                     (double)mf_node_float(g->node, "alpha"));
}

static mf_status leaky_of_grad(mf_grad *g)
{
    g->dx[0] = leaky_grad_of(g, g->x[0]);
    return MF_OK;
}

static mf_status leaky_grad_grad(mf_grad *g)
{
    g->dx[0] = leaky_grad_of(g, g->x[1]);
    g->dx[1] = MF_G1("ZerosLike", g->x[1]);
    return MF_OK;
}

/* ReluGrad and Relu6Grad are linear in dy, and piecewise constant in x. */
static mf_status relu_grad_grad(mf_grad *g)
{
    g->dx[0] = MF_G2(g->node->op_name, g->dy[0], g->x[1]);
    g->dx[1] = MF_G1("ZerosLike", g->x[1]);
    return MF_OK;
}

/* EluGrad and SeluGrad of (dy, y): linear in dy, and for y < 0 linear in y with slope dy. */
static mf_status elu_grad_grad(mf_grad *g)
{
    const mf_output y = g->x[1];

    g->dx[0] = MF_G2(g->node->op_name, g->dy[0], y);
    g->dx[1] = MF_G3("SelectV2", MF_G2("Less", y, mf_grad_scalar(g, y, 0)),
                     MF_GMUL(g->dy[0], g->x[0]), MF_G1("ZerosLike", y));
    return MF_OK;
}

static mf_status softplus_grad_grad(mf_grad *g)
{
    const mf_output x = g->x[1];
    const mf_output sum =
        MF_G2("AddV2", MF_G2("AddV2", MF_G1("Exp", MF_G1("Neg", x)), mf_grad_scalar(g, x, 2)),
              MF_G1("Exp", x));

    g->dx[0] = MF_G2("SoftplusGrad", g->dy[0], x);
    g->dx[1] = MF_G2("RealDiv", MF_GMUL(g->dy[0], g->x[0]), sum);
    return MF_OK;
}

#define REAL_GRAD_DEF "(gradients:T, features:T) -> (backprops:T) {T:type in reals}"
#define FLOAT_DEF "(features:T) -> (activations:T) {T:type in floats}"
#define FLOAT_GRAD_DEF "(gradients:T, features:T) -> (backprops:T) {T:type in floats}"
#define OUTPUT_GRAD_DEF "(gradients:T, outputs:T) -> (backprops:T) {T:type in floats}"
#define LEAKY_ATTRS "{alpha:float=0.200000003, T:type=float in floats}"
#define FLOAT_SAMPLES                                                                              \
    "f32[2,19]", "f64[5]", "f32[]", "bf16[3] !tol:3e-2", "f16[3] !tol:1e-2", "f32[0,2]",           \
        "f32[8]{nan,inf,-inf,-0,0,90,-90,1e-20} !nograd"
#define GRAD_SAMPLES                                                                               \
    "f32[2,19] f32[2,19]~", "f64[5] f64[5]~", "f32[] f32[]~", "bf16[3] bf16[3] !nograd !tol:3e-2", \
        "f16[3] f16[3] !nograd !tol:1e-2", "f32[0] f32[0]", "f32[2] f32[3] !fails"
#define GRAD_KINKS "f32[7]{1,1,1,nan,inf,1,1} f32[7]{nan,-0,0,-1,-1,6,7} !nograd"

const mf_op mf_ops_activation[] = {
    MF_LOOP_OP("Relu",
               "(features:T) -> (activations:T) {T:type in [float,double,int32,uint8,int16,int8,"
               "int64,bfloat16,uint16,half,uint32,uint64,qint8]}",
               relu_loop, relu_of_grad, FLOAT_SAMPLES, "i32[7]", "u8[3]", "i8[9]"),
    MF_SAME_SHAPE_OP("ReluGrad", REAL_GRAD_DEF, relu_grad_loop, relu_grad_grad, GRAD_SAMPLES,
                     GRAD_KINKS, "i32[5] i32[5]"),
    MF_LOOP_OP("Relu6", "(features:T) -> (activations:T) {T:type in reals}", relu6_loop,
               relu6_of_grad, FLOAT_SAMPLES, "f32[7]@4:8", "i8[5]{-3,3,9,6,0}"),
    MF_SAME_SHAPE_OP("Relu6Grad", REAL_GRAD_DEF, relu6_grad_loop, relu_grad_grad, GRAD_SAMPLES,
                     GRAD_KINKS, "i32[3] i32[3]{-1,3,7}"),
    MF_LOOP_OP("LeakyRelu", "(features:T) -> (activations:T) " LEAKY_ATTRS, leaky_relu_loop,
               leaky_of_grad, FLOAT_SAMPLES, "f32[5] ; alpha=0.5", "f64[5] ; alpha=2.0"),
    MF_SAME_SHAPE_OP("LeakyReluGrad", "(gradients:T, features:T) -> (backprops:T) " LEAKY_ATTRS,
                     leaky_relu_grad_loop, leaky_grad_grad, GRAD_SAMPLES, GRAD_KINKS,
                     "f32[5] f32[5]~ ; alpha=0.5"),
    MF_LOOP_OP("Elu", FLOAT_DEF, elu_loop, elu_of_grad, FLOAT_SAMPLES),
    MF_SAME_SHAPE_OP("EluGrad", OUTPUT_GRAD_DEF, elu_grad_loop, elu_grad_grad, GRAD_SAMPLES,
                     GRAD_KINKS),
    MF_LOOP_OP("Selu", FLOAT_DEF, selu_loop, selu_of_grad, FLOAT_SAMPLES),
    MF_SAME_SHAPE_OP("SeluGrad", OUTPUT_GRAD_DEF, selu_grad_loop, elu_grad_grad, GRAD_SAMPLES,
                     GRAD_KINKS),
    MF_LOOP_OP("Softplus", FLOAT_DEF, softplus_loop, softplus_of_grad, FLOAT_SAMPLES),
    MF_SAME_SHAPE_OP("SoftplusGrad", FLOAT_GRAD_DEF, softplus_grad_loop, softplus_grad_grad,
                     GRAD_SAMPLES, "f32[5] f32[5]",
                     "f32[5]{1,1,1,1,1} f32[5]{100,-100,inf,-inf,nan} !nograd"),
    MF_LOOP_OP("Softsign", FLOAT_DEF, softsign_loop, softsign_of_grad, FLOAT_SAMPLES),
    MF_SAME_SHAPE_OP("SoftsignGrad", FLOAT_GRAD_DEF, softsign_grad_loop, mf_grad_missing,
                     "f32[2,3] f32[2,3] !nograd", "f64[3] f64[3] !nograd",
                     "bf16[2] bf16[2] !nograd", "f32[2] f32[3] !fails"),
    { 0 },
};
