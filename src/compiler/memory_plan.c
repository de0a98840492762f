/* SPDX-License-Identifier: Apache-2.0 */
/* memory_plan.c - lifetime-based buffer assignment: places items with disjoint lifetimes at the
 * same offsets. Two heuristics, of which the better result is used:
 *
 *   by time     each item takes the smallest hole left by earlier ones
 *   by size     largest first; each takes the lowest offset without an overlap with items that live
 *               at the same time. Quadratic, so only for a few thousand items
 *
 * The second is skipped if the first has almost no holes at its peak. */
#include "compiler/memory_plan.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 3000 };

/* ---- by time ---- */

typedef struct hole {
    int64_t offset, bytes;
} hole;

typedef struct memory_plan_block {
    hole *holes; /* free ranges by offset */
    int64_t n, cap, top; /* top: end of the highest item so far */
} memory_plan_block;

static int64_t take_hole(memory_plan_block *b, int64_t bytes)
{
    int64_t best = -1, offset;

    for (int64_t i = 0; i < b->n; i++) {
        if (b->holes[i].bytes >= bytes && (best < 0 || b->holes[i].bytes < b->holes[best].bytes))
            best = i;
    }
    if (best < 0) {
        /* Extend the last hole if it reaches the end. */
        if (b->n > 0 && b->holes[b->n - 1].offset + b->holes[b->n - 1].bytes == b->top) {
            offset = b->holes[--b->n].offset;
        } else {
            offset = b->top;
        }
        b->top = offset + bytes;
        return offset;
    }
    offset = b->holes[best].offset;
    b->holes[best].offset += bytes;
    b->holes[best].bytes -= bytes;
    if (b->holes[best].bytes == 0) {
        memmove(&b->holes[best], &b->holes[best + 1], (size_t)(b->n - best - 1) * sizeof *b->holes);
        b->n--;
    }
    return offset;
}

static mf_status give_hole(memory_plan_block *b, int64_t offset, int64_t bytes)
{
    int64_t at = 0;

    while (at < b->n && b->holes[at].offset < offset)
        at++;
    if (at > 0 && b->holes[at - 1].offset + b->holes[at - 1].bytes == offset) {
        b->holes[at - 1].bytes += bytes;
        if (at < b->n && offset + bytes == b->holes[at].offset) {
            b->holes[at - 1].bytes += b->holes[at].bytes;
            memmove(&b->holes[at], &b->holes[at + 1], (size_t)(b->n - at - 1) * sizeof *b->holes);
            b->n--;
        }
        return MF_OK;
    }
    if (at < b->n && offset + bytes == b->holes[at].offset) {
        b->holes[at].offset = offset;
        b->holes[at].bytes += bytes;
        return MF_OK;
    }
    MF_TRY(mf_grow(&b->holes, &b->cap, b->n + 1, sizeof *b->holes));
    memmove(&b->holes[at + 1], &b->holes[at], (size_t)(b->n - at) * sizeof *b->holes);
    b->holes[at] = (hole){ offset, bytes };
    b->n++;
    return MF_OK;
}

/* Lists of items per moment, linked through `next`. */
static void list_by(const mf_memory_plan_item *l, int64_t n, bool live_from, int *first, int *next,
                    int n_moments)
{
    for (int m = 0; m < n_moments; m++)
        first[m] = -1;
    for (int i = (int)n - 1; i >= 0; i--) {
        const int m = live_from ? l[i].live_from : l[i].live_to;

        next[i] = first[m];
        first[m] = i;
    }
}

