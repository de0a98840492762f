/* SPDX-License-Identifier: Apache-2.0 */
/* Who takes how many shards. */
#include "parallel/dealing.h"

#include "mf_test.h"

enum { MOST = 64 };

static void expect(int64_t shards, int64_t grain, int ranks, const double *speed,
                   const int64_t *counts)
{
    int64_t first[MOST + 1];

    mf_deal(shards, grain, ranks, speed, first);
    T_EQ(first[0], 0);
    T_EQ(first[ranks], shards);
    for (int r = 0; r < ranks; r++)
        T_EQ(first[r + 1] - first[r], counts[r]);
}

MF_TEST(dealing_follows_speeds)
{
    expect(12, 1, 3, (double[]){ 1, 2, 3 }, (int64_t[]){ 2, 4, 6 });
    expect(8, 1, 3, (double[]){ 5, 5, 5 }, (int64_t[]){ 3, 3, 2 });
    expect(8, 1, 3, (double[]){ 2, 1, 1 }, (int64_t[]){ 4, 2, 2 });
    expect(8, 1, 2, (double[]){ 100, 0.001 }, (int64_t[]){ 7, 1 }); /* or its speed is never seen */
    expect(8, 1, 1, (double[]){ 3 }, (int64_t[]){ 8 });
}

MF_TEST(dealing_keeps_grains_whole)
{
    expect(16, 4, 2, (double[]){ 3, 1 }, (int64_t[]){ 12, 4 });
    expect(10, 4, 2, (double[]){ 1, 1 }, (int64_t[]){ 8, 2 }); /* the last grain is smaller */
    expect(3, 1, 5, (double[]){ 1, 1, 1, 1, 1 }, (int64_t[]){ 1, 1, 1, 0, 0 });
}

/* No other way to deal is better: all of them are tried. */
MF_TEST(dealing_is_the_best_there_is)
{
    const double speeds[][3] = { { 1, 1, 1 }, { 1, 2, 4 }, { 3, 1, 7 }, { 0.1, 5, 5 } };

    for (int k = 0; k < 4; k++) {
        int64_t first[4];

        mf_deal(11, 1, 3, speeds[k], first);
        for (int64_t a = 1; a <= 9; a++) {
            for (int64_t b = a + 1; b <= 10; b++)
                T_TRUE(mf_deal_time(3, speeds[k], first) <=
                       mf_deal_time(3, speeds[k], (int64_t[]){ 0, a, b, 11 }));
        }
    }
}
