/* SPDX-License-Identifier: Apache-2.0 */
/* vmath.h - exp, log and their like. */
#ifndef MF_OPS_VMATH_H
#define MF_OPS_VMATH_H

#include <sleef.h>

#define MF_VF(NAME, F)                                                                             \
    static inline float NAME(float x)                                                              \
    {                                                                                              \
        return F(x);                                                                               \
    }
#define MF_VD(NAME, F)                                                                             \
    static inline double NAME(double x)                                                            \
    {                                                                                              \
        return F(x);                                                                               \
    }
MF_VF(mf_expf, Sleef_expf_u10)
MF_VD(mf_exp, Sleef_exp_u10)
MF_VF(mf_logf, Sleef_logf_u10)
MF_VD(mf_log, Sleef_log_u10)
MF_VF(mf_log1pf, Sleef_log1pf_u10)
MF_VD(mf_log1p, Sleef_log1p_u10)
MF_VF(mf_expm1f, Sleef_expm1f_u10)
MF_VD(mf_expm1, Sleef_expm1_u10)
MF_VF(mf_tanhf, Sleef_tanhf_u10)
MF_VD(mf_tanh, Sleef_tanh_u10)
MF_VF(mf_erff, Sleef_erff_u10)
MF_VD(mf_erf, Sleef_erf_u10)
static inline float mf_sigmoidf(float x)
{
    return 1 / (1 + mf_expf(-x));
}
static inline double mf_sigmoid(double x)
{
    return 1 / (1 + mf_exp(-x));
}

#endif
