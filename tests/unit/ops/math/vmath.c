/* SPDX-License-Identifier: Apache-2.0 */
/* vmath.c - the error of vmath.h in units of the last place, against the C library: in float over
 * every 4093rd number there is, in double over a sweep of magnitudes. */
#include "ops/math/vmath.h"

#include "base/status.h"
#include "mf_test.h"

#include <math.h>

/* Distance of y from the true value in units of float's last place; 0 where both are the same
 * special value, huge where only one is. */
static double error_f32(float y, double want)
{
    const float nearest = (float)want;
    int e;

    if (isnan(want) || isnan(y))
        return isnan(want) && isnan(y) ? 0 : 1e9;
    if (isinf(nearest) || isinf(y))
        return y == nearest ? 0 : 1e9;
    if (nearest == 0 && y == 0)
        return (signbit(nearest) != 0) == (signbit(y) != 0) ? 0 : 1e9;
    (void)frexp(want, &e);
    return fabs((double)y - want) / ldexp(1, e < -125 ? -149 : e - 24);
}

static double worst_f32(float (*f)(float), double (*reference)(double))
{
    static const float special[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, -1.0f };
    double worst = 0;

    for (int i = 0; i < MF_COUNT(special); i++)
        worst = fmax(worst, error_f32(f(special[i]), reference((double)special[i])));
    for (uint64_t u = 0; u < 1ull << 32; u += 4093) {
        const float x = mf_float_of_bits((uint32_t)u);

        worst = fmax(worst, error_f32(f(x), reference((double)x)));
    }
    return worst;
}

/* The C library is right within 1 ulp in double, so 3 here means 2. */
static double worst_f64(double (*f)(double), double (*reference)(double))
{
    double worst = 0;

    for (int e = -1074; e < 1024; e++) {
        for (int i = 0; i < 200; i++) {
            const double x = ldexp(1 + i * 0.005, e) * (i & 1 ? -1 : 1);
            const double y = f(x), want = reference(x);
            int exponent;

            if (isnan(want) || isnan(y) || isinf(want) || isinf(y)) {
                worst = fmax(worst, (isnan(want) && isnan(y)) || y == want ? 0 : 1e9);
                continue;
            }
            (void)frexp(want, &exponent);
            worst =
                fmax(worst, fabs(y - want) / ldexp(1, exponent < -1021 ? -1074 : exponent - 53));
        }
    }
    return worst;
}

static double sigmoid_of(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

MF_TEST(vmath_single_precision_is_within_2_ulp)
{
    T_TRUE(worst_f32(mf_expf, exp) < 1);
    T_TRUE(worst_f32(mf_expm1f, expm1) < 1.6);
    T_TRUE(worst_f32(mf_logf, log) < 1);
    T_TRUE(worst_f32(mf_log1pf, log1p) < 1);
    T_TRUE(worst_f32(mf_tanhf, tanh) < 1.6);
    T_TRUE(worst_f32(mf_sigmoidf, sigmoid_of) < 2);
    T_TRUE(worst_f32(mf_erff, erf) < 1.5);
}

MF_TEST(vmath_double_precision_is_within_2_ulp)
{
    T_TRUE(worst_f64(mf_exp, exp) <= 2);
    T_TRUE(worst_f64(mf_expm1, expm1) <= 3);
    T_TRUE(worst_f64(mf_log, log) <= 2);
    T_TRUE(worst_f64(mf_log1p, log1p) <= 2);
    T_TRUE(worst_f64(mf_tanh, tanh) <= 3);
    T_TRUE(worst_f64(mf_sigmoid, sigmoid_of) <= 3);
}

MF_TEST(vmath_power_has_the_special_cases_of_annex_f)
{
    static const float values[] = { 0.0f,   -0.0f, 1.0f,     -1.0f,     2.0f,       -2.0f,
                                    0.5f,   3.0f,  INFINITY, -INFINITY, NAN,        -3.0f,
                                    1e-40f, -7.0f, 2.5f,     -2.5f,     16777217.0f };

    for (int i = 0; i < MF_COUNT(values); i++) {
        for (int j = 0; j < MF_COUNT(values); j++) {
            const double want = pow((double)values[i], (double)values[j]);

            if (error_f32(mf_powf(values[i], values[j]), want) > 0.51)
                T_FAIL("pow(%g, %g)", (double)values[i], (double)values[j]);
        }
    }
}
