/* SPDX-License-Identifier: Apache-2.0 */
/* shard_assignment.c - how many shards each worker computes, by speed and locality. */
#include "dist/data_parallel/shard_assignment.h"

#include "mf_test.h"

enum { MOST = 64 };

static void expect(int64_t shards, int64_t grain, int ranks, const double *speed,
                   const int64_t *counts)
{
    mf_share shares[MOST];
    int order[MOST];

    for (int backwards = 0; backwards < 2; backwards++) {
        int64_t at = 0;

        for (int i = 0; i < ranks; i++)
            order[i] = backwards ? ranks - 1 - i : i;
        mf_shard_assign(shards, grain, ranks, speed, order, shares);
        for (int i = 0; i < ranks; i++) {
            T_EQ(shares[order[i]].first, at);
            at += shares[order[i]].n;
            if (!backwards) /* otherwise another worker has the last grain, which may be smaller */
                T_EQ(shares[i].n, counts[i]);
        }
        T_EQ(at, shards);
    }
}

MF_TEST(assignment_follows_speeds)
{
    expect(12, 1, 3, (double[]){ 1, 2, 3 }, (int64_t[]){ 2, 4, 6 });
    expect(8, 1, 3, (double[]){ 5, 5, 5 }, (int64_t[]){ 3, 3, 2 });
    expect(8, 1, 3, (double[]){ 2, 1, 1 }, (int64_t[]){ 4, 2, 2 });
    expect(8, 1, 2, (double[]){ 100, 0.001 },
           (int64_t[]){ 7, 1 }); /* otherwise its speed is never measured */
    expect(8, 1, 1, (double[]){ 3 }, (int64_t[]){ 8 });
}

MF_TEST(assignment_does_not_split_grains)
{
    expect(16, 4, 2, (double[]){ 3, 1 }, (int64_t[]){ 12, 4 });
    expect(10, 4, 2, (double[]){ 1, 1 }, (int64_t[]){ 8, 2 }); /* the last grain is smaller */
    expect(3, 1, 5, (double[]){ 1, 1, 1, 1, 1 }, (int64_t[]){ 1, 1, 1, 0, 0 });
}

/* No other assignment is better: all are tried. */
MF_TEST(assignment_is_optimal)
{
    const double speeds[][3] = { { 1, 1, 1 }, { 1, 2, 4 }, { 3, 1, 7 }, { 0.1, 5, 5 } };

    for (int k = 0; k < 4; k++) {
        mf_share shares[3];

        mf_shard_assign(11, 1, 3, speeds[k], (int[]){ 0, 1, 2 }, shares);
        for (int64_t a = 1; a <= 9; a++) {
            for (int64_t b = a + 1; b <= 10; b++)
                T_TRUE(mf_shard_assign_time(3, speeds[k], shares) <=
                       mf_shard_assign_time(3, speeds[k],
                                            (mf_share[]){ { 0, a }, { a, b - a }, { b, 11 - b } }));
        }
    }
}

/* ---- locality ---- */

static double deal_near(int ranks, const int64_t *counts, const double *near, int *order)
{
    mf_share shares[MOST];
    int64_t shards = 0;

    for (int r = 0; r < ranks; r++) {
        shares[r] = (mf_share){ shards, counts[r] };
        shards += counts[r];
        order[r] = r;
    }
    return mf_shard_assign_near(shards, ranks, near, shares, order);
}

MF_TEST(assignment_prefers_workers_with_local_data)
{
    int order[3];

    /* rank 0 has the last shards, rank 1 the first ones */
    T_EQ_F(deal_near(2, (int64_t[]){ 2, 2 }, (double[]){ 0, 0, 5, 5, 5, 5, 0, 0 }, order), 20);
    T_TRUE(order[0] == 1 && order[1] == 0);
    /* all round */
    T_EQ_F(deal_near(3, (int64_t[]){ 1, 1, 1 }, (double[]){ 0, 1, 0, 0, 0, 1, 1, 0, 0 }, order), 3);
    T_TRUE(order[0] == 2 && order[1] == 0 && order[2] == 1);
    /* shares of different sizes: the large one of rank 0 is last */
    T_EQ_F(deal_near(2, (int64_t[]){ 3, 1 }, (double[]){ 0, 1, 1, 1, 1, 0, 0, 0 }, order), 4);
    T_TRUE(order[0] == 1);
}

MF_TEST(assignment_by_locality_moves_no_shard_without_benefit)
{
    int order[3];

    T_EQ_F(deal_near(3, (int64_t[]){ 1, 1, 1 }, (double[]){ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, order), 3);
    T_TRUE(order[0] == 0 && order[1] == 1 && order[2] == 2);
    T_EQ_F(deal_near(3, (int64_t[]){ 1, 1, 1 }, (double[9]){ 0 }, order), 0);
    T_TRUE(order[0] == 0 && order[1] == 1 && order[2] == 2);
}
