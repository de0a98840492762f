/* SPDX-License-Identifier: Apache-2.0 */
/* vmath.h - exp, log and similar functions as plain arithmetic, so that loops over them vectorise.
 *
 * No branches, no tables, no calls: selections become blends. Only +, -, *, / and bit operations in
 * a fixed order, so with -ffp-contract=off (used for all code here) the bits are the same on every
 * machine and at every vector width; a fused chain and a scalar give the same bits as a tensor.
 *
 * Maximum error found, in units in the last place, including subnormal results; for float over
 * every 31st number against double, for double over 3 million random numbers against quadruple
 * precision:
 *
 *              exp    expm1  log    log1p  tanh   sigmoid  erf    pow
 *   float      0.76   1.48   0.83   0.83   1.49   1.81     1.40   0.51
 *   double     0.75   1.46   0.80   0.84   1.46   1.77     SLEEF's
 *
 * -0, infinities and NaN are as in C's Annex F. Polynomials are minimax fits (Remez's algorithm in
 * 70 digits, then rounded); the error of each fit is relative to the function's value. */
#ifndef MF_OPS_MATH_VMATH_H
#define MF_OPS_MATH_VMATH_H

#include <sleef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t mf_bits_of_float(float x)
{
    uint32_t u;

    memcpy(&u, &x, 4);
    return u;
}

static inline float mf_float_of_bits(uint32_t u)
{
    float x;

    memcpy(&x, &u, 4);
    return x;
}

static inline uint64_t mf_bits_of_double(double x)
{
    uint64_t u;

    memcpy(&u, &x, 8);
    return u;
}

static inline double mf_double_of_bits(uint64_t u)
{
    double x;

    memcpy(&x, &u, 8);
    return x;
}

/* Adding 1.5 * 2^(mantissa bits) rounds to an integer, which is then in the low bits. */
#define MF_PUSH_PULL_ROUND_F 12582912.0f
#define MF_PUSH_PULL_ROUND_D 6755399441055744.0

/* 2^n for an integer n whose result is normal. */
static inline float mf_pow2f(float n)
{
    return mf_float_of_bits(mf_bits_of_float(n + (MF_PUSH_PULL_ROUND_F + 127)) << 23);
}

static inline double mf_pow2(double n)
{
    return mf_double_of_bits(mf_bits_of_double(n + (MF_PUSH_PULL_ROUND_D + 1023)) << 52);
}

/* x * 2^n in two steps: only the last step can overflow or round. */
static inline float mf_scalef(float x, float n)
{
    const float half = (n * 0.5f + MF_PUSH_PULL_ROUND_F) - MF_PUSH_PULL_ROUND_F;

    return x * mf_pow2f(half) * mf_pow2f(n - half);
}

static inline double mf_scale(double x, double n)
{
    const double half = (n * 0.5 + MF_PUSH_PULL_ROUND_D) - MF_PUSH_PULL_ROUND_D;

    return x * mf_pow2(half) * mf_pow2(n - half);
}

/* ---- exponential: x = n log 2 + r with |r| <= log(2) / 2 ---- */

/* e^r - 1 - r, in float within 2.4e-10 and in double within 2.7e-19 of e^r - 1. */
static inline float mf_exp_tailf(float r)
{
    return r * r *
           (0.5f + r * (0.166666657f +
                        r * (0.0416663624f +
                             r * (0.00833338965f + r * (0.00139406382f + r * 0.000198458787f)))));
}

static inline double mf_exp_tail(double r)
{
    const double a = 0.00019841269885993208 +
                     r * (2.480158717247556e-05 +
                          r * (2.7557244343800506e-06 +
                               r * (2.7557402664446901e-07 +
                                    r * (2.5108990412753299e-08 + r * 2.0875333201156126e-09))));

    return r * r *
           (0.5 + r * (0.16666666666666677 +
                       r * (0.041666666666666512 +
                            r * (0.0083333333333216828 + r * (0.0013888888888962422 + r * a)))));
}

/* The high parts of log 2 are short: their product with n is exact. *low is the rounding error of
 * r. */
