/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products against a plain loop. Floats have its bits: an element is one chain of fused
 * multiply-adds over each slice of k, and slices are added in order. So bits do not depend on
 * threads, on other rows and columns, on strides, or on the instruction set. */
#include "gemm_products.h"
#include "graph/shard.h"

#include <math.h>

enum { CASES = 250, SHARDS = 8 };

static float chain_f32(const mf_gemm *g, int64_t i, int64_t j, int64_t from, int64_t to)
{
    const int64_t step = to > from ? length_of_slices(to - from) : 1;
    float all = 0;

    for (int64_t p0 = from; p0 < to; p0 += step) {
        float sum = 0;

        for (int64_t p = p0; p < to && p < p0 + step; p++)
            sum = fmaf((float)a_at(g, i, p), (float)b_at(g, p, j), sum);
        all = p0 == from ? sum : all + sum;
    }
    return all;
}

static double chain_f64(const mf_gemm *g, int64_t i, int64_t j)
{
    const int64_t step = g->k > 0 ? length_of_slices(g->k) : 1;
    double all = 0;

    for (int64_t p0 = 0; p0 < g->k; p0 += step) {
        double sum = 0;

        for (int64_t p = p0; p < g->k && p < p0 + step; p++)
            sum = fma(a_at(g, i, p), b_at(g, p, j), sum);
        all = p0 == 0 ? sum : all + sum;
    }
    return all;
}

