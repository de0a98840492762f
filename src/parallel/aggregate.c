/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/aggregate.h"

#include "base/mem.h"

#include <math.h>

double mf_aggregate_factor(const mf_aggregation *a, const int64_t *n, int size, int rank)
{
    double weights = 0.0;
    int64_t samples = 0;

    for (int r = 0; r < size; r++) {
        weights += n[r] > 0 ? a->weights[r] : 0.0; /* who has no samples has nothing to say */
        samples += n[r];
    }
    if (n[rank] == 0 || weights == 0.0)
        return 0.0;
    return a->weights[rank] / weights * (double)samples / (double)n[rank];
}

/* Few values: insertion is fine. */
static void sort(double *v, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const double x = v[i];
        int64_t at = i;

        if (isnan(x))
            continue;
        for (; at > 0 && (v[at - 1] > x || isnan(v[at - 1])); at--)
            v[at] = v[at - 1];
        v[at] = x;
    }
}

static double middle(const double *v, int64_t n)
{
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2.0;
}

/* From the smallest to the largest, so that the order of shards does not show. */
static double trimmed(const double *v, int64_t n, double trim)
{
    const int64_t out = (int64_t)(trim * (double)n);
    double sum = 0.0;

    for (int64_t i = out; i < n - out; i++)
        sum += v[i];
    return sum / (double)(n - 2 * out);
}

mf_status mf_aggregate_robust(const mf_aggregation *a, const float *const *x, const double *factor,
                              int64_t n, int64_t count, float *out)
{
    double *v = mf_calloc(n, sizeof *v);

    if (!v)
        return MF_NOMEM("gradients");
    for (int64_t i = 0; i < count; i++) {
        for (int64_t s = 0; s < n; s++)
            v[s] = (double)x[s][i] * factor[s];
        sort(v, n);
        out[i] = (float)(a->how == MF_AGGREGATE_MEDIAN ? middle(v, n) : trimmed(v, n, a->trim));
    }
    mf_free(v);
    return MF_OK;
}