static inline float mf_exp_reducef(float x, float *n, float *low)
{
    float high, part, r;

    *n = (x * 1.44269504f + MF_PUSH_PULL_ROUND_F) - MF_PUSH_PULL_ROUND_F;
    high = x - *n * 0.693359375f;
    part = *n * -2.12194440e-4f;
    r = high - part;
    *low = (high - r) - part;
    return r;
}

static inline double mf_exp_reduce(double x, double *n, double *low)
{
    double high, part, r;

    *n = (x * 1.4426950408889634 + MF_PUSH_PULL_ROUND_D) - MF_PUSH_PULL_ROUND_D;
    high = x - *n * 6.93147180369123816490e-01;
    part = *n * 1.90821492927058770002e-10;
    r = high - part;
    *low = (high - r) - part;
    return r;
}

/* 1 + r + small, with about one rounding. */
static inline float mf_one_plusf(float r, float small)
{
    const float sum = 1.0f + r;

    return sum + (((1.0f - sum) + r) + small);
}

static inline double mf_one_plus(double r, double small)
{
    const double sum = 1.0 + r;

    return sum + (((1.0 - sum) + r) + small);
}

static inline float mf_expf(float x)
{
    float n, r, low, clipped = x < -104.0f ? -104.0f : x;

    clipped = clipped > 89.0f ? 89.0f : clipped;
    r = mf_exp_reducef(clipped, &n, &low);
    return mf_scalef(mf_one_plusf(r, mf_exp_tailf(r) + low), n);
}

static inline double mf_exp(double x)
{
    double n, r, low, clipped = x < -746.0 ? -746.0 : x;

    clipped = clipped > 710.0 ? 710.0 : clipped;
    r = mf_exp_reduce(clipped, &n, &low);
    return mf_scale(mf_one_plus(r, mf_exp_tail(r) + low), n);
}

/* 2^n (e^r - 1) + (2^n - 1); beyond the mantissa's length the last 1 is negligible. */
static inline float mf_expm1f(float x)
{
    float n, r, low, q, s, clipped = x < -20.0f ? -20.0f : x;

    clipped = clipped > 89.0f ? 89.0f : clipped;
    r = mf_exp_reducef(clipped, &n, &low);
    q = r + (mf_exp_tailf(r) + low);
    s = mf_pow2f(n > 30.0f ? 0.0f : n);
    q = n > 30.0f ? mf_scalef(1.0f + q, n) : s * q + (s - 1.0f);
    return x == 0.0f ? x : q;
}

static inline double mf_expm1(double x)
{
    double n, r, low, q, s, clipped = x < -40.0 ? -40.0 : x;

    clipped = clipped > 710.0 ? 710.0 : clipped;
    r = mf_exp_reduce(clipped, &n, &low);
    q = r + (mf_exp_tail(r) + low);
    s = mf_pow2(n > 60.0 ? 0.0 : n);
    q = n > 60.0 ? mf_scale(1.0 + q, n) : s * q + (s - 1.0);
    return x == 0.0 ? x : q;
}

/* With e = e^-|x|, which cannot overflow: 1 / (1 + e) for x >= 0. For x < 0, e / (1 + e), and for
 * small e, e - e^2 / (1 + e), which adds only one rounding to e. */
static inline float mf_sigmoidf(float x)
{
    const float e = mf_expf(x < 0.0f ? x : -x), y = (x < 0.0f ? e : 1.0f) / (1.0f + e);

    return x < -1.5f ? e - e * y : y;
}

static inline double mf_sigmoid(double x)
{
    const double e = mf_exp(x < 0.0 ? x : -x), y = (x < 0.0 ? e : 1.0) / (1.0 + e);

    return x < -1.5 ? e - e * y : y;
}

/* x + x^3 P(x^2) near 0 (within 1.1e-9 and 5.8e-19), otherwise 1 - 2 / (e^2x + 1). */
static inline float mf_tanhf(float x)
{
    const float a = __builtin_fabsf(x), z = x * x;
    const float p =
        -0.333333164f +
        z * (0.133325845f + z * (-0.0538521968f + z * (0.0210711807f + z * -0.00627348898f)));
    const float far = 1.0f - 2.0f / (mf_expf(a + a) + 1.0f);

    return x == 0.0f ? x : a < 0.55f ? x + x * (z * p) : x < 0.0f ? -far : far;
}

