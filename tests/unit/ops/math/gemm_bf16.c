/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bfloat16. Operands are widened to float, or the instructions vdpbf16ps or tdpbf16ps
 * (AMX) multiply them; which one depends on the instruction set. Bits are those of a model of it.
 */
#include "gemm_products.h"

#include <math.h>

enum { CASES = 200 };

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* A step of vdpbf16ps: a fused multiply-add that takes and makes zeros for denormals. */
static float step_of_pair(float sum, float a, float b)
{
    return flushed(fmaf(flushed(a), flushed(b), flushed(sum)));
}

/* Of one slice, [from, to). */
static float pairs_of_slice(const mf_gemm *g, int64_t i, int64_t j, int64_t from, int64_t to)
{
    float sum = 0;

    for (int64_t p = from; p < to; p += 2) {
        if (p + 1 < to)
            sum = step_of_pair(sum, (float)a_at(g, i, p + 1), (float)b_at(g, p + 1, j));
        sum = step_of_pair(sum, (float)a_at(g, i, p), (float)b_at(g, p, j));
    }
    return sum;
}

static float chain_of_slice(const mf_gemm *g, int64_t i, int64_t j, int64_t from, int64_t to)
{
    float sum = 0;

    for (int64_t p = from; p < to; p++)
        sum = fmaf((float)a_at(g, i, p), (float)b_at(g, p, j), sum);
    return sum;
}

/* Of one slice by tdpbf16ps, added to C: even and odd steps apart, 32 at a time. */
static float amx_slice(const mf_gemm *g, int64_t i, int64_t j, int64_t from, int64_t to, float c)
{
    for (int64_t p0 = from; p0 < to; p0 += 32) {
        float sum[2] = { 0, 0 };

        for (int64_t p = p0; p < to && p < p0 + 32; p++)
            sum[p % 2] = step_of_pair(sum[p % 2], (float)a_at(g, i, p), (float)b_at(g, p, j));
        c = flushed(flushed(c) + flushed(sum[0] + sum[1]));
    }
    return c;
}

typedef enum model { WIDENED, PAIRS, AMX } model;

static float element(const mf_gemm *g, int64_t i, int64_t j, model by)
{
    const int64_t step = by == AMX ? MF_GEMM_K : g->k > 0 ? length_of_slices(g->k) : 1;
    float all = 0;

    for (int64_t p = 0; p < g->k; p += step) {
        const int64_t to = p + step < g->k ? p + step : g->k;
        const float sum = by == AMX     ? amx_slice(g, i, j, p, to, all)
                          : by == PAIRS ? pairs_of_slice(g, i, j, p, to)
                                        : chain_of_slice(g, i, j, p, to);

        all = p == 0 || by == AMX ? sum : all + sum;
    }
    return g->c_type == MF_DTYPE_F32 ? all : mf_bf16_to_f32(mf_bf16_from_f32(all));
}

static bool is_model(const mf_gemm *g, model by)
{
    for (int64_t i = 0; i < g->m * g->n; i++) {
        const float want = element(g, i / g->n, i % g->n, by);
        const float got = (float)get_element(g->c, g->c_type, i);

        if (memcmp(&want, &got, sizeof want) != 0)
            return false;
    }
    return true;
}

/* The product of four numbers with ones. */
static double sum_of_four(float a, float b, float c, float d)
{
    const float x[4] = { a, b, c, d };
    uint32_t seed = 1;
    mf_gemm g = make_product(MF_DTYPE_BF16, 1, 1, 4, false, false, &seed);
    double sum;

    for (int i = 0; i < 4; i++) {
        ((mf_bf16 *)(uintptr_t)g.a.data)[i] = mf_bf16_from_f32(x[i]);
        ((mf_bf16 *)(uintptr_t)g.b.data)[i] = mf_bf16_from_f32(1);
    }
    run_with(&g, 1);
    sum = get_element(g.c, g.c_type, 0);
    free_product(&g);
    return sum;
}

/* Instructions for bfloat16 take a denormal for zero. Those of AMX add even steps apart, so that
 * the ones cancel first. */
static model model_of_kernel(void)
{
    const double tiny = 0x1p-130, half = 0x1p-24;

    if (sum_of_four((float)tiny, 0, 0, 0) == tiny)
        return WIDENED;
    T_EQ_F(sum_of_four((float)tiny, 0, 0, 0), 0);
    return sum_of_four(1, (float)half, -1, 0) == half ? AMX : PAIRS;
}

static void check_of_bfloat16_is_the_model_of_the_instruction(void)
{
    const model by = model_of_kernel();
    uint32_t seed = 11;

    for (int c = 0; c < CASES; c++) {
        mf_gemm g = random_product(MF_DTYPE_BF16, 120, &seed);
        float *wide = mf_calloc(g.m * g.n + 1, sizeof *wide);

        T_TRUE(wide);
        run_with(&g, c % 16 == 0 ? 3 : 1);
        if (!is_model(&g, by))
            T_FAIL("case %d: %lldx%lldx%lld", c, (long long)g.m, (long long)g.n, (long long)g.k);
        mf_free(g.c);
        g.c = wide;
        g.c_type = MF_DTYPE_F32;
        run_with(&g, 1);
        if (!is_model(&g, by))
            T_FAIL("case %d as float: %lldx%lldx%lld", c, (long long)g.m, (long long)g.n,
                   (long long)g.k);
        free_product(&g);
    }
}

MF_TEST(gemm_of_bfloat16_is_the_model_of_the_instruction)
{
    in_all_sets(check_of_bfloat16_is_the_model_of_the_instruction);
}

/* Every element of A that is not finite reaches its row only, also the last one of an odd k, whose
 * partner is zero. */
static void check_of_bfloat16_keeps_infinity_and_nan(void)
{
    uint32_t seed = 12;
    mf_gemm g = make_product(MF_DTYPE_BF16, 20, 40, 7, false, false, &seed);
    mf_bf16 *a = (mf_bf16 *)(uintptr_t)g.a.data, *b = (mf_bf16 *)(uintptr_t)g.b.data;

    for (int64_t i = 0; i < g.k * g.n; i++)
        b[i] = mf_bf16_from_f32(1);
    a[3 * g.k + 6] = mf_bf16_from_f32(-INFINITY);
    a[4 * g.k + 2] = mf_bf16_from_f32(NAN);
    run_with(&g, 1);
    for (int64_t i = 0; i < g.m * g.n; i++) {
        const double x = get_element(g.c, g.c_type, i);

        T_EQ(isnan(x) != 0, i / g.n == 4);
        T_EQ(isinf(x) != 0, i / g.n == 3);
    }
    free_product(&g);
}

MF_TEST(gemm_of_bfloat16_keeps_infinity_and_nan)
{
    in_all_sets(check_of_bfloat16_keeps_infinity_and_nan);
}
