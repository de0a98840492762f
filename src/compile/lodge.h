/* SPDX-License-Identifier: Apache-2.0 */
/* lodge.h - things that live for a while share one block of memory. */
#ifndef MF_COMPILE_LODGE_H
#define MF_COMPILE_LODGE_H

#include "base/status.h"

#include <stdint.h>

#define MF_LODGE_MOST (INT64_C(1) << 46) /* bytes of a block; a lodger has no more than that */

typedef struct mf_lodger {
    int born, dies; /* moments, both its own */
    int64_t bytes; /* a multiple of what addresses are to be */
    int64_t offset; /* out */
} mf_lodger;

/* A place for each, such that no two that live at the same time overlap. n lodgers, moments from 0
 * to n_moments - 1. *block: bytes for all of them. RESOURCE_EXHAUSTED beyond MF_LODGE_MOST. */
MF_MUST mf_status mf_lodge(mf_lodger *lodgers, int64_t n, int n_moments, int64_t *block);

#endif
