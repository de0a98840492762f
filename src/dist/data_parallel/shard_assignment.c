/* SPDX-License-Identifier: Apache-2.0 */
/* shard_assignment.c - computes which shards of a batch each worker gets, by threads, speed and
 * data locality. */
#include "dist/data_parallel/shard_assignment.h"

#include <stdbool.h>

/* The rank that would finish one more shard first. */
static int next_taker(int ranks, const double *speed, const mf_share *taken)
{
    int best = 0;

    for (int r = 1; r < ranks; r++) {
        if ((double)(taken[r].n + 1) * speed[best] < (double)(taken[best].n + 1) * speed[r])
            best = r;
    }
    return best;
}

void mf_shard_assign(int64_t shards, int64_t grain, int ranks, const double *speed,
                     const int *order, mf_share *shares)
{
    const int64_t grains = (shards + grain - 1) / grain;
    int64_t at = 0;

    for (int r = 0; r < ranks; r++)
        shares[r].n = r < grains ? 1 : 0; /* grains, at first */
    for (int64_t i = ranks; i < grains; i++)
        shares[next_taker(ranks, speed, shares)].n++;
    for (int i = 0; i < ranks; i++) {
        mf_share *s = &shares[order[i]];
        const int64_t end = at + s->n * grain;

        s->first = at;
        at = end < shards ? end : shards; /* the last grain may be smaller */
        s->n = at - s->first;
    }
}

double mf_shard_assign_time(int ranks, const double *speed, const mf_share *shares)
{
    double longest = 0.0;

    for (int r = 0; r < ranks; r++) {
        const double time = (double)shares[r].n / speed[r];

        longest = time > longest ? time : longest;
    }
    return longest;
}

/* ---- data locality ---- */

/* How much local data the ranks in order[from .. to) have, when the first of them begins at this
 * shard. */
static double sum_near(int64_t shards, const double *near, const mf_share *shares, const int *order,
                       int from, int to, int64_t at)
{
    double sum = 0.0;

    for (int i = from; i < to; i++) {
        for (int64_t end = at + shares[order[i]].n; at < end && at < shards; at++)
            sum += near[order[i] * shards + at];
    }
    return sum;
}

static void shard_assignment_swap(int *a, int *b)
{
    const int t = *a;

    *a = *b;
    *b = t;
}

/* Swap two ranks where that makes more data local; ranks between them may move a little. */
static bool improve(int64_t shards, int ranks, const double *near, const mf_share *shares,
                    int *order)
{
    bool better = false;
    int64_t at = 0;

    for (int i = 0; i < ranks; at += shares[order[i++]].n) {
        for (int j = i + 1; j < ranks; j++) {
            const double before = sum_near(shards, near, shares, order, i, j + 1, at);

            shard_assignment_swap(&order[i], &order[j]);
            if (sum_near(shards, near, shares, order, i, j + 1, at) > before)
                better = true;
            else
                shard_assignment_swap(&order[i], &order[j]);
        }
    }
    return better;
}

double mf_shard_assign_near(int64_t shards, int ranks, const double *near, const mf_share *shares,
                            int *order)
{
    for (int pass = 0; pass < ranks && improve(shards, ranks, near, shares, order); pass++)
        ;
    return sum_near(shards, near, shares, order, 0, ranks, 0);
}
