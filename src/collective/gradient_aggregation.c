/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_aggregation.c - aggregation rules for gradients of shards: mean, median, trimmed mean,
 * Adasum. */
#include "collective/gradient_aggregation.h"

#include "base/mem.h"

#include <string.h>

static const char *const NAMES[] = {
    [MF_AGGREGATE_MEAN] = "mean",         [MF_AGGREGATE_SUM] = "sum",
    [MF_AGGREGATE_WEIGHTED] = "weighted", [MF_AGGREGATE_TRIMMED_MEAN] = "trimmed_mean",
    [MF_AGGREGATE_MEDIAN] = "median",     [MF_AGGREGATE_ADASUM] = "adasum"
};

const char *mf_aggregate_name(mf_aggregate how)
{
    return NAMES[how];
}

bool mf_aggregate_find(const char *name, mf_aggregate *out)
{
    for (int i = 0; i < MF_COUNT(NAMES); i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            *out = (mf_aggregate)i;
            return true;
        }
    }
    return false;
}

double mf_aggregate_factor(const mf_aggregation *a, const int64_t *n, int size, int rank)
{
    double weights = 0.0;
    int64_t samples = 0;

    for (int r = 0; r < size; r++) {
        weights += n[r] > 0 ? a->weights[r] : 0.0; /* members without samples do not count */
        samples += n[r];
    }
    if (n[rank] == 0 || weights == 0.0)
        return 0.0;
    return a->weights[rank] / weights * (double)samples / (double)n[rank];
}

enum { BLOCK = 64 }; /* elements sorted together, for vectorisation */

/* Sorts v[s][i] and v[s + 1][i]. */
static void gradient_aggregation_order(double *restrict a, double *restrict b)
{
    for (int i = 0; i < BLOCK; i++) {
        const double x = a[i], y = b[i];
        const bool swap = y < x || x != x; /* NaN sorts after all numbers */

        a[i] = swap ? y : x;
        b[i] = swap ? x : y;
    }
}

/* Odd-even transposition sort: there are few shards. */
static void gradient_aggregation_sort(double (*v)[BLOCK], int64_t n)
{
    for (int64_t round = 0; round < n; round++) {
        for (int64_t s = round % 2; s + 1 < n; s += 2)
            gradient_aggregation_order(v[s], v[s + 1]);
    }
}

static double gradient_aggregation_median(double (*v)[BLOCK], int64_t n, int64_t i)
{
    return n % 2 ? v[n / 2][i] : (v[n / 2 - 1][i] + v[n / 2][i]) / 2.0;
}

/* Sums from the smallest to the largest, so the result is independent of the order of shards. */
static double gradient_aggregation_trimmed(double (*v)[BLOCK], int64_t n, int64_t i, double trim)
{
    const int64_t wanted = (int64_t)(trim * (double)n * (1.0 + 1e-7)); /* 0.35 was converted from
                                                                          float */
    const int64_t out = 2 * wanted < n ? wanted : (n - 1) / 2;
    double sum = 0.0;

    for (int64_t s = out; s < n - out; s++)
        sum += v[s][i];
    return sum / (double)(n - 2 * out);
}

mf_status mf_aggregate_robust(const mf_aggregation *a, const float *const *x, const double *factor,
                              int64_t n, int64_t count, float *out)
{
    double(*v)[BLOCK] = mf_calloc(n, sizeof *v);

    if (!v)
        return MF_NOMEM("gradients");
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t m = count - at < BLOCK ? count - at : BLOCK;

        for (int64_t s = 0; s < n; s++) {
            for (int64_t i = 0; i < m; i++)
                v[s][i] = (double)x[s][at + i] * factor[s];
        }
        gradient_aggregation_sort(v, n);
        for (int64_t i = 0; i < m; i++)
            out[at + i] = (float)(a->how == MF_AGGREGATE_MEDIAN
                                      ? gradient_aggregation_median(v, n, i)
                                      : gradient_aggregation_trimmed(v, n, i, a->trim));
    }
    mf_free(v);
    return MF_OK;
}

/* ---- Adasum ---- */

typedef struct products {
    double aa, ab, bb;
} products;

enum { LANES = 8 }; /* independent sums, for vectorisation */

/* Always in the same order. */
static products gradient_aggregation_multiply(const float *restrict a, const float *restrict b,
                                              int64_t count)
{
    double aa[LANES] = { 0 }, ab[LANES] = { 0 }, bb[LANES] = { 0 };
    products p = { 0 };

    for (int64_t i = 0; i < count; i += LANES) {
        const int m = count - i < LANES ? (int)(count - i) : LANES;

        for (int k = 0; k < m; k++) {
            const double x = (double)a[i + k], y = (double)b[i + k];

            aa[k] += x * x;
            ab[k] += x * y;
            bb[k] += y * y;
        }
    }
    for (int k = 0; k < LANES; k++) {
        p.aa += aa[k];
        p.ab += ab[k];
        p.bb += bb[k];
    }
    return p;
}

/* Squares of nonzero floats do not underflow as doubles. */
static double coefficient(double product, double square)
{
    return square == 0.0 ? 1.0 : 1.0 - product / (2.0 * square);
}

static void gradient_aggregation_combine(float *restrict a, const float *restrict b, int64_t count)
{
    const products p = gradient_aggregation_multiply(a, b, count);
    const double of_a = coefficient(p.ab, p.aa), of_b = coefficient(p.ab, p.bb);

    for (int64_t i = 0; i < count; i++)
        a[i] = (float)(of_a * (double)a[i] + of_b * (double)b[i]);
}

void mf_aggregate_adasum(float *const *x, const double *factor, int64_t n, int64_t count)
{
    for (int64_t s = 0; s < n; s++) {
        for (int64_t i = 0; i < count; i++)
            x[s][i] = (float)((double)x[s][i] * factor[s]);
    }
    for (int64_t stride = 1; stride < n; stride *= 2) {
        for (int64_t s = 0; s + stride < n; s += 2 * stride)
            gradient_aggregation_combine(x[s], x[s + stride], count);
    }
}
