/* SPDX-License-Identifier: Apache-2.0 */
/* special.c - error function, gamma function and related functions.
 *
 * The inverses use Halley steps in double, from an initial guess good to 3 digits; each step
 * triples the digits. Digamma and zeta shift the argument to where their asymptotic series
 * converge. Single and 16-bit floats are computed in double, except for erf. */
#include "ops/math/math_util.h"
#include "ops/math/vmath.h"

#include <math.h>

#define SQRT2 1.41421356237309504880
#define SQRT_PI 1.77245385090551602730
#define PI 3.14159265358979323846

/* A function of doubles for all float types. */
#define BY_DOUBLE(F, x) F((double)(x))
#define ROUND_LIKE(x, value) ((__typeof__((x) + (x)))(value))

/* Winitzki's approximation of erfinv, with q = 1 - y^2 to keep its digits near 1. */
static double inverse_guess(double q)
{
    const double a = 0.147, l = Sleef_log_u10(q), h = 2 / (PI * a) + l / 2;

    return sqrt(fmax(sqrt(h * h - l / a) - h, 0));
}

/* x with erf(x) = y, for y in [0, 0.5]. */
static double solve_erf(double y)
{
    double x = inverse_guess((1 - y) * (1 + y));

    if (x < 1e-8) /* the guess has lost its digits; erf is linear here */
        x = y * SQRT_PI / 2;
    for (int i = 0; i < 3; i++) {
        const double u = (Sleef_erf_u10(x) - y) / (2 / SQRT_PI * Sleef_exp_u10(-x * x));

        x -= u / (1 + x * u);
    }
    return x;
}

/* x with erfc(x) = q, for q in (0, 0.5]. */
static double solve_erfc(double q)
{
    double x = inverse_guess(q * (2 - q));

    for (int i = 0; i < 3; i++) {
        const double slope = -2 / SQRT_PI * Sleef_exp_u10(-x * x);
        const double u = slope == 0 ? 0 : (Sleef_erfc_u15(x) - q) / slope;

        x -= u / (1 + x * u);
    }
    return x;
}

static double erfinv(double y)
{
    const double a = fabs(y);
    double x;

    if (!(a < 1))
        return a == 1 ? copysign(INFINITY, y) : NAN;
    x = a <= 0.5 ? solve_erf(a) : solve_erfc(1 - a);
    return copysign(x, y);
}

/* The quantile of the normal distribution. */
static double ndtri(double p)
{
    if (!(p > 0 && p < 1))
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    if (p < 0.25)
        return -SQRT2 * solve_erfc(2 * p);
    if (p > 0.75)
        return SQRT2 * solve_erfc(2 * (1 - p));
    return SQRT2 * erfinv(2 * p - 1);
}

static double digamma(double x)
{
    double sum = 0, r;

    if (isnan(x) || x == -INFINITY || (x <= 0 && x == floor(x)))
        return NAN;
    if (x < 0) /* reflection; the cotangent depends only on the fraction of x */
        return digamma(1 - x) - PI / Sleef_tan_u10(PI * (x - floor(x)));
    while (x < 10) {
        sum -= 1 / x;
        x += 1;
    }
    if (x > 1e17)
        return Sleef_log_u10(x);
    r = 1 / (x * x);
    /* Bernoulli numbers over 2k: 1/12, -1/120, 1/252, -1/240, 1/132, -691/32760, 1/12 */
    r *= 1.0 / 12 -
         r * (1.0 / 120 -
              r * (1.0 / 252 -
                   r * (1.0 / 240 - r * (1.0 / 132 - r * (691.0 / 32760 - r * (1.0 / 12))))));
    return sum + Sleef_log_u10(x) - 0.5 / x - r;
}

/* Hurwitz's zeta, the sum of (q + k)^-x: some terms directly, the rest by the Euler-Maclaurin
 * formula. */
