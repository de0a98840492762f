/* SPDX-License-Identifier: Apache-2.0 */
/* dealing.c - see dealing.h. */
#include "parallel/dealing.h"

/* Who is done first with one more. */
static int next_taker(int ranks, const double *speed, const int64_t *taken)
{
    int best = 0;

    for (int r = 1; r < ranks; r++) {
        if ((double)(taken[r] + 1) * speed[best] < (double)(taken[best] + 1) * speed[r])
            best = r;
    }
    return best;
}

void mf_deal(int64_t shards, int64_t grain, int ranks, const double *speed, int64_t *first)
{
    const int64_t grains = (shards + grain - 1) / grain;
    int64_t *taken = first; /* at first; by rank */

    for (int r = 0; r < ranks; r++)
        taken[r] = r < grains ? 1 : 0;
    for (int64_t i = ranks; i < grains; i++)
        taken[next_taker(ranks, speed, taken)]++;
    for (int64_t r = 0, at = 0; r < ranks; r++) {
        const int64_t n = taken[r];

        first[r] = at * grain < shards ? at * grain : shards;
        at += n;
    }
    first[ranks] = shards;
}

double mf_deal_time(int ranks, const double *speed, const int64_t *first)
{
    double longest = 0.0;

    for (int r = 0; r < ranks; r++) {
        const double time = (double)(first[r + 1] - first[r]) / speed[r];

        longest = time > longest ? time : longest;
    }
    return longest;
}
