/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.c - histograms of values in TensorFlow's buckets, for event files. */
#include "formats/histogram.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Lookup of a value's bucket: its exponent and the first 4 bits of its mantissa select a cell. A
 * cell spans a factor of at most 17/16, which is less than a bucket, so at most one limit is inside
 * it and one comparison decides. */
enum { CELL_SHIFT = 48, CELLS = 1 << 11 };

typedef struct buckets {
    double limit[MF_HISTOGRAM_BUCKETS / 2]; /* of positive values */
    int n;
    uint64_t first_cell; /* the cell of the lowest limit; all values below it are in bucket 0 */
    int16_t first[CELLS]; /* by cell: the first bucket whose limit may be above */
} buckets;

static uint64_t histogram_cell_of(double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    return bits >> CELL_SHIFT;
}

static void buckets_init(buckets *b)
{
    double v = 1e-12;
    int at = 0;

    b->n = 0;
    while (v < 1e20) {
        b->limit[b->n++] = v;
        v *= 1.1;
    }
    b->limit[b->n++] = DBL_MAX;
    b->first_cell = histogram_cell_of(b->limit[0]);
    for (int i = 0; i < CELLS; i++) {
        const uint64_t bits = (b->first_cell + (uint64_t)i) << CELL_SHIFT;
        double low;

        memcpy(&low, &bits, sizeof low);
        while (at < b->n - 1 && b->limit[at] <= low)
            at++;
        b->first[i] = (int16_t)at;
    }
}

/* v >= 0: the first bucket whose limit is above it. */
static inline int bucket_above(const buckets *b, double v)
{
    const uint64_t cell = histogram_cell_of(v);
    int at;

    if (cell < b->first_cell)
        return 0;
    at = cell - b->first_cell < CELLS ? b->first[cell - b->first_cell] : b->n - 1;
    return at + (at < b->n - 1 && b->limit[at] <= v);
}

/* v > 0: the first bucket whose limit is not below it; -v uses its mirror image. */
static inline int bucket_at(const buckets *b, double v)
{
    const int above = bucket_above(b, v);

    return above > 0 && b->limit[above - 1] >= v ? above - 1 : above;
}

/* Counts over all buckets: the negative ones, most negative first; the bucket that ends at 0; the
 * positive ones. */
static void histogram_add_values(const buckets *b, double v, double *counts, mf_histogram *h)
{
    int at;

    if (!isfinite(v))
        return;
    if (v >= 0)
        at = b->n + 1 + bucket_above(b, fabs(v)); /* -0 is 0 */
    else
        at = b->n - bucket_at(b, -v);
    counts[at] += 1;
    h->min = v < h->min ? v : h->min;
    h->max = v > h->max ? v : h->max;
    h->num += 1;
    h->sum += v;
    h->sum_squares += v * v;
}

static double limit_at(const buckets *b, int i)
{
    if (i == b->n)
        return 0.0;
    return i < b->n ? -b->limit[b->n - 1 - i] : b->limit[i - b->n - 1];
}

static void compact(const buckets *b, const double *counts, mf_histogram *h)
{
    const int n = 2 * b->n + 1;

    for (int i = 0; i < n;) {
        double end = limit_at(b, i), count = counts[i];

        for (i++; count <= 0 && i < n && counts[i] <= 0; i++)
            end = limit_at(b, i);
        h->limit[h->n] = end;
        h->count[h->n++] = count;
    }
}

void mf_histogram_of(const mf_tensor *values, mf_histogram *out)
{
    double counts[MF_HISTOGRAM_BUCKETS] = { 0 };
    buckets b;

    out->min = DBL_MAX;
    out->max = -DBL_MAX;
    out->num = out->sum = out->sum_squares = 0.0;
    out->n = 0;
    buckets_init(&b);
    if (values->dtype == MF_DTYPE_F32) {
        for (int64_t i = 0; i < values->count; i++)
            histogram_add_values(&b, (double)((const float *)values->data)[i], counts, out);
    } else if (mf_dtype_is_plain(values->dtype)) {
        for (int64_t i = 0; i < values->count; i++)
            histogram_add_values(&b, mf_tensor_float_at(values, i), counts, out);
    }
    compact(&b, counts, out);
}
