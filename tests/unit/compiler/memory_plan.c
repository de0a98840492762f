/* SPDX-License-Identifier: Apache-2.0 */
/* memory_plan.c - items with overlapping lifetimes do not overlap in memory, and holes are used. */
#include "compiler/memory_plan.h"

#include "mf_test.h"

static void check_apart(const mf_memory_plan_item *l, int64_t n, int64_t block)
{
    for (int64_t i = 0; i < n; i++) {
        T_TRUE(l[i].offset >= 0 && l[i].offset + l[i].bytes <= block);
        for (int64_t k = 0; k < i; k++) {
            if (l[i].live_to >= l[k].live_from && l[k].live_to >= l[i].live_from &&
                l[i].offset < l[k].offset + l[k].bytes && l[k].offset < l[i].offset + l[i].bytes)
                T_FAIL("items %lld and %lld overlap", (long long)k, (long long)i);
        }
    }
}

MF_TEST(memory_plan_items_do_not_overlap)
{
    enum { MOST = 400, MOMENTS = 60 };
    mf_memory_plan_item l[MOST];
    uint64_t seed = 1;

    for (int round = 0; round < 50; round++) {
        const int64_t n = 1 + round * 8 % MOST;
        int64_t block, most = 0;

        for (int64_t i = 0; i < n; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            l[i].live_from = (int)(seed >> 40) % MOMENTS;
            l[i].live_to = l[i].live_from + (int)(seed >> 20 & 15);
            l[i].live_to = l[i].live_to < MOMENTS ? l[i].live_to : MOMENTS - 1;
            l[i].bytes = 64 * (1 + (int64_t)(seed >> 50 & 31));
        }
        T_OK(mf_memory_plan_place(l, n, MOMENTS, &block));
        check_apart(l, n, block);
        for (int m = 0; m < MOMENTS; m++) {
            int64_t live = 0;

            for (int64_t i = 0; i < n; i++)
                live += l[i].live_from <= m && m <= l[i].live_to ? l[i].bytes : 0;
            most = live > most ? live : most;
        }
        T_TRUE(block >= most && block <= most * 3 / 2);
    }
}

/* If items are placed in the order of time, both holes are too small for the last item. */
MF_TEST(memory_plan_places_by_size_if_that_is_better)
{
    mf_memory_plan_item l[] = { { .live_from = 0, .live_to = 0, .bytes = 64 },
                                { .live_from = 0, .live_to = 2, .bytes = 64 },
                                { .live_from = 0, .live_to = 0, .bytes = 64 },
                                { .live_from = 0, .live_to = 2, .bytes = 64 },
                                { .live_from = 1, .live_to = 2, .bytes = 128 } };
    int64_t block;

    T_OK(mf_memory_plan_place(l, 5, 3, &block));
    check_apart(l, 5, block);
    T_EQ(block, 256);
}

MF_TEST(memory_plan_without_items_needs_no_memory)
{
    int64_t block;

    T_OK(mf_memory_plan_place(NULL, 0, 0, &block));
    T_EQ(block, 0);
}
