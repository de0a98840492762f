/* SPDX-License-Identifier: Apache-2.0 */
/* match.c - matches two lists of names in different order. */
#include "data/match.h"

#include <stdlib.h>
#include <string.h>

static int match_by_name(const void *a, const void *b)
{
    const mf_match_name *x = a, *y = b;
    const int order = strcmp(x->name, y->name);

    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

static void keep_first(int64_t at, int64_t *first)
{
    if (*first < 0 || at < *first)
        *first = at;
}

void mf_match(mf_match_name *wanted, int64_t n_wanted, mf_match_name *given, int64_t n_given,
              int64_t *places, int64_t *lacks, int64_t *more)
{
    int64_t i = 0, k = 0;

    *lacks = *more = -1;
    qsort(wanted, (size_t)n_wanted, sizeof *wanted, match_by_name);
    qsort(given, (size_t)n_given, sizeof *given, match_by_name);
    while (i < n_wanted || k < n_given) {
        const int order = i == n_wanted  ? 1
                          : k == n_given ? -1
                                         : strcmp(wanted[i].name, given[k].name);

        if (order == 0)
            places[given[k++].at] = wanted[i++].at;
        else if (order < 0)
            keep_first(wanted[i++].at, lacks);
        else
            keep_first(given[k++].at, more);
    }
}