static inline double mf_tanh(double x)
{
    const double a = __builtin_fabs(x), z = x * x;
    const double high = 0.0035920919594928657 +
                        z * (-0.0014555423768006714 +
                             z * (0.00058844250730485036 +
                                  z * (-0.00023337640501031338 +
                                       z * (8.3308872753939779e-05 + z * -1.948990174893629e-05))));
    const double p =
        -0.33333333333333298 +
        z * (0.13333333333326597 +
             z * (-0.053968253963746916 +
                  z * (0.021869488385450806 + z * (-0.0088632325946080195 + z * high))));
    const double far = 1.0 - 2.0 / (mf_exp(a + a) + 1.0);

    return x == 0.0 ? x : a < 0.55 ? x + x * (z * p) : x < 0.0 ? -far : far;
}

/* ---- logarithm: x = 2^n (1 + f) with 1 + f between the roots of 1/2 and 2 ---- */

/* f and n of a normal positive x. */
static inline float mf_log_reducef(float x, float *n)
{
    const uint32_t u = mf_bits_of_float(x);
    const float m = mf_float_of_bits((u & 0x7fffffu) | 0x3f800000u);
    const float e = mf_float_of_bits(u >> 23 | 0x4b000000u) - (8388608.0f + 127.0f);

    *n = m > 1.41421356f ? e + 1.0f : e;
    return (m > 1.41421356f ? m * 0.5f : m) - 1.0f;
}

static inline double mf_log_reduce(double x, double *n)
{
    const uint64_t u = mf_bits_of_double(x);
    const double m = mf_double_of_bits((u & 0xfffffffffffffu) | 0x3ff0000000000000u);
    const double e =
        mf_double_of_bits(u >> 52 | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);

    *n = m > 1.4142135623730951 ? e + 1.0 : e;
    return (m > 1.4142135623730951 ? m * 0.5 : m) - 1.0;
}

/* n log 2 + log(1 + f) + c for a small c. The polynomial is within 7.5e-10 of log(1 + f). */
static inline float mf_log_sumf(float f, float n, float c)
{
    const float p =
        0.333333135f +
        f * (-0.250000089f +
             f * (0.200021192f +
                  f * (-0.166679963f +
                       f * (0.142195523f +
                            f * (-0.124055885f +
                                 f * (0.118881591f + f * (-0.116756544f + f * 0.0674664974f)))))));
    const float square = f * f, rest = f * square * p + (n * -2.12194440e-4f + c);

    return (f - (0.5f * square - rest)) + n * 0.693359375f;
}

/* With s = f / (2 + f): log(1 + f) = 2 atanh(s), within 1.3e-18. */
static inline double mf_log_sum(double f, double n, double c)
{
    const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    const double p =
        z * (0.6666666666666734 +
             z * (0.39999999999413938 +
                  z * (0.28571428742566379 +
                       z * (0.22222198553420167 +
                            z * (0.18183565424249937 +
                                 z * (0.15314020709917425 + z * 0.14796265149112345))))));
    const double rest = s * (half + p) + (n * 1.90821492927058770002e-10 + c);

    return n * 6.93147180369123816490e-01 - ((half - rest) - f);
}

static inline float mf_logf(float x)
{
    const int tiny = x < 1.17549435e-38f;
    float n, f, y;

    f = mf_log_reducef(tiny ? x * 8388608.0f : x, &n);
    y = mf_log_sumf(f, tiny ? n - 23.0f : n, 0.0f);
    y = x < __builtin_inff() ? y : x; /* infinity and NaN are kept */
    y = x == 0.0f ? -__builtin_inff() : y;
    return x < 0.0f ? __builtin_nanf("") : y;
}

