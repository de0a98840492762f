/* SPDX-License-Identifier: Apache-2.0 */
/* random_util.h - TensorFlow's random streams.
 *
 * Numbers come in groups: one Philox block gives four 32-bit or two 64-bit results, and element i
 * depends only on the stream's position and i. So pieces of a tensor may be filled in any order,
 * and values equal TensorFlow's. */
#ifndef MF_OPS_RANDOM_RANDOM_UTIL_H
#define MF_OPS_RANDOM_RANDOM_UTIL_H

#include "base/rng.h"
#include "ops/control/grad_util.h"

typedef enum mf_random_kind {
    MF_RANDOM_UNIFORM, /* [0, 1) */
    MF_RANDOM_NORMAL, /* mean 0, deviation 1 */
    MF_RANDOM_TRUNCATED, /* normal, redrawn outside (-2, 2) */
    MF_RANDOM_RANGE, /* integers low + [0, range) */
    MF_RANDOM_BITS, /* integers of all values */
} mf_random_kind;

/* Fills `out` from the stream that begins at `gen`. `low` and `range` are 64-bit two's complement;
 * range is not 0. */
MF_MUST mf_status mf_random_fill(const mf_kernel *k, mf_philox gen, mf_random_kind kind,
                                 uint64_t low, uint64_t range, mf_tensor *out);

/* minval and maxval of a range, from two scalar tensors; fails in the same cases as TensorFlow. */
MF_MUST mf_status mf_random_range(const mf_tensor *low, const mf_tensor *high, bool empty,
                                  uint64_t *first, uint64_t *range);
/* A shape given as a vector. */
MF_MUST mf_status mf_random_shape(const mf_tensor *t, mf_shape *out);
MF_MUST mf_status mf_random_infer(mf_infer *in); /* input 0 is the output's shape */

/* The stream of a stateless op for its seed, a vector of two integers. */
MF_MUST mf_status mf_random_from_seed(const mf_tensor *seed, mf_philox *out);

/* The stream of a stateful op continues from step to step. Stateful ops use these as prepare and
 * release. */
MF_MUST mf_status mf_random_prepare(mf_prepare *p);
void mf_random_release(void *state);
/* The current stream, which then advances by `blocks`. */
mf_philox mf_random_reserve(const mf_kernel *k, uint64_t blocks);

/* Single 32-bit numbers of a stream. */
typedef struct mf_random_draw {
    mf_philox gen;
    uint32_t block[4];
    int used; /* of the block; initially 4 */
} mf_random_draw;
static inline uint32_t mf_random_u32(mf_random_draw *d)
{
    if (d->used == 4) {
        mf_philox_next(&d->gen, d->block);
        d->used = 0;
    }
    return d->block[d->used++];
}
/* [0, 1) from 52 bits. */
static inline double mf_random_to_double(uint32_t high, uint32_t low)
{
    const uint64_t bits = (uint64_t)1023 << 52 | (uint64_t)(high & 0xfffff) << 32 | low;
    double d;

    memcpy(&d, &bits, sizeof d);
    return d - 1.0;
}

#endif
