/* SPDX-License-Identifier: Apache-2.0 */
/* memory_plan.h - assigns items with limited lifetimes to offsets in one block of memory. */
#ifndef MF_COMPILER_MEMORY_PLAN_H
#define MF_COMPILER_MEMORY_PLAN_H

#include "base/status.h"

#include <stdint.h>

#define MF_MEMORY_PLAN_MAX (INT64_C(1) << 46) /* maximum bytes of a block, and of an item */

typedef struct mf_memory_plan_item {
    int live_from, live_to; /* moments, both inclusive */
    int64_t bytes; /* a multiple of the alignment */
    int64_t offset; /* out */
} mf_memory_plan_item;

/* Assigns an offset to each of n items such that items alive at the same time do not overlap.
 * Moments are 0 to n_moments - 1. *block: bytes for all of them. Fails: RESOURCE_EXHAUSTED (beyond
 * the maximum). */
MF_MUST mf_status mf_memory_plan_place(mf_memory_plan_item *items, int64_t n, int n_moments,
                                       int64_t *block);

#endif
