/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_products.h - products of random matrices, for tests of matrix products. */
#ifndef MF_TESTS_GEMM_PRODUCTS_H
#define MF_TESTS_GEMM_PRODUCTS_H

#include "../kernel_sets.h"
#include "base/mem.h"
#include "base/pool.h"
#include "mf_test.h"
#include "ops/math/gemm.h"

#include <math.h>
#include <string.h>

KERNEL_SETS(mf_gemm_run, gemm_of_set)

/* The instruction set that run_with() uses. */
static mf_isa set_in_test;

/* Calls the test for each set. */
static inline void in_all_sets(void (*test)(void))
{
    for (int isa = 0; isa < MF_ISA_COUNT; isa++) {
        if (!gemm_of_set[isa] || !mf_isa_is_available((mf_isa)isa))
            continue;
        set_in_test = (mf_isa)isa;
        test();
    }
}

static inline uint32_t next_number(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static inline int64_t up_to(uint32_t *seed, int64_t most)
{
    return next_number(seed) % most;
}

/* Of float, double and bfloat16: values whose sums round. Others: multiples of a step that is exact
 * in every type. */
static inline double random_value(mf_dtype type, uint32_t *seed)
{
    if (type == MF_DTYPE_F32 || type == MF_DTYPE_F64 || type == MF_DTYPE_BF16)
        return ldexp((double)next_number(seed) - 0x1p23, (int)(next_number(seed) % 6) - 24);
    return ((double)(next_number(seed) % 255) - 127) / 64;
}

static inline void set_element(void *data, mf_dtype type, int64_t i, double x)
{
    if (type == MF_DTYPE_F32)
        ((float *)data)[i] = (float)x;
    else if (type == MF_DTYPE_F64)
        ((double *)data)[i] = x;
    else if (type == MF_DTYPE_BF16)
        ((mf_bf16 *)data)[i] = mf_bf16_from_f32((float)x);
    else if (type == MF_DTYPE_F16)
        ((mf_f16 *)data)[i] = mf_f16_from_f32((float)x);
    else if (type == MF_DTYPE_I64)
        ((int64_t *)data)[i] = (int64_t)(x * 64);
    else
        ((uint8_t *)data)[i] = (uint8_t)(int)(x * 64);
}

static inline double get_element(const void *data, mf_dtype type, int64_t i)
{
    switch (type) {
    case MF_DTYPE_F32:
        return (double)((const float *)data)[i];
    case MF_DTYPE_F64:
        return ((const double *)data)[i];
    case MF_DTYPE_BF16:
        return (double)mf_bf16_to_f32(((const mf_bf16 *)data)[i]);
    case MF_DTYPE_F16:
        return (double)mf_f16_to_f32(((const mf_f16 *)data)[i]);
    case MF_DTYPE_I64:
        return (double)((const int64_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

/* Operands of random values, and room for C, all of one type. */
static inline mf_gemm make_product(mf_dtype type, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                                   uint32_t *seed)
{
    const size_t cell = mf_dtype_cell(type);
    void *a = mf_calloc(m * k + 1, cell), *b = mf_calloc(k * n + 1, cell);
    mf_gemm g = { .m = m,
                  .n = n,
                  .k = k,
                  .a = { a, type, ta ? 1 : k, ta ? m : 1, false, { 0 } },
                  .b = { b, type, tb ? 1 : n, tb ? k : 1, false, { 0 } },
                  .c = mf_calloc(m * n + 1, cell),
                  .c_type = type };

    T_TRUE(a && b && g.c);
    for (int64_t i = 0; i < m * k; i++)
        set_element(a, type, i, random_value(type, seed));
    for (int64_t i = 0; i < k * n; i++)
        set_element(b, type, i, random_value(type, seed));
    memset(g.c, 0x5a, (size_t)(m * n) * cell); /* every element must be written */
    mf_gemm_c_follows(&g);
    return g;
}

static inline void free_product(mf_gemm *g)
{
    mf_free((void *)(uintptr_t)g->a.data);
    mf_free((void *)(uintptr_t)g->b.data);
    mf_free(g->c);
}

static inline void run_with(const mf_gemm *g, int threads)
{
    const mf_node node = { .op_name = "MatMul" };
    mf_step step = { 0 };
    const mf_kernel k = { .node = &node, .step = &step };

    if (threads > 1)
        T_OK(mf_pool_new(threads, &step.pool));
    T_OK(gemm_of_set[set_in_test](&k, g));
    mf_pool_free(step.pool);
}

static inline double a_at(const mf_gemm *g, int64_t i, int64_t p)
{
    return get_element(g->a.data, g->a.type, i * g->a.row + p * g->a.col);
}

static inline double b_at(const mf_gemm *g, int64_t p, int64_t j)
{
    return get_element(g->b.data, g->b.type, p * g->b.row + j * g->b.col);
}

/* As gemm.h says: equal slices of at most MF_GEMM_K steps, a multiple of four. */
static inline int64_t length_of_slices(int64_t k)
{
    const int64_t slices = (k + MF_GEMM_K - 1) / MF_GEMM_K;

    return ((k + slices - 1) / slices + 3) / 4 * 4;
}

/* Small sizes, the edges of register blocks and tiles, and sometimes larger ones. */
static inline int64_t random_size(uint32_t *seed, int64_t most)
{
    static const int64_t edges[] = { 0, 1, 2, 6, 7, 8, 14, 15, 16, 17, 31, 32, 33, 48, 64, 113 };

    switch (up_to(seed, 3)) {
    case 0:
        return edges[up_to(seed, MF_COUNT(edges))];
    case 1:
        return up_to(seed, 40);
    default:
        return up_to(seed, most);
    }
}

static inline mf_gemm random_product(mf_dtype type, int64_t most, uint32_t *seed)
{
    const int64_t m = random_size(seed, most), n = random_size(seed, most);
    const int64_t k = random_size(seed, 700);
    const bool ta = up_to(seed, 2), tb = up_to(seed, 2);

    return make_product(type, m, n, k, ta, tb, seed);
}

#endif
