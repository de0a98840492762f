/* SPDX-License-Identifier: Apache-2.0 */
/* order.h - permutations that depend only on a seed. */
#ifndef MF_DATA_ORDER_H
#define MF_DATA_ORDER_H

#include "base/rng.h"

__extension__ typedef unsigned __int128 mf_u128;

/* Maps 64 random bits to [0, n). The bias is at most n/2^64, which is negligible. */
static inline int64_t mf_order_below(uint32_t high, uint32_t low, int64_t n)
{
    return (int64_t)((mf_u128)((uint64_t)high << 32 | low) * (uint64_t)n >> 64);
}

/* Fisher-Yates shuffle with the generator's next blocks. */
static inline void mf_order_mix(mf_philox *p, int64_t *order, int64_t n)
{
    uint32_t block[4] = { 0 };

    for (int64_t i = n - 1; i > 0; i--) {
        const int odd = (int)((n - 1 - i) % 2);
        int64_t j, t;

        if (!odd)
            mf_philox_next(p, block);
        j = mf_order_below(block[2 * odd + 1], block[2 * odd], i + 1);
        t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

/* 0 .. n-1 shuffled by Philox(seed, stream). */
static inline void mf_order_shuffle(uint64_t seed, uint64_t stream, int64_t *order, int64_t n)
{
    mf_philox p = mf_philox_init(seed, stream);

    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    mf_order_mix(&p, order, n);
}

#endif