static bool equal_f32(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void check_of_floats_is_one_chain_per_slice(void)
{
    uint32_t seed = 1;

    for (int c = 0; c < CASES; c++) {
        mf_gemm g = random_product(MF_DTYPE_F32, 150, &seed);

        run_with(&g, c % 16 == 0 ? 3 : 1);
        for (int64_t i = 0; i < g.m * g.n; i++) {
            const float want = chain_f32(&g, i / g.n, i % g.n, 0, g.k), got = ((float *)g.c)[i];

            if (!equal_f32(got, want))
                T_FAIL("%s, case %d, %lldx%lldx%lld, element %lld: %a instead of %a",
                       mf_isa_name(set_in_test), c, (long long)g.m, (long long)g.n, (long long)g.k,
                       (long long)i, (double)got, (double)want);
        }
        free_product(&g);
    }
}

MF_TEST(gemm_of_floats_is_one_chain_per_slice)
{
    in_all_sets(check_of_floats_is_one_chain_per_slice);
}

static void check_of_doubles_is_one_chain_per_slice(void)
{
    uint32_t seed = 2;

    for (int c = 0; c < CASES; c++) {
        mf_gemm g = random_product(MF_DTYPE_F64, 100, &seed);

        run_with(&g, 1);
        for (int64_t i = 0; i < g.m * g.n; i++) {
            const double want = chain_f64(&g, i / g.n, i % g.n);

            if (memcmp(&want, (double *)g.c + i, sizeof want) != 0)
                T_FAIL("case %d, %lldx%lldx%lld, element %lld", c, (long long)g.m, (long long)g.n,
                       (long long)g.k, (long long)i);
        }
        free_product(&g);
    }
}

MF_TEST(gemm_of_doubles_is_one_chain_per_slice)
{
    in_all_sets(check_of_doubles_is_one_chain_per_slice);
}

/* Values are small integers in 64ths and k is small, so that sums are exact. */
static void check_of_halves_and_integers_is_exact(void)
{
    static const mf_dtype types[] = { MF_DTYPE_F16, MF_DTYPE_I64, MF_DTYPE_U8 };
    uint32_t seed = 3;

    for (int c = 0; c < CASES; c++) {
        mf_gemm g = random_product(types[c % 3], 60, &seed);

        run_with(&g, 1);
        for (int64_t i = 0; i < g.m * g.n; i++) {
            double want = 0, got = get_element(g.c, g.c_type, i);

            for (int64_t p = 0; p < g.k; p++)
                want += a_at(&g, i / g.n, p) * b_at(&g, p, i % g.n);
            if (g.c_type == MF_DTYPE_F16)
                want = (double)mf_f16_to_f32(mf_f16_from_f32((float)want));
            else if (g.c_type == MF_DTYPE_U8)
                want = fmod(want, 256);
            T_EQ_F(got, want);
        }
        free_product(&g);
    }
}

MF_TEST(gemm_of_halves_and_integers_is_exact)
{
    in_all_sets(check_of_halves_and_integers_is_exact);
}

/* The products of all shards, added by the tree of reduction_tree.h. */
static float tree_of_shards(const mf_gemm *g, int64_t i, int64_t j)
{
    const int64_t shards = g->shards < g->samples ? g->shards : g->samples;
    const int64_t rows = g->k / g->samples;
    float sum[64];

    for (int64_t s = 0; s < shards; s++)
        sum[s] = chain_f32(g, i, j, rows * mf_shard_begin(g->samples, g->shards, s),
                           rows * mf_shard_begin(g->samples, g->shards, s + 1));
    for (int64_t stride = 1; stride < shards; stride *= 2)
        for (int64_t s = 0; s + stride < shards; s += 2 * stride)
            sum[s] += sum[s + stride];
    return sum[0];
}

static void check_of_shards_adds_them_in_the_tree(void)
{
    static const int64_t rows[] = { 1, 1, 1, 2, 7, 16, 48 };
    uint32_t seed = 4;

    for (int c = 0; c < CASES; c++) {
        const int64_t samples = 1 + up_to(&seed, 40),
                      shards = c % 3 ? SHARDS : 1 + up_to(&seed, 40);
        const int64_t m = 1 + random_size(&seed, 70), n = 1 + random_size(&seed, 70);
        mf_gemm g = make_product(MF_DTYPE_F32, m, n, samples * rows[up_to(&seed, MF_COUNT(rows))],
                                 c % 5 != 0, c % 7 == 0, &seed);

        g.shards = shards;
        g.samples = samples;
        run_with(&g, c % 16 == 0 ? 2 : 1);
        for (int64_t i = 0; i < g.m * g.n; i++) {
            const float want = tree_of_shards(&g, i / g.n, i % g.n), got = ((float *)g.c)[i];

            if (!equal_f32(got, want))
                T_FAIL("case %d, %lldx%lldx%lld, %lld samples in %lld shards, element %lld: %a "
                       "instead of %a",
                       c, (long long)m, (long long)n, (long long)g.k, (long long)samples,
                       (long long)shards, (long long)i, (double)got, (double)want);
        }
        free_product(&g);
    }
}

MF_TEST(gemm_of_shards_adds_them_in_the_tree)
{
    in_all_sets(check_of_shards_adds_them_in_the_tree);
}

static void check_of_empty_shards_is_zero(void)
{
    uint32_t seed = 5;
    mf_gemm g = make_product(MF_DTYPE_F32, 17, 37, 0, true, false, &seed);

    g.shards = 2;
    g.samples = 3;
    run_with(&g, 1);
    for (int64_t i = 0; i < g.m * g.n; i++)
        T_EQ_F(((float *)g.c)[i], 0);
    free_product(&g);
}

MF_TEST(gemm_of_empty_shards_is_zero)
{
    in_all_sets(check_of_empty_shards_is_zero);
}

static void same_bits(const mf_gemm *g, const void *as)
{
    T_EQ(memcmp(g->c, as, (size_t)(g->m * g->n) * mf_dtype_cell(g->c_type)), 0);
}

/* Rows, threads and batches: the product of some rows has the bits of these rows in a larger
 * product. */
static void parts_are_equal(mf_dtype type)
{
    static const int64_t first[] = { 0, 1, 13, 100 }, count[] = { 1, 5, 40, 200 };
    uint32_t seed = 6;
    const size_t cell = mf_dtype_cell(type);
    mf_gemm g = make_product(type, 300, 90, 333, false, false, &seed);
    void *one = mf_calloc(g.m * g.n, cell);

    T_TRUE(one);
    run_with(&g, 1);
    memcpy(one, g.c, (size_t)(g.m * g.n) * cell);
    for (int threads = 2; threads <= 5; threads += 3) {
        memset(g.c, 0, (size_t)(g.m * g.n) * cell);
        run_with(&g, threads);
        same_bits(&g, one);
    }
    for (int i = 0; i < MF_COUNT(first); i++) {
        mf_gemm part = g;

        part.m = count[i];
        part.a.data = (const char *)g.a.data + (size_t)(first[i] * g.a.row) * cell;
        run_with(&part, 1);
        same_bits(&part, (const char *)one + (size_t)(first[i] * g.n) * cell);
    }
    mf_free(one);
    free_product(&g);
}

static void check_rows_do_not_depend_on_threads_and_other_rows(void)
{
    static const mf_dtype types[] = { MF_DTYPE_F32, MF_DTYPE_F64, MF_DTYPE_F16, MF_DTYPE_BF16 };

    for (int i = 0; i < MF_COUNT(types); i++)
        parts_are_equal(types[i]);
}

MF_TEST(gemm_rows_do_not_depend_on_threads_and_other_rows)
{
    in_all_sets(check_rows_do_not_depend_on_threads_and_other_rows);
}

/* In all three kinds of blocks: one row, few rows, many. */
static void check_infinity_and_nan_stay_in_their_rows_and_columns(void)
{
    static const int64_t rows[] = { 1, 5, 40 };
    uint32_t seed = 7;

    for (int c = 0; c < MF_COUNT(rows); c++) {
        mf_gemm g = make_product(MF_DTYPE_F32, rows[c], 70, 20, false, false, &seed);
        float *a = (float *)(uintptr_t)g.a.data, *b = (float *)(uintptr_t)g.b.data;

        for (int64_t i = 0; i < g.k * g.n; i++)
            b[i] = 1;
        a[(g.m - 1) * g.k + 3] = INFINITY;
        b[5 * g.n + 69] = NAN;
        b[3 * g.n + 2] = 0; /* times infinity is NaN */
        run_with(&g, 1);
        for (int64_t i = 0; i < g.m; i++) {
            const float *row = (float *)g.c + i * g.n;

            T_TRUE(isnan(row[69]));
            T_EQ(isfinite(row[1]) != 0, i < g.m - 1);
            T_EQ(isnan(row[2]) != 0, i == g.m - 1);
            T_EQ(isnan(row[1]) != 0, 0);
        }
        free_product(&g);
    }
}

MF_TEST(gemm_infinity_and_nan_stay_in_their_rows_and_columns)
{
    in_all_sets(check_infinity_and_nan_stay_in_their_rows_and_columns);
}