static inline double mf_log(double x)
{
    const int tiny = x < 2.2250738585072014e-308;
    double n, f, y;

    f = mf_log_reduce(tiny ? x * 4503599627370496.0 : x, &n);
    y = mf_log_sum(f, tiny ? n - 52.0 : n, 0.0);
    y = x < __builtin_inf() ? y : x;
    y = x == 0.0 ? -__builtin_inf() : y;
    return x < 0.0 ? __builtin_nan("") : y;
}

/* log(u) with u = 1 + x rounded, plus the rounding error relative to u. */
static inline float mf_log1pf(float x)
{
    const float u = 1.0f + x, lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
    float n, f, y;

    f = mf_log_reducef(u, &n);
    y = mf_log_sumf(f, n, lost / u);
    y = x == 0.0f || !(x < __builtin_inff()) ? x : y;
    y = x == -1.0f ? -__builtin_inff() : y;
    return x < -1.0f ? __builtin_nanf("") : y;
}

static inline double mf_log1p(double x)
{
    const double u = 1.0 + x, lost = x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0);
    double n, f, y;

    f = mf_log_reduce(u, &n);
    y = mf_log_sum(f, n, lost / u);
    y = x == 0.0 || !(x < __builtin_inf()) ? x : y;
    y = x == -1.0 ? -__builtin_inf() : y;
    return x < -1.0 ? __builtin_nan("") : y;
}

/* log(1 + e^x) as max(x, 0) + log(1 + e^-|x|): no overflow, and exact at both ends. The special
 * cases of log1p cannot occur. */
static inline float mf_softplusf(float x)
{
    const float e = mf_expf(x < 0.0f ? x : -x), u = 1.0f + e;
    float n, f;

    f = mf_log_reducef(u, &n);
    return (x <= 0.0f ? 0.0f : x) + mf_log_sumf(f, n, (e - (u - 1.0f)) / u);
}

static inline double mf_softplus(double x)
{
    const double e = mf_exp(x < 0.0 ? x : -x), u = 1.0 + e;
    double n, f;

    f = mf_log_reduce(u, &n);
    return (x <= 0.0 ? 0.0 : x) + mf_log_sum(f, n, (e - (u - 1.0)) / u);
}

/* ---- error function ---- */

/* x + x P(x^2) near 0 (within 2e-10); otherwise 1 - e^-Q(x), where -Q is the logarithm of 1 -
 * erf(x) (within 1.9e-9). From 3.95 on it rounds to 1. */
static inline float mf_erff(float x)
{
    const float a = __builtin_fabsf(x), z = x * x, t = a > 3.95f ? 3.95f : a;
    const float p =
        0.12837917f +
        z * (-0.376126349f +
             z * (0.11283733f +
                  z * (-0.0268615857f +
                       z * (0.00520674745f + z * (-0.000821110501f + z * 8.67539711e-05f)))));
    const float q =
        0.000133580368f +
        t * (1.12793612f +
             t * (0.636737287f +
                  t * (0.104327433f +
                       t * (-0.0224201772f + t * (0.00309227966f + t * -0.000200994677f)))));
    const float far = 1.0f - mf_expf(-q);

    return a < 0.875f ? x + x * p : x < 0.0f ? -far : far;
}

static inline double mf_erf(double x)
{
    return Sleef_erf_u10(x);
}

/* ---- power ---- */

/* e^(y log |x|) in double, so float's last bit is almost always correct. */
static inline float mf_powf(float x, float y)
{
    const double dy = (double)y, half = 0.5 * dy;
    const double size = mf_exp(dy * mf_log((double)__builtin_fabsf(x)));
    const int whole = __builtin_floor(dy) == dy;
    const int odd = whole && __builtin_floor(half) != half;
    const int negative = (mf_bits_of_float(x) >> 31) != 0;
    double r = negative && odd ? -size : size;

    r = x < 0.0f && !whole && x > -__builtin_inff() ? __builtin_nan("") : r;
    r = (x == -1.0f && __builtin_fabsf(y) == __builtin_inff()) || x == 1.0f || y == 0.0f ? 1.0 : r;
    return (float)r;
}

#endif