static double zeta(double x, double q)
{
    /* B(2j) / (2j)! */
    static const double c[] = { 1.0 / 12,
                                -1.0 / 720,
                                1.0 / 30240,
                                -1.0 / 1209600,
                                1.0 / 47900160,
                                -691.0 / 1307674368000.0,
                                1.0 / 74724249600.0,
                                -3617.0 / 10670622842880000.0 };
    double sum = 0, a = q, b, factor;
    int terms = 0;

    if (!(x > 1))
        return x == 1 ? INFINITY : NAN;
    if (q == INFINITY)
        return 0;
    if (q <= 0 && q == floor(q))
        return INFINITY;
    if (q <= 0 && x != floor(x))
        return NAN;
    for (; terms < 10 || (a < 10 && terms < 100000); terms++, a++) {
        b = Sleef_pow_u10(a, -x);
        sum += b;
        if (fabs(b) < 1e-17 * fabs(sum))
            return sum;
    }
    b = Sleef_pow_u10(a, -x);
    sum += b * a / (x - 1) + b / 2;
    factor = x * b / a;
    for (int j = 0; j < MF_COUNT(c); j++) {
        sum += factor * c[j];
        factor *= (x + 2 * j + 1) * (x + 2 * j + 2) / (a * a);
    }
    return sum;
}

static double polygamma(double n, double x)
{
    if (n < 0 || n != floor(n))
        return NAN;
    if (n == 0)
        return digamma(x);
    return (fmod(n, 2) == 0 ? -1 : 1) * Sleef_tgamma_u10(n + 1) * zeta(n + 1, x);
}

/* No function of the gamma family keeps the sign here: log |gamma|. */
static double log_gamma(double x)
{
    return x == -INFINITY ? INFINITY : Sleef_lgamma_u10(x);
}

#define ERF(x) MF_PICK_REAL(x, mf_erff, mf_erf)
#define ERFC(x) MF_PICK_REAL(x, Sleef_erfcf_u15, Sleef_erfc_u15)
#define ERFINV(x) ROUND_LIKE(x, BY_DOUBLE(erfinv, x))
#define NDTRI(x) ROUND_LIKE(x, BY_DOUBLE(ndtri, x))
#define LGAMMA(x) ROUND_LIKE(x, BY_DOUBLE(log_gamma, x))
#define DIGAMMA(x) ROUND_LIKE(x, BY_DOUBLE(digamma, x))
#define ZETA(x, q) ROUND_LIKE(x, zeta((double)(x), (double)(q)))
#define POLYGAMMA(n, x) ROUND_LIKE(x, polygamma((double)(n), (double)(x)))
MF_LOOPS_FLOAT(MF_UNARY, 1, erf, ERF)
MF_LOOPS_FLOAT(MF_UNARY, 1, erfc, ERFC)
MF_LOOPS_FLOAT(MF_UNARY, 1, erfinv, ERFINV)
MF_LOOPS_FLOAT(MF_UNARY, 1, ndtri, NDTRI)
MF_LOOPS_FLOAT(MF_UNARY, 1, lgamma, LGAMMA)
MF_LOOPS_FLOAT(MF_UNARY, 1, digamma, DIGAMMA)
MF_BINARY(zeta, f32, ZETA)
MF_BINARY(zeta, f64, ZETA)
MF_LOOP_TABLE(zeta, 2, [MF_DTYPE_F32] = zeta_f32, [MF_DTYPE_F64] = zeta_f64)
MF_BINARY(polygamma, f32, POLYGAMMA)
MF_BINARY(polygamma, f64, POLYGAMMA)
MF_LOOP_TABLE(polygamma, 2, [MF_DTYPE_F32] = polygamma_f32, [MF_DTYPE_F64] = polygamma_f64)

/* ---- gradients ---- */

/* dy * factor * exp(v) */
static mf_status bell_grad(mf_grad *g, double factor, mf_output v)
{
    g->dx[0] = MF_GMUL(MF_GSCALE(g->dy[0], factor), MF_G1("Exp", v));
    return MF_OK;
}

static mf_status erf_grad(mf_grad *g)
{
    return bell_grad(g, 2 / SQRT_PI, MF_G1("Neg", MF_G1("Square", g->x[0])));
}

static mf_status erfc_grad(mf_grad *g)
{
    return bell_grad(g, -2 / SQRT_PI, MF_G1("Neg", MF_G1("Square", g->x[0])));
}

static mf_status erfinv_grad(mf_grad *g)
{
    return bell_grad(g, SQRT_PI / 2, MF_G1("Square", g->y[0]));
}

static mf_status ndtri_grad(mf_grad *g)
{
    return bell_grad(g, SQRT2 * SQRT_PI, MF_GSCALE(MF_G1("Square", g->y[0]), 0.5));
}