/* *peak: bytes of the items alive at the worst moment. */
static mf_status place_by_time(mf_memory_plan_item *l, int64_t n, int n_moments,
                               memory_plan_block *b, int64_t *peak)
{
    int *live_from = mf_calloc(n_moments, sizeof *live_from),
        *live_to = mf_calloc(n_moments, sizeof *live_to);
    int *next_born = mf_calloc(n, sizeof *next_born), *next_dies = mf_calloc(n, sizeof *next_dies);
    mf_status st = live_from && live_to && next_born && next_dies ? MF_OK : MF_NOMEM("a plan");
    int64_t live = 0;

    if (st == MF_OK) {
        list_by(l, n, true, live_from, next_born, n_moments);
        list_by(l, n, false, live_to, next_dies, n_moments);
    }
    for (int m = 0; st == MF_OK && m < n_moments; m++) {
        for (int i = live_from[m]; i >= 0; i = next_born[i]) {
            l[i].offset = take_hole(b, l[i].bytes);
            live += l[i].bytes;
            if (b->top > MF_MEMORY_PLAN_MAX) { /* prevents overflow in sums of offsets and bytes */
                st = MF_FAIL(MF_RESOURCE_EXHAUSTED, "the step needs more memory than the machine "
                                                    "has");
                break;
            }
        }
        *peak = live > *peak ? live : *peak;
        for (int i = live_to[m]; i >= 0 && st == MF_OK; i = next_dies[i]) {
            st = give_hole(b, l[i].offset, l[i].bytes);
            live -= l[i].bytes;
        }
    }
    mf_free(live_from);
    mf_free(live_to);
    mf_free(next_born);
    mf_free(next_dies);
    return st;
}

/* ---- by size ---- */

static int by_size(const void *a, const void *b)
{
    const mf_memory_plan_item *x = *(const mf_memory_plan_item *const *)a,
                              *y = *(const mf_memory_plan_item *const *)b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* placed: sorted by offset. Returns the position of the new item among them. */
static int64_t lowest_place(mf_memory_plan_item *const *placed, int64_t n, mf_memory_plan_item *l)
{
    int64_t at = n;

    l->offset = 0;
    for (int64_t i = 0; i < n; i++) {
        const mf_memory_plan_item *o = placed[i];

        if (o->live_to < l->live_from || l->live_to < o->live_from)
            continue;
        if (o->offset >= l->offset + l->bytes)
            break;
        if (o->offset + o->bytes > l->offset)
            l->offset = o->offset + o->bytes;
    }
    while (at > 0 && placed[at - 1]->offset > l->offset)
        at--;
    return at;
}

static mf_status place_by_size(mf_memory_plan_item *l, int64_t n, int64_t *top)
{
    mf_memory_plan_item **order = mf_calloc(n, sizeof *order),
                        **placed = mf_calloc(n, sizeof *placed);
    const bool ok = order && placed;

    *top = 0;
    for (int64_t i = 0; ok && i < n; i++)
        order[i] = &l[i];
    if (ok)
        qsort(order, (size_t)n, sizeof *order, by_size);
    for (int64_t i = 0; ok && i < n; i++) {
        const int64_t at = lowest_place(placed, i, order[i]);

        memmove(&placed[at + 1], &placed[at], (size_t)(i - at) * sizeof *placed);
        placed[at] = order[i];
        if (order[i]->offset + order[i]->bytes > *top)
            *top = order[i]->offset + order[i]->bytes;
    }
    mf_free(order);
    mf_free(placed);
    return ok ? MF_OK : MF_NOMEM("a plan");
}

/* ---- selection ---- */

/* *top: the best result so far. */
static mf_status try_by_size(mf_memory_plan_item *items, int64_t n, int64_t *top)
{
    mf_memory_plan_item *other = mf_calloc(n, sizeof *other);
    int64_t reached = 0;
    mf_status st = other ? MF_OK : MF_NOMEM("a plan");

    if (st == MF_OK) {
        memcpy(other, items, (size_t)n * sizeof *other);
        st = place_by_size(other, n, &reached);
    }
    if (st == MF_OK && reached < *top) {
        memcpy(items, other, (size_t)n * sizeof *other);
        *top = reached;
    }
    mf_free(other);
    return st;
}

mf_status mf_memory_plan_place(mf_memory_plan_item *items, int64_t n, int n_moments,
                               int64_t *block_bytes)
{
    memory_plan_block b = { 0 };
    int64_t peak = 0;
    const mf_status st = place_by_time(items, n, n_moments, &b, &peak);

    *block_bytes = b.top;
    mf_free(b.holes);
    if (st == MF_OK && n <= MANY && b.top > peak + peak / 64)
        return try_by_size(items, n, block_bytes);
    return st;
}
