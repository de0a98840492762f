/* SPDX-License-Identifier: Apache-2.0 */
/* match.h - two lists of names with the same names, each in its own order. */
#ifndef MF_DATA_MATCH_H
#define MF_DATA_MATCH_H

#include "base/status.h"

/* One name of a list. */
typedef struct mf_match_name {
    const char *name; /* borrowed */
    int64_t at; /* its place in the list */
} mf_match_name;

/* Write for each of `wanted` where it stands among `given` to places[given.at] = wanted.at. Of
 * equal names the first goes with the first. Sorts both lists. *lacks: the first of `wanted` that
 * is not given, *more: the first of `given` that is not wanted; -1: there is none. */
void mf_match(mf_match_name *wanted, int64_t n_wanted, mf_match_name *given, int64_t n_given,
              int64_t *places, int64_t *lacks, int64_t *more);

#endif
