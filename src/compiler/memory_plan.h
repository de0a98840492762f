/* SPDX-License-Identifier: Apache-2.0 */
/* memory_plan.h - things that live for a while share one block of memory. */
#ifndef MF_COMPILER_MEMORY_PLAN_H
#define MF_COMPILER_MEMORY_PLAN_H

#include "base/status.h"

#include <stdint.h>

#define MF_LODGE_MOST (INT64_C(1) << 46) /* bytes of a block; a lodger has no more than that */

typedef struct mf_memory_plan_item {
    int born, dies; /* moments, both its own */
    int64_t bytes; /* a multiple of what addresses are to be */
    int64_t offset; /* out */
} mf_memory_plan_item;

/* A place for each, such that no two that live at the same time overlap. n lodgers, moments from 0
 * to n_moments - 1. *block: bytes for all of them. RESOURCE_EXHAUSTED beyond MF_LODGE_MOST. */
MF_MUST mf_status mf_memory_plan_place(mf_memory_plan_item *lodgers, int64_t n, int n_moments,
                                       int64_t *block);

#endif
