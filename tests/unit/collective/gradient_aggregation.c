/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_aggregation.c - aggregation rules are compared with their formulas. */
#include "collective/gradient_aggregation.h"

#include "mf_test.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 17, COUNT = 200 };

static float noise(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(*seed >> 40) / (float)(1 << 23) - 1.0f;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* As in NumPy: median(v), and mean(sort(v)[k : n - k]) with k = int(trim * n). */
static double expected(const mf_aggregation *a, double *v, int n)
{
    const int k = (int)(a->trim * n);
    double sum = 0.0;

    qsort(v, (size_t)n, sizeof *v, by_value);
    if (a->how == MF_AGGREGATE_MEDIAN)
        return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    for (int i = k; i < n - k; i++)
        sum += v[i];
    return sum / (n - 2 * k);
}

typedef struct shards {
    float x[MOST][COUNT];
    const float *at[MOST];
    double factor[MOST];
} shards;

static void fill(shards *s)
{
    uint64_t seed = 3;

    for (int i = 0; i < MOST; i++) {
        s->at[i] = s->x[i];
        s->factor[i] = 1.0 + i % 3;
        for (int k = 0; k < COUNT; k++)
            s->x[i][k] = noise(&seed) * (k % 5 == 0 ? 1e6f : 1.0f);
    }
}

static void compare(const shards *s, const mf_aggregation *a, int n)
{
    float out[COUNT];

    T_OK(mf_aggregate_robust(a, s->at, s->factor, n, COUNT, out));
    for (int k = 0; k < COUNT; k++) {
        double v[MOST];

        for (int i = 0; i < n; i++)
            v[i] = (double)s->x[i][k] * s->factor[i];
        T_TRUE(out[k] == (float)expected(a, v, n));
    }
}

MF_TEST(aggregate_median_matches_the_formula)
{
    const mf_aggregation a = { .how = MF_AGGREGATE_MEDIAN };
    shards s;

    fill(&s);
    for (int n = 1; n <= MOST; n++)
        compare(&s, &a, n);
}

MF_TEST(aggregate_trimmed_mean_matches_the_formula)
{
    shards s;

    fill(&s);
    for (int n = 1; n <= MOST; n++) {
        for (int t = 0; t < 5; t++)
            compare(&s, &(mf_aggregation){ MF_AGGREGATE_TRIMMED_MEAN, 0.1 * t, NULL }, n);
    }
}

/* Settings are floats: 0.35 of 20 is 6.9999999. */
MF_TEST(aggregate_trim_is_exact)
{
    const mf_aggregation a = { MF_AGGREGATE_TRIMMED_MEAN, (double)0.35f, NULL };
    double ones[20];
    float x[20], out;
    const float *at[20];

    for (int s = 0; s < 20; s++) {
        at[s] = &x[s];
        x[s] = (float)(s * s);
        ones[s] = 1.0;
    }
    T_OK(mf_aggregate_robust(&a, at, ones, 20, 1, &out));
    T_NEAR(out, (49 + 64 + 81 + 100 + 121 + 144) / 6.0, 1e-5); /* mean of 7 to 12 */
}

MF_TEST(aggregate_outlier_shards_do_not_affect_the_result)
{
    static const mf_aggregation kinds[] = { { .how = MF_AGGREGATE_MEDIAN },
                                            { .how = MF_AGGREGATE_TRIMMED_MEAN, .trim = 0.3 } };
    const float bad[] = { 1e30f, -1e30f, INFINITY, NAN };
    double ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    float x[8][4], out[4];
    const float *at[8];

    for (int k = 0; k < MF_COUNT(kinds); k++) {
        for (int b = 0; b < MF_COUNT(bad); b++) {
            for (int s = 0; s < 8; s++) {
                at[s] = x[s];
                for (int i = 0; i < 4; i++)
                    x[s][i] = s == 2 || s == 5 ? bad[(b + (s == 5)) % 4] : 1.0f + (float)s / 1024;
            }
            T_OK(mf_aggregate_robust(&kinds[k], at, ones, 8, 4, out));
            for (int i = 0; i < 4; i++)
                T_NEAR(out[i], 1.0, 0.01);
        }
    }
}

MF_TEST(aggregate_result_is_independent_of_the_order_of_shards)
{
    const mf_aggregation a = { .how = MF_AGGREGATE_TRIMMED_MEAN, .trim = 0.2 };
    float out[COUNT], again[COUNT];
    const float *turned[MOST];
    double factor[MOST];
    shards s;

    fill(&s);
    for (int i = 0; i < MOST; i++) {
        turned[i] = s.at[(i + 5) % MOST];
        factor[i] = s.factor[(i + 5) % MOST];
    }
    T_OK(mf_aggregate_robust(&a, s.at, s.factor, MOST, COUNT, out));
    T_OK(mf_aggregate_robust(&a, turned, factor, MOST, COUNT, again));
    for (int k = 0; k < COUNT; k++)
        T_TRUE(out[k] == again[k]);
}

/* ---- Adasum ---- */

typedef struct vector {
    double v[COUNT];
} vector;

static double dot(const vector *a, const vector *b)
{
    double sum = 0.0;

    for (int i = 0; i < COUNT; i++)
        sum += a->v[i] * b->v[i];
    return sum;
}

/* The recursive formula for shards [lo, hi). The left child has the largest power of two below
 * their number. */
static vector adasum(const shards *s, int lo, int hi)
{
    vector out = { 0 }, a, b;
    int left = 1;

    if (hi - lo == 1) {
        for (int i = 0; i < COUNT; i++)
            out.v[i] = (double)s->x[lo][i] * s->factor[lo];
        return out;
    }
    while (2 * left < hi - lo)
        left *= 2;
    a = adasum(s, lo, lo + left);
    b = adasum(s, lo + left, hi);
    for (int i = 0; i < COUNT; i++)
        out.v[i] = (1 - dot(&a, &b) / (2 * dot(&a, &a))) * a.v[i] +
                   (1 - dot(&a, &b) / (2 * dot(&b, &b))) * b.v[i];
    return out;
}

MF_TEST(aggregate_adasum_matches_the_formula)
{
    for (int n = 1; n <= MOST; n++) {
        float *at[MOST];
        vector want;
        double largest = 0.0;
        shards s;

        fill(&s);
        want = adasum(&s, 0, n);
        for (int i = 0; i < MOST; i++)
            at[i] = s.x[i];
        for (int i = 0; i < COUNT; i++)
            largest = fmax(largest, fabs(want.v[i]));
        mf_aggregate_adasum(at, s.factor, n, COUNT);
        for (int i = 0; i < COUNT; i++)
            T_NEAR((double)s.x[0][i], want.v[i], 1e-6 * largest);
    }
}

MF_TEST(aggregate_adasum_adds_orthogonal_and_averages_equal_gradients)
{
    const double ones[] = { 1, 1, 1, 1 };
    float x[4][3] = { { 1, 0, 0 }, { 0, 2, 0 }, { 0, 0, 4 }, { 0, 0, 0 } };
    float y[4][3] = { { 1, 2, 3 }, { 1, 2, 3 }, { 1, 2, 3 }, { 1, 2, 3 } };
    float *at[4] = { x[0], x[1], x[2], x[3] }, *same[4] = { y[0], y[1], y[2], y[3] };

    mf_aggregate_adasum(at, ones, 4, 3);
    mf_aggregate_adasum(same, ones, 4, 3);
    for (int i = 0; i < 3; i++) {
        T_TRUE(x[0][i] == (float)(1 << i));
        T_TRUE(y[0][i] == (float)(i + 1));
    }
}

/* sum of weight[r] * mean[r] / sum of weights, where mean[r] = sum[r] * samples / n[r]. */
MF_TEST(aggregate_weights_count_means_of_members)
{
    const double weights[] = { 1, 2, 5 };
    const int64_t n[] = { 10, 0, 30 };
    const mf_aggregation a = { .how = MF_AGGREGATE_WEIGHTED, .weights = weights };

    T_NEAR(mf_aggregate_factor(&a, n, 3, 0), 1.0 / 6 * 40 / 10, 1e-12);
    T_NEAR(mf_aggregate_factor(&a, n, 3, 1), 0.0, 0.0);
    T_NEAR(mf_aggregate_factor(&a, n, 3, 2), 5.0 / 6 * 40 / 30, 1e-12);
    const double by_samples[] = { 10, 7, 30 }; /* equal to the sum */

    T_NEAR(mf_aggregate_factor(&(mf_aggregation){ .weights = by_samples }, n, 3, 2), 1.0, 0.0);
}
