/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.h - the distribution of values, in TensorFlow's buckets: powers of 1.1 from 1e-12 to
 * 1e20, both signs, and 0. */
#ifndef MF_FORMATS_HISTOGRAM_H
#define MF_FORMATS_HISTOGRAM_H

#include "tensor/tensor.h"

enum { MF_HISTOGRAM_BUCKETS = 1600 }; /* maximum */

typedef struct mf_histogram {
    double min, max, num, sum, sum_squares;
    double limit[MF_HISTOGRAM_BUCKETS]; /* upper ends, ascending */
    double count[MF_HISTOGRAM_BUCKETS]; /* number of values below this limit and not below the
                                           previous one */
    int n;
} mf_histogram;

/* Values that are not finite are skipped. Types that are not numeric: an empty histogram.
 * Of adjacent empty buckets only the last is kept, as TensorFlow writes them. */
void mf_histogram_of(const mf_tensor *values, mf_histogram *out);

#endif
