/* SPDX-License-Identifier: Apache-2.0 */
/* trend.c - the trend of a noisy series and its confidence: blocks of means, linear regression,
 * quantiles. */
#include "train/loop/trend.h"

#include <math.h>

enum { BLOCKS = 32 }; /* that a line is drawn through, at most */

/* ---- series ---- */

static void trend_join(mf_bin *b, const mf_bin *with)
{
    const double n = (double)(b->n + with->n), part = (double)with->n / n;

    b->step += (with->step - b->step) * part;
    b->value += (with->value - b->value) * part;
    b->n += with->n;
}

void mf_series_add(mf_series *s, double step, double value)
{
    const mf_bin one = { step, value, 1 };

    if (s->stride == 0)
        s->stride = 1;
    if (s->open.n == 0)
        s->open = one;
    else
        trend_join(&s->open, &one);
    if (s->open.n < s->stride)
        return;
    s->bins[s->n++] = s->open;
    s->open = (mf_bin){ 0 };
    if (s->n < MF_SERIES_BINS)
        return;
    for (int i = 0; i < s->n / 2; i++) {
        s->bins[i] = s->bins[2 * i];
        trend_join(&s->bins[i], &s->bins[2 * i + 1]);
    }
    s->n /= 2;
    s->stride *= 2;
}

/* ---- trends ---- */

/* The factor by which correlated residuals of neighbours increase the variance of a slope: the sum
 * of all correlations, if each is the previous one times the first. */
static double inflation(double together, double squares, int n)
{
    double r = squares > 0.0 ? together / squares - 1.0 / sqrt((double)n) : 0.0; /* by chance */

    r = r < 0.0 ? 0.0 : r > 0.95 ? 0.95 : r;
    return (1.0 + r) / (1.0 - r);
}

/* The residuals of the line: their variance, as it affects the slope. */
static double left_over(const mf_bin *bins, int n, const mf_trend *t, double x0, double y0)
{
    double squares = 0.0, together = 0.0, last = 0.0;

    for (int i = 0; i < n; i++) {
        const double e = bins[i].value - y0 - t->slope * (bins[i].step - x0);

        squares += e * e;
        together += e * last;
        last = e;
    }
    return squares / (double)(n - 2) * inflation(together, squares, n);
}

/* The bins from `first` on in blocks of equal size; the first few may be skipped. Variation within
 * a block does not count as scatter. */
static int make_blocks(const mf_series *s, int first, mf_bin *blocks)
{
    const int size = (s->n - first + BLOCKS - 1) / BLOCKS, n = size > 0 ? (s->n - first) / size : 0;

    first = s->n - n * size;
    for (int i = 0; i < n; i++) {
        blocks[i] = s->bins[first + i * size];
        for (int k = 1; k < size; k++)
            trend_join(&blocks[i], &s->bins[first + i * size + k]);
    }
    return n;
}

mf_trend mf_series_trend(const mf_series *s, double from)
{
    double x0 = 0.0, y0 = 0.0, xx = 0.0, xy = 0.0;
    mf_trend t = { 0 };
    mf_bin bins[BLOCKS];
    int first = s->n;

    while (first > 0 && s->bins[first - 1].step >= from)
        first--;
    t.n = make_blocks(s, first, bins);
    if (t.n < MF_TREND_BLOCKS)
        return t;
    t.from = bins[0].step;
    t.to = bins[t.n - 1].step;
    for (int i = 0; i < t.n; i++) {
        x0 += bins[i].step / t.n;
        y0 += bins[i].value / t.n;
    }
    for (int i = 0; i < t.n; i++) {
        xx += (bins[i].step - x0) * (bins[i].step - x0);
        xy += (bins[i].step - x0) * (bins[i].value - y0);
    }
    t.slope = xy / xx;
    t.value = y0 + t.slope * (t.to - x0);
    t.error = sqrt(left_over(bins, t.n, &t, x0, y0) / xx);
    return t;
}

/* ---- quantiles ---- */

static double upper_tail(double z)
{
    return 0.5 * erfc(z / sqrt(2.0));
}

/* Newton's method on the logarithm of the tail, which is nearly a parabola. */
double mf_normal_quantile(double probability)
{
    const double target = log(probability), by_root = 1.0 / sqrt(2.0 * acos(-1.0));
    double z = sqrt(-2.0 * target);

    for (int i = 0; i < 30; i++) {
        const double tail = upper_tail(z);

        z += (log(tail) - target) * tail / (by_root * exp(-0.5 * z * z));
    }
    return z;
}

/* Student's t is nearly a normal variable after this change of scale (Gaver and Kafadar 1984). It
 * is at most a little too large: by 6 % for 6 degrees of freedom and one in ten million. */
double mf_student_quantile(double z, double freedom)
{
    const double g = (freedom - 1.5) / ((freedom - 1.0) * (freedom - 1.0));

    return sqrt(freedom * (exp(g * z * z) - 1.0));
}
