/* SPDX-License-Identifier: Apache-2.0 */
/* betainc.c - Betainc: the regularized incomplete beta function. */
#include "ops/math/math_util.h"
#include "ops/math/vmath.h"

#include <float.h>
#include <math.h>
#include <sleef.h>

/* The continued fraction by Lentz's method; converges where x < (a + 1) / (a + b + 2). */
static double fraction(double a, double b, double x)
{
    double c = 1, d = 1 - (a + b) * x / (a + 1), f;

    d = 1 / (fabs(d) < DBL_MIN ? DBL_MIN : d);
    f = d;
    for (double m = 1; m < 10000; m++) {
        double change = 1;

        for (int odd = 0; odd < 2; odd++) {
            const double at = a + 2 * m;
            const double term = odd ? -(a + m) * (a + b + m) * x / (at * (at + 1))
                                    : m * (b - m) * x / ((at - 1) * at);

            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < DBL_MIN ? DBL_MIN : d);
            c = fabs(c) < DBL_MIN ? DBL_MIN : c;
            change = c * d;
            f *= change;
        }
        if (fabs(change - 1) < DBL_EPSILON)
            break;
    }
    return f;
}

static double betainc(double a, double b, double x)
{
    double log_power;

    if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1))
        return NAN;
    if (x == 0 || x == 1)
        return x;
    log_power = Sleef_lgamma_u10(a + b) - Sleef_lgamma_u10(a) - Sleef_lgamma_u10(b) +
                a * mf_log(x) + b * mf_log1p(-x);
    if (x < (a + 1) / (a + b + 2))
        return mf_exp(log_power) * fraction(a, b, x) / a;
    return 1 - mf_exp(log_power) * fraction(b, a, 1 - x) / b;
}

#define BETAINC_LOOP(kind)                                                                         \
    static void betainc_##kind(const mf_span *s)                                                   \
    {                                                                                              \
        const MF_S_##kind *a = s->in[0], *b = s->in[1], *x = s->in[2];                             \
        MF_S_##kind *o = s->out;                                                                   \
                                                                                                   \
        for (int64_t i = 0; i < s->n; i++)                                                         \
            o[i] = (MF_S_##kind)betainc((double)a[s->scalar[0] ? 0 : i],                           \
                                        (double)b[s->scalar[1] ? 0 : i],                           \
                                        (double)x[s->scalar[2] ? 0 : i]);                          \
    }
BETAINC_LOOP(f32)
BETAINC_LOOP(f64)
static const mf_loop betainc_loop = {
    .arity = 3, .fn = { [MF_DTYPE_F32] = betainc_f32, [MF_DTYPE_F64] = betainc_f64 }
};

/* Inputs have the same shape, or are scalars. */
static mf_status betainc_check_shapes(const mf_shape *const *in)
{
    const mf_shape *first = NULL;
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    for (int i = 0; i < 3; i++) {
        if (in[i]->rank == 0)
            continue;
        if (first && !mf_shape_compatible(first, in[i]))
            return MF_FAIL(MF_INVALID_ARGUMENT, "Shapes of inputs must match: %s vs. %s",
                           mf_shape_text(first, a), mf_shape_text(in[i], b));
        first = first ? first : in[i];
    }
    return MF_OK;
}

static mf_status betainc_infer(mf_infer *in)
{
    MF_TRY(betainc_check_shapes((const mf_shape *const[]){ &in->in[0], &in->in[1], &in->in[2] }));
    return mf_loop_infer(in);
}

static mf_status betainc_run(mf_kernel *k)
{
    MF_TRY(betainc_check_shapes(
        (const mf_shape *const[]){ &k->in[0]->shape, &k->in[1]->shape, &k->in[2]->shape }));
    return mf_loop_run_hidden(k, &betainc_loop);
}

/* With respect to x only: x^(a-1) (1-x)^(b-1) / B(a, b). */
static mf_status betainc_grad(mf_grad *g)
{
    const mf_output a = g->x[0], b = g->x[1], x = g->x[2], one = mf_grad_scalar(g, x, 1);
    const mf_output log_beta = MF_G2("Sub", MF_G2("AddV2", MF_G1("Lgamma", a), MF_G1("Lgamma", b)),
                                     MF_G1("Lgamma", MF_G2("AddV2", a, b)));
    const mf_output powers = MF_G2("AddV2", MF_G2("Xlog1py", MF_G2("Sub", b, one), MF_G1("Neg", x)),
                                   MF_G2("Xlogy", MF_G2("Sub", a, one), x));
    const mf_output dx = MF_GMUL(MF_G1("Exp", MF_G2("Sub", powers, log_beta)), g->dy[0]);
    const mf_output sx = MF_G1("Shape", x);
    const mf_output axes = MF_G2("BroadcastGradientArgs", sx, MF_G1("Shape", dx));

    g->dx[2] = MF_G2("Reshape", MF_G2("Sum", dx, axes), sx);
    return MF_OK;
}

const mf_op mf_op_betainc = {
    .name = "Betainc",
    .def = "(a:T, b:T, x:T) -> (z:T) {T:type in [float,double]}",
    .flags = MF_OP_INPLACE,
    .infer = betainc_infer,
    .grad = betainc_grad,
    .run = betainc_run,
    .samples = MF_SAMPLES("f32[7]@0.5:5~ f32[7]@0.5:5~ f32[7]@0.1:0.9",
                          "f64[3,5]@0.5:9~ f64[]{2.5}~ "
                          "f64[3,5]@0.1:0.9",
                          "f64[4]@0.5:9~ f64[4]@1:3~ f64[]{0.3}",
                          "f64[6]{1,0,1,-1,2,2} "
                          "f64[6]{2,1,0,1,3,3} "
                          "f64[6]{0.5,0.5,0.5,0.5,0,1} !nograd",
                          "f64[3]{1,1,0.01} f64[3]{1,1,900} f64[3]{-0.1,1.1,0.004} !nograd",
                          "f32[0] f32[0] f32[0]", "f32[2] f32[3] f32[2] !fails",
                          "f32[2,1] f32[2,3] f32[] !fails"),
};
