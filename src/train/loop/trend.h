/* SPDX-License-Identifier: Apache-2.0 */
/* trend.h - noisy numbers along a curve: its trend, and the certainty of that.
 *
 * A series keeps means of neighbouring numbers, so that its size is fixed. A trend is a straight
 * line through its last part, with the standard error of its slope. Scatter is estimated from the
 * residuals, and counts more where neighbouring residuals have the same sign. */
#ifndef MF_TRAIN_LOOP_TREND_H
#define MF_TRAIN_LOOP_TREND_H

#include <stdbool.h>
#include <stdint.h>

enum { MF_SERIES_BINS = 512 };

typedef struct mf_bin {
    double step, value; /* means */
    int64_t n; /* numbers in it */
} mf_bin;

typedef struct mf_series {
    mf_bin bins[MF_SERIES_BINS]; /* all of `stride` numbers */
    int n;
    int64_t stride; /* 0: no number yet */
    mf_bin open; /* that gets the next numbers */
} mf_series;

/* Steps ascend. */
void mf_series_add(mf_series *s, double step, double value);

typedef struct mf_trend {
    int n; /* blocks of bins; below MF_TREND_BLOCKS the other fields are not set */
    double from, to; /* steps */
    double slope; /* by step */
    double error; /* standard error of the slope */
    double value; /* of the line at its end */
} mf_trend;

enum { MF_TREND_BLOCKS = 8 };

/* Of the bins from this step on. */
mf_trend mf_series_trend(const mf_series *s, double from);

/* z such that a normal variable exceeds it with this probability, below a half. */
double mf_normal_quantile(double probability);
/* The same for Student's distribution with so many degrees of freedom, given z. */
double mf_student_quantile(double z, double freedom);

#endif
