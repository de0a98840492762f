/* SPDX-License-Identifier: Apache-2.0 */
/* power.c - powers and other functions of two broadcast tensors: Pow, Xlogy, Xlog1py, Atan2. */
#include "ops/math/math_util.h"
#include "ops/math/vmath.h"

#define POW(x, y)                                                                                  \
    _Generic((x), float                                                                            \
             : mf_powf, double                                                                     \
             : Sleef_pow_u10, float _Complex                                                       \
             : cpowf, double _Complex                                                              \
             : cpow)(x, y)
#define POW_INT(x, y) power_of_int((uint64_t)(x), (uint64_t)(y))
#define LOG(x) MF_PICK(x, mf_logf, mf_log, clogf, clog)
#define LOG1P(x) MF_PICK(x, mf_log1pf, mf_log1p, log1p_c64, log1p_c128)
#define XLOGY(x, y) ((x) == 0 ? (x) : (x)*LOG(y))
#define XLOG1PY(x, y) ((x) == 0 ? (x) : (x)*LOG1P(y))
#define ATAN2(y, x) _Generic((x), float : Sleef_atan2f_u10, double : Sleef_atan2_u10)(y, x)

static inline float _Complex log1p_c64(float _Complex x)
{
    return clogf(1 + x);
}

static inline double _Complex log1p_c128(double _Complex x)
{
    return clog(1 + x);
}

/* Wraps around. The kernel has rejected negative exponents. */
static inline uint64_t power_of_int(uint64_t x, uint64_t exponent)
{
    uint64_t result = 1;

    for (; exponent > 0; exponent >>= 1, x *= x) {
        if (exponent & 1)
            result *= x;
    }
    return result;
}

MF_EACH_FLOAT_COMPLEX(MF_BINARY, power, POW)
MF_EACH_SIGNED(MF_BINARY, power, POW_INT)
MF_LOOP_TABLE(power, 2, MF_FN_FLOATS_COMPLEX(power))
MF_LOOP_TABLE(int_power, 2, MF_FN_SIGNED(power))
MF_LOOPS_FLOAT_COMPLEX(MF_BINARY, 2, xlogy, XLOGY)
MF_LOOPS_FLOAT_COMPLEX(MF_BINARY, 2, xlog1py, XLOG1PY)
MF_LOOPS_FLOAT(MF_BINARY, 2, atan2, ATAN2)

