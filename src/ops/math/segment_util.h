/* SPDX-License-Identifier: Apache-2.0 */
/* segment_util.h - combines rows of a matrix into rows of another, by ids. */
#ifndef MF_OPS_MATH_SEGMENT_UTIL_H
#define MF_OPS_MATH_SEGMENT_UTIL_H

#include "ops/control/grad_util.h"

typedef enum mf_segment_op {
    MF_SEGMENT_SUM,
    MF_SEGMENT_PROD,
    MF_SEGMENT_MAX,
    MF_SEGMENT_MIN
} mf_segment_op;
typedef enum mf_segment_norm { MF_NORM_NONE, MF_NORM_MEAN, MF_NORM_SQRT } mf_segment_norm;

/* out[to[i]] combines data[from[i]] over all i in order; ids below 0 are skipped. All ids have been
 * checked. */
typedef struct mf_segments {
    mf_segment_op op;
    mf_segment_norm norm; /* divides each output row by (the square root of) its number of inputs */
    bool gaps_are_zero; /* rows without ids are 0 instead of the neutral element (Max, Min) */
    const mf_tensor *data;
    mf_tensor *out;
    int64_t n, inner; /* ids; elements of a row */
    const int64_t *to;
    const int64_t *from; /* NULL: from[i] is i */
    const double *scale; /* NULL, or a factor for each i (Sum of floats) */
} mf_segments;

MF_MUST mf_status mf_segments_run(mf_kernel *k, const mf_segments *s);

/* Ids of any integer type as int64, in new storage. */
MF_MUST mf_status mf_segment_ids(const mf_tensor *t, mf_tensor *out);
/* Checks that ids are ascending and start at 0 or above. */
MF_MUST mf_status mf_segment_check_sorted(const int64_t *ids, int64_t n);

#endif
