/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bytes against a plain loop: edges of register blocks and panels, incomplete words of
 * k, and the extremes, whose sums of two products do not fit into 16 bits. */
#include "ops/quant/int8_gemm.h"

#include "../kernel_sets.h"
#include "base/mem.h"
#include "mf_test.h"

#include <string.h>

enum { CASES = 300 };

KERNEL_SETS(mf_int8_gemm, int8_gemm_of_set)

static uint32_t next_byte(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 24;
}

/* The buffers end with the matrices: asan finds reads beyond them. */
static void check_product(mf_isa isa, int64_t m, int64_t n, int64_t k, uint32_t *seed)
{
    uint8_t *a = mf_calloc(m * k, 1);
    int8_t *b = mf_calloc(k * n, 1);
    int32_t *c = mf_calloc(m * n, sizeof *c);

    T_TRUE((a || m * k == 0) && (b || k * n == 0) && (c || m * n == 0));
    for (int64_t i = 0; i < m * k; i++)
        a[i] = next_byte(seed) % 2 ? 255 : (uint8_t)next_byte(seed);
    for (int64_t i = 0; i < k * n; i++)
        b[i] = (int8_t)(next_byte(seed) % 2 ? (next_byte(seed) % 2 ? -128 : 127)
                                            : (int)next_byte(seed) - 128);
    for (int64_t i = 0; i < m * n; i++)
        c[i] = 12345;
    T_OK(int8_gemm_of_set[isa](m, n, k, a, b, c));
    for (int64_t i = 0; i < m * n; i++) {
        int32_t want = 0;

        for (int64_t p = 0; p < k; p++)
            want += a[i / n * k + p] * b[p * n + i % n];
        if (c[i] != want)
            T_FAIL("%s, %lldx%lldx%lld, element %lld: %d instead of %d", mf_isa_name(isa),
                   (long long)m, (long long)n, (long long)k, (long long)i, (int)c[i], (int)want);
    }
    mf_free(a);
    mf_free(b);
    mf_free(c);
}

static void check_set(mf_isa isa)
{
    uint32_t seed = 1;

    for (int i = 0; i < CASES; i++) {
        const int64_t m = next_byte(&seed) % 40, n = next_byte(&seed) % 80;

        check_product(isa, m, n, next_byte(&seed) % 90, &seed);
    }
    check_product(isa, 131, 10, 784, &seed);
    check_product(isa, 3, 33, 3137,
                  &seed); /* several slices of k, the last with an incomplete word */
    check_product(isa, 29, 64, 2050, &seed);
}

MF_TEST(int8_gemm_is_exact)
{
    for (int isa = 0; isa < MF_ISA_COUNT; isa++) {
        if (int8_gemm_of_set[isa] && mf_isa_is_available((mf_isa)isa))
            check_set((mf_isa)isa);
    }
}