static mf_status power_run(mf_kernel *k)
{
    const mf_tensor *y = k->in[1];

    if (!mf_dtype_is_int(y->dtype))
        return mf_loop_run(k);
    for (int64_t i = 0; k->in[0]->count > 0 && i < y->count; i++) {
        if (mf_tensor_int_at(y, i) < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Integers to negative integer powers are not allowed");
    }
    return mf_loop_run_hidden(k, &int_power_loop);
}

/* The derivatives are y x^(y-1) and x^y log(x); log(x) counts as 0 where it is undefined. */
static mf_status power_grad(mf_grad *g)
{
    const mf_output x = mf_grad_conj(g, g->x[0]), y = mf_grad_conj(g, g->x[1]);
    const mf_output one = mf_grad_scalar(g, x, 1), zero = mf_grad_scalar(g, x, 0);
    const bool is_complex = mf_dtype_is_complex(mf_grad_type(x));
    const mf_output mask = MF_G2(is_complex ? "NotEqual" : "Greater", x, zero);
    const mf_output log_x =
        MF_G3("SelectV2", mask, MF_G1("Log", MF_G3("SelectV2", mask, x, one)), zero);

    mf_grad_broadcast2(g, MF_GMUL(MF_GMUL(g->dy[0], y), MF_G2("Pow", x, MF_G2("Sub", y, one))),
                       MF_GMUL(MF_GMUL(g->dy[0], mf_grad_conj(g, g->y[0])), log_x));
    return MF_OK;
}

/* Both x f(y): f(y) where x is not 0, and x / (y + offset). */
static mf_status xlog_grad(mf_grad *g, double offset)
{
    const mf_output x = g->x[0], y = g->x[1];
    const mf_output x_not_zero =
        mf_applyf(g->graph, "Cast", MF_IN(MF_G2("NotEqual", x, mf_grad_scalar(g, x, 0))), "DstT=%s",
                  mf_dtype_name(mf_grad_type(x)));
    const mf_output moved = offset == 0 ? y : MF_G2("AddV2", y, mf_grad_scalar(g, y, offset));

    mf_grad_broadcast2(g, MF_GMUL(MF_G2(g->node->op_name, x_not_zero, y), g->dy[0]),
                       MF_GMUL(MF_G2("Xdivy", x, moved), g->dy[0]));
    return MF_OK;
}

static mf_status xlogy_grad(mf_grad *g)
{
    return xlog_grad(g, 0);
}

static mf_status xlog1py_grad(mf_grad *g)
{
    return xlog_grad(g, 1);
}

static mf_status atan2_grad(mf_grad *g)
{
    const mf_output y = g->x[0], x = g->x[1];
    const mf_output inv =
        MF_G2("RealDiv", g->dy[0], MF_G2("AddV2", MF_G1("Square", y), MF_G1("Square", x)));

    mf_grad_broadcast2(g, MF_GMUL(x, inv), MF_GMUL(MF_G1("Neg", y), inv));
    return MF_OK;
}

#define XLOG_DEF "(x:T, y:T) -> (z:T) {T:type in [half,bfloat16,float,double,complex64,complex128]}"

const mf_op mf_ops_power[] = {
    { .name = "Pow",
      .def = "(x:T, y:T) -> (z:T) {T:type in [bfloat16,float,half,double,int8,int16,int32,int64,"
             "complex64,complex128]}",
      .flags = MF_OP_INPLACE,
      .infer = mf_loop_infer,
      .grad = power_grad,
      .run = power_run,
      .loop = &power_loop,
      .samples = MF_SAMPLES("f32[2,3]@0.5:2 f32[3]", "f64[4]@0.5:3 f64[]{2.5}",
                            "f32[3]{-8,0,-2} f32[3]{3,0,-1} !nograd",
                            "f32[6]{0,-0,nan,1,inf,-2} f32[6]{-1,-1,0,nan,0,inf} !nograd",
                            "bf16[3]@1:2 bf16[3]", "i32[3]{2,-3,0} i32[3]{3,3,0}",
                            "i64[2]{7,-7} i64[2]{31,33}", "i8[3] i8[]{3}", "c64[2] c64[2] !nograd",
                            "i32[2] i32[2]{1,-1} !fails", "f32[0] f32[]", "f32[2] f32[3] !fails") },
    MF_LOOP_OP("Xlogy", XLOG_DEF, xlogy_loop, xlogy_grad, "f32[2,3]@1:2 f32[3]@0.5:2",
               "f32[4]{0,0,0,1} f32[4]{0,nan,-1,0} !nograd", "f64[3]@1:2 f64[]{2}",
               "f16[3] f16[3]@1:2 !nograd", "c64[2] c64[2]@1:2 !nograd"),
    MF_LOOP_OP("Xlog1py", XLOG_DEF, xlog1py_loop, xlog1py_grad, "f32[2,3]@1:2 f32[3]@-0.5:2",
               "f32[4]{0,0,0,1} f32[4]{-1,nan,-2,0} !nograd", "f64[3]@1:2 f64[]{2}",
               "bf16[3] bf16[3]@1:2 !nograd", "c128[2] c128[2]@1:2 !nograd"),
    MF_LOOP_OP("Atan2", "(y:T, x:T) -> (z:T) {T:type in floats}", atan2_loop, atan2_grad,
               "f32[2,3]@1:2 f32[3]", "f64[4]@1:2 f64[]",
               "f32[6]{0,-0,0,-0,inf,1} f32[6]{0,0,-1,-1,-inf,nan} !nograd", "f16[3]@1:2 f16[3]",
               "f32[2] f32[3] !fails"),
    { 0 },
};
