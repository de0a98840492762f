/* SPDX-License-Identifier: Apache-2.0 */
/* int8_gemm.h - products of bytes: c[m,n] = a[m,k] b[k,n], exact. On the calling thread. */
#ifndef MF_OPS_QUANT_INT8_GEMM_H
#define MF_OPS_QUANT_INT8_GEMM_H

#include "base/status.h"

/* k is below 2^16, or sums might not fit. Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_int8_gemm(int64_t m, int64_t n, int64_t k, const uint8_t *a, const int8_t *b,
                               int32_t *c);

#endif
