/* SPDX-License-Identifier: Apache-2.0 */
/* int_ranges.h - a set of integers as sorted ranges with gaps between them. */
#ifndef MF_BASE_INT_RANGES_H
#define MF_BASE_INT_RANGES_H

#include "base/status.h"

#include <stdint.h>

typedef struct mf_range {
    int64_t begin, end; /* end is exclusive */
} mf_range;

typedef struct mf_ranges {
    mf_range *at;
    int64_t n, cap;
} mf_ranges;

void mf_ranges_deinit(mf_ranges *r);
/* An empty range adds nothing. */
MF_MUST mf_status mf_ranges_add(mf_ranges *r, int64_t begin, int64_t end);
MF_MUST mf_status mf_ranges_copy(const mf_ranges *from, mf_ranges *to);
int64_t mf_ranges_count(const mf_ranges *r);
/* How many elements are smaller than x. */
int64_t mf_ranges_before(const mf_ranges *r, int64_t x);
bool mf_ranges_equal(const mf_ranges *a, const mf_ranges *b);

#endif
