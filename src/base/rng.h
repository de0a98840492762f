/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - Philox4x32-10, the counter-based generator of Salmon et al. (SC'11). A pure function of
 * key and counter, so any element of any stream can be computed independently, in any order. */
#ifndef MF_BASE_RNG_H
#define MF_BASE_RNG_H

#include <stdint.h>

typedef struct mf_philox {
    uint32_t counter[4];
    uint32_t key[2];
} mf_philox;

/* A stream as TensorFlow seeds it: key = lo, upper half of the counter = hi. */
static inline mf_philox mf_philox_init(uint64_t lo, uint64_t hi)
{
    return (mf_philox){ .counter = { 0, 0, (uint32_t)hi, (uint32_t)(hi >> 32) },
                        .key = { (uint32_t)lo, (uint32_t)(lo >> 32) } };
}

/* Jump ahead by n blocks of four numbers: the counter is one 128-bit little-endian integer. */
static inline void mf_philox_skip(mf_philox *p, uint64_t n)
{
    const uint64_t lo = ((uint64_t)p->counter[1] << 32 | p->counter[0]) + n;
    uint64_t hi = (uint64_t)p->counter[3] << 32 | p->counter[2];

    hi += lo < n;
    p->counter[0] = (uint32_t)lo;
    p->counter[1] = (uint32_t)(lo >> 32);
    p->counter[2] = (uint32_t)hi;
    p->counter[3] = (uint32_t)(hi >> 32);
}

/* The block at the counter; advances it by one. */
static inline void mf_philox_next(mf_philox *p, uint32_t out[4])
{
    uint32_t c0 = p->counter[0], c1 = p->counter[1], c2 = p->counter[2], c3 = p->counter[3];
    uint32_t k0 = p->key[0], k1 = p->key[1];

    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c0;
        const uint64_t b = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        const uint32_t n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;

        c0 = n0;
        c1 = (uint32_t)b;
        c2 = n2;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
    mf_philox_skip(p, 1);
}

#endif
