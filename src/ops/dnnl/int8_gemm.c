/* SPDX-License-Identifier: Apache-2.0 */
/* int8_gemm.c - uses oneDNN if the CPU adds byte products in 32 bits (VNNI). Otherwise oneDNN adds
 * two products in 16 bits, which saturates: then Meshflow's own kernel is used. */
#include "ops/dnnl/int8_gemm.h"

#include "ops/dnnl/dnnl_util.h"

#include <string.h>

static bool has_vnni(void)
{
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    const unsigned avx512 = (unsigned)dnnl_cpu_isa_avx512_core_vnni, avx2 = 0xf; /* AVX2-VNNI */

    return (isa & avx512) == avx512 || (isa & avx2) == avx2;
}

static void int8_gemm_plain(int64_t m, int64_t n, int64_t k, const uint8_t *a, const int8_t *b,
                            int32_t *c)
{
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < k; j++) {
            const int32_t x = a[i * k + j];

            for (int64_t l = 0; x != 0 && l < n; l++)
                c[i * n + l] += x * b[j * n + l];
        }
    }
}

mf_status mf_int8_gemm(int64_t m, int64_t n, int64_t k, const uint8_t *a, const int8_t *b,
                       int32_t *c)
{
    const int32_t offset = 0;

    mf_dnnl_enter();
    if (!has_vnni()) {
        int8_gemm_plain(m, n, k, a, b, c);
        return MF_OK;
    }
    return mf_dnnl_status(
        dnnl_gemm_u8s8s32('N', 'N', 'F', m, n, k, 1.0f, a, k, 0, b, n, 0, 0.0f, c, n, &offset),
        "a product of bytes");
}
