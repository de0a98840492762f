/* SPDX-License-Identifier: Apache-2.0 */
/* complex.c - parts of complex numbers. */
#include "ops/math/math_util.h"

#include <sleef.h>

#define REAL_PART(z) (__real__(z))
#define IMAG_PART(z) (__imag__(z))
#define CONJ(z) _Generic((z), float _Complex : conjf, default : conj)(z)
#define HYPOT(z)                                                                                   \
    _Generic((z), float _Complex                                                                   \
             : Sleef_hypotf_u05, default                                                           \
             : Sleef_hypot_u05)(__real__(z), __imag__(z))
#define ANGLE(z)                                                                                   \
    _Generic((z), float _Complex                                                                   \
             : Sleef_atan2f_u10, default                                                           \
             : Sleef_atan2_u10)(__imag__(z), __real__(z))
#define COMPLEX(re, im) _Generic((re), float : make_c64, default : make_c128)(re, im)

static inline float _Complex make_c64(float re, float im)
{
    float _Complex z;

    __real__ z = re;
    __imag__ z = im;
    return z;
}

static inline double _Complex make_c128(double re, double im)
{
    double _Complex z;

    __real__ z = re;
    __imag__ z = im;
    return z;
}

#define PART_LOOPS(NAME, EXPR)                                                                     \
    MF_UNARY_TO(NAME, c64, f32, EXPR)                                                              \
    MF_UNARY_TO(NAME, c128, f64, EXPR)                                                             \
    MF_LOOP_TABLE(NAME, 1, MF_FN_COMPLEX(NAME))
PART_LOOPS(real, REAL_PART)
PART_LOOPS(imag, IMAG_PART)
PART_LOOPS(complex_abs, HYPOT)
PART_LOOPS(angle, ANGLE)
MF_EACH_COMPLEX(MF_UNARY, conj, CONJ)
MF_LOOP_TABLE(conj, 1, MF_FN_COMPLEX(conj))
MF_BINARY_TO(complex, f32, c64, COMPLEX)
MF_BINARY_TO(complex, f64, c128, COMPLEX)
MF_LOOP_TABLE(complex, 2, [MF_DTYPE_F32] = complex_f32, [MF_DTYPE_F64] = complex_f64)

/* T and Tout are two attributes, but only complex64 with float and complex128 with double are
 * valid. Types are always known, so checking at inference is enough. */
static mf_status complex_part_infer(mf_infer *in)
{
    const mf_dtype a = mf_type_base(in->node->in_types[0]),
                   b = mf_type_base(in->node->out_types[0]);

    if (mf_dtype_size(a) != 2 * mf_dtype_size(b) && mf_dtype_size(b) != 2 * mf_dtype_size(a))
        return MF_FAIL(MF_INVALID_ARGUMENT, "op %s has no kernel from %s to %s", in->node->op_name,
                       mf_dtype_name(a), mf_dtype_name(b));
    return mf_loop_infer(in);
}

static mf_status complex_part_run(mf_kernel *k)
{
    const size_t a = mf_dtype_size(k->in[0]->dtype);
    const size_t b = mf_dtype_size(mf_type_base(k->node->out_types[0]));

    if (a != 2 * b && b != 2 * a)
        return MF_FAIL(MF_INVALID_ARGUMENT, "op %s has no kernel for these types",
                       k->node->op_name);
    return mf_loop_run(k);
}

/* ---- gradients ---- */

static mf_output complex_of(mf_grad *g, mf_output re, mf_output im)
{
    return mf_applyf(g->graph, "Complex", MF_IN(re, im), "Tout=%s",
                     mf_grad_type(re) == MF_DTYPE_F64 ? "complex128" : "complex64");
}

static mf_output complex_part_of(mf_grad *g, const char *op, mf_output z)
{
    return mf_applyf(g->graph, op, MF_IN(z), "Tout=%s",
                     mf_grad_type(z) == MF_DTYPE_C128 ? "double" : "float");
}

static mf_status conj_grad(mf_grad *g)
{
    g->dx[0] = MF_G1("Conj", g->dy[0]);
    return MF_OK;
}

static mf_status real_grad(mf_grad *g)
{
    g->dx[0] = complex_of(g, g->dy[0], mf_grad_scalar(g, g->dy[0], 0));
    return MF_OK;
}

static mf_status imag_grad(mf_grad *g)
{
    g->dx[0] = complex_of(g, mf_grad_scalar(g, g->dy[0], 0), g->dy[0]);
    return MF_OK;
}

static mf_status complex_complex_grad(mf_grad *g)
{
    mf_grad_broadcast2(g, complex_part_of(g, "Real", g->dy[0]),
                       complex_part_of(g, "Imag", g->dy[0]));
    return MF_OK;
}

static mf_status complex_abs_grad(mf_grad *g)
{
    const mf_output zero = mf_grad_scalar(g, g->dy[0], 0);

    g->dx[0] = MF_G2("DivNoNan", MF_GMUL(complex_of(g, g->dy[0], zero), g->x[0]),
                     complex_of(g, g->y[0], zero));
    return MF_OK;
}

static mf_status angle_grad(mf_grad *g)
{
    const mf_output swapped =
        complex_of(g, complex_part_of(g, "Imag", g->x[0]), complex_part_of(g, "Real", g->x[0]));
    const mf_output dy = complex_of(g, g->dy[0], mf_grad_scalar(g, g->dy[0], 0));

    g->dx[0] = MF_GMUL(MF_G1("Neg", dy), MF_G1("Reciprocal", swapped));
    return MF_OK;
}

#define PART_DEF(IN, OUT)                                                                          \
    "(" IN ":T) -> (" OUT                                                                          \
    ":Tout) {T:type=complex64 in [complex64,complex128], Tout:type=float in "                      \
    "[float,double]}"
#define PART_OP(NAME, DEF, LOOP, GRAD, ...)                                                        \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = complex_part_infer, .grad = GRAD,                       \
        .run = complex_part_run, .loop = &(LOOP), .samples = MF_SAMPLES(__VA_ARGS__)               \
    }
#define PART_SAMPLES                                                                               \
    "c64[2,3] !nograd", "c128[3] ; Tout=double !nograd", "c64[] !nograd", "c64[0] !nograd",        \
        "c128[2] ; Tout=float !fails"

const mf_op mf_ops_complex[] = {
    MF_LOOP_OP("Conj",
               "(input:T) -> (output:T) {T:type=complex64 in [complex64,complex128,variant]}",
               conj_loop, conj_grad, "c64[2,3] !nograd", "c128[3] !nograd", "c64[] !nograd",
               "c64[0] !nograd"),
    PART_OP("Real", PART_DEF("input", "output"), real_loop, real_grad, PART_SAMPLES),
    PART_OP("Imag", PART_DEF("input", "output"), imag_loop, imag_grad, PART_SAMPLES),
    PART_OP("ComplexAbs", PART_DEF("x", "y"), complex_abs_loop, complex_abs_grad, PART_SAMPLES),
    PART_OP("Angle", PART_DEF("input", "output"), angle_loop, angle_grad, PART_SAMPLES),
    PART_OP(
        "Complex",
        "(real:T, imag:T) -> (out:Tout) {T:type=float in [float,double], Tout:type=complex64 in "
        "[complex64,complex128]}",
        complex_loop, complex_complex_grad, "f32[2,3] f32[3] !nograd",
        "f64[3] f64[] ; Tout=complex128 !nograd", "f32[] f32[] !nograd", "f64[3] f64[] !fails",
        "f32[2] f32[3] !fails"),
    { 0 },
};
