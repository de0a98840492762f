/* SPDX-License-Identifier: Apache-2.0 */
/* int_ranges.c - sets of integers as ranges, compared with a plain array. */
#include "base/int_ranges.h"

#include "mf_test.h"

/* Compared with a bitmap. */
MF_TEST(ranges_contain_exactly_what_was_added)
{
    enum { N = 40, TIMES = 200 };
    uint64_t seed = 7;

    for (int t = 0; t < TIMES; t++) {
        bool in[N] = { false };
        mf_ranges r = { 0 }, copy;

        for (int i = 0; i < t % 7; i++) {
            int64_t begin, end;

            seed = seed * 6364136223846793005u + 1442695040888963407u;
            begin = (int64_t)(seed >> 33) % N;
            end = begin + (int64_t)(seed >> 13) % 9 - 1;
            end = end < N ? end : N;
            T_OK(mf_ranges_add(&r, begin, end));
            for (int64_t k = begin; k < end; k++)
                in[k] = true;
        }
        for (int64_t k = 0, before = 0; k < N; before += in[k++])
            T_EQ(mf_ranges_before(&r, k), before);
        for (int64_t i = 0; i < r.n; i++) {
            T_TRUE(r.at[i].begin < r.at[i].end);
            T_TRUE(i == 0 || r.at[i - 1].end < r.at[i].begin); /* otherwise they would be one range
                                                                */
        }
        T_OK(mf_ranges_copy(&r, &copy));
        T_TRUE(mf_ranges_equal(&r, &copy));
        T_OK(mf_ranges_add(&copy, N, N + 1));
        T_TRUE(!mf_ranges_equal(&r, &copy));
        T_EQ(mf_ranges_count(&copy), mf_ranges_count(&r) + 1);
        mf_ranges_deinit(&copy);
        mf_ranges_deinit(&r);
    }
}
