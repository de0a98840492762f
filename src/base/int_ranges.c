/* SPDX-License-Identifier: Apache-2.0 */
/* int_ranges.c - sets of integers as sorted ranges: insertion, copy, count, comparison. */
#include "base/int_ranges.h"

#include "base/mem.h"

#include <string.h>

void mf_ranges_deinit(mf_ranges *r)
{
    mf_free(r->at);
    *r = (mf_ranges){ 0 };
}

mf_status mf_ranges_add(mf_ranges *r, int64_t begin, int64_t end)
{
    int64_t first = 0, last;

    if (begin >= end)
        return MF_OK;
    MF_TRY(mf_grow(&r->at, &r->cap, r->n + 1, sizeof *r->at));
    while (first < r->n && r->at[first].end < begin)
        first++;
    for (last = first; last < r->n && r->at[last].begin <= end; last++) { /* merge these ranges */
        begin = r->at[last].begin < begin ? r->at[last].begin : begin;
        end = r->at[last].end > end ? r->at[last].end : end;
    }
    memmove(r->at + first + 1, r->at + last, (size_t)(r->n - last) * sizeof *r->at);
    r->at[first] = (mf_range){ begin, end };
    r->n += 1 - (last - first);
    return MF_OK;
}

mf_status mf_ranges_copy(const mf_ranges *from, mf_ranges *to)
{
    *to = (mf_ranges){ 0 };
    MF_TRY(mf_grow(&to->at, &to->cap, from->n + 1, sizeof *to->at));
    for (; to->n < from->n; to->n++)
        to->at[to->n] = from->at[to->n];
    return MF_OK;
}

int64_t mf_ranges_count(const mf_ranges *r)
{
    return mf_ranges_before(r, INT64_MAX);
}

int64_t mf_ranges_before(const mf_ranges *r, int64_t x)
{
    int64_t n = 0;

    for (int64_t i = 0; i < r->n && r->at[i].begin < x; i++)
        n += (r->at[i].end < x ? r->at[i].end : x) - r->at[i].begin;
    return n;
}

bool mf_ranges_equal(const mf_ranges *a, const mf_ranges *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at) == 0);
}