static mf_status lgamma_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(g->dy[0], MF_G1("Digamma", g->x[0]));
    return MF_OK;
}

static mf_status digamma_grad(mf_grad *g)
{
    g->dx[0] = MF_GMUL(g->dy[0], MF_G2("Polygamma", mf_grad_scalar(g, g->x[0], 1), g->x[0]));
    return MF_OK;
}

/* Only the second argument has a gradient. */
static mf_status zeta_grad(mf_grad *g)
{
    const mf_output next = MF_G2("AddV2", g->x[0], mf_grad_scalar(g, g->x[0], 1));
    const mf_output dq = MF_GMUL(MF_G1("Neg", g->x[0]), MF_G2("Zeta", next, g->x[1]));

    mf_grad_broadcast2(g, g->dy[0], MF_GMUL(dq, g->dy[0]));
    g->dx[0] = (mf_output){ 0 };
    return MF_OK;
}

static mf_status polygamma_grad(mf_grad *g)
{
    const mf_output next = MF_G2("AddV2", g->x[0], mf_grad_scalar(g, g->x[0], 1));

    mf_grad_broadcast2(g, g->dy[0], MF_GMUL(MF_G2("Polygamma", next, g->x[1]), g->dy[0]));
    g->dx[0] = (mf_output){ 0 };
    return MF_OK;
}

#define DEF "(x:T) -> (y:T) {T:type in floats}"
#define SAMPLES(RANGE)                                                                             \
    "f32[2,7]" RANGE, "f64[5]" RANGE, "f32[]" RANGE, "bf16[3]" RANGE " !nograd !notf",             \
        "f16[3]" RANGE " !nograd !notf", "f32[0]"

const mf_op mf_ops_special[] = {
    MF_LOOP_OP("Erf", DEF, erf_loop, erf_grad, SAMPLES(""), "f32[6]{nan,inf,-inf,-0,9,-9} !nograd"),
    MF_LOOP_OP("Erfc", DEF, erfc_loop, erfc_grad, SAMPLES(""),
               "f32[6]{nan,inf,-inf,-0,9,-9} !nograd"),
    MF_LOOP_OP("Erfinv", DEF, erfinv_loop, erfinv_grad, SAMPLES("@-0.9:0.9"),
               /* TensorFlow returns 3.4655 for the sixth, 0.2 % too large */
               "f32[7]{nan,1,-1,2,-0,0.999999,-0.999} !nograd !notf",
               "f64[4]{1e-12,0.5,0.75,0.9999999999} !nograd"),
    MF_LOOP_OP("Ndtri", DEF, ndtri_loop, ndtri_grad, SAMPLES("@0.1:0.9"),
               "f32[7]{nan,0,1,2,-1,1e-30,0.5} !nograd", "f64[3]{1e-200,0.25,0.999} !nograd"),
    MF_LOOP_OP("Lgamma", DEF, lgamma_loop, lgamma_grad, SAMPLES("@0.5:6"),
               "f32[7]{nan,0,-1,-0.5,inf,-inf,1e30} !nograd", "f64[5]{-1.5,1,2,100,0.001} !nograd"),
    MF_LOOP_OP("Digamma", DEF, digamma_loop, digamma_grad, SAMPLES("@0.5:6"),
               "f32[7]{nan,0,-1,-0.5,inf,-inf,1e30} !nograd", "f64[5]{-1.5,1,2,100,0.001} !nograd"),
    MF_LOOP_OP("Zeta", "(x:T, q:T) -> (z:T) {T:type in [float,double]}", zeta_loop, zeta_grad,
               "f32[2,3]@1.5:6~ f32[3]@0.5:4", "f64[3]@1.5:6~ f64[]{2}",
               "f32[4]{1,0.5,2,3} f32[4]{2,2,0.1,30} !nograd", "f32[2] f32[3] !fails"),
    MF_LOOP_OP("Polygamma", "(a:T, x:T) -> (z:T) {T:type in [float,double]}", polygamma_loop,
               polygamma_grad, "f32[3]{1,2,3}~ f32[3]@0.5:4", "f64[]{1}~ f64[4]@0.5:4",
               "f32[4]{0,-1,1.5,1} f32[4]{2,2,2,30} !nograd", "f32[2] f32[3] !fails"),
    { 0 },
};
