/* SPDX-License-Identifier: Apache-2.0 */
/* match.h - matches two lists with the same names in different order. */
#ifndef MF_DATA_MATCH_H
#define MF_DATA_MATCH_H

#include "base/status.h"

/* One name of a list. */
typedef struct mf_match_name {
    const char *name; /* borrowed */
    int64_t at; /* its index in the list */
} mf_match_name;

/* Sets places[given.at] = wanted.at for each name of `wanted`. Duplicate names match in order.
 * Sorts both lists. *lacks: the first of `wanted` that is not in `given`, *more: the first of
 * `given` that is not in `wanted`; -1: none. */
void mf_match(mf_match_name *wanted, int64_t n_wanted, mf_match_name *given, int64_t n_given,
              int64_t *places, int64_t *lacks, int64_t *more);

#endif
