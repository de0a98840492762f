/* SPDX-License-Identifier: Apache-2.0 */
/* elias_fano.h - `count` different numbers below `limit`, ascending, in few bits (Elias-Fano): the
 * low bits of each number in sequence, then, for the rest of number i, bit (rest + i) of a bitmap.
 * The length depends on count and limit only; it is within two bits per number of the minimum. */
#ifndef MF_DIST_CODEC_ELIAS_FANO_H
#define MF_DIST_CODEC_ELIAS_FANO_H

#include "base/status.h"

typedef struct mf_elias_fano {
    int64_t limit, count;
    int low; /* bits of a number that are stored unchanged */
    int64_t high_at, bytes; /* where the bitmap begins; the total size */
    int64_t high_bits;
} mf_elias_fano;

/* 1 <= count <= limit < 2^48. */
mf_elias_fano mf_elias_fano_layout(int64_t limit, int64_t count);

/* Number i is `value`; `out` is all zero before the first call. */
void mf_elias_fano_put(const mf_elias_fano *a, uint8_t *out, int64_t i, int64_t value);

/* Reads the numbers in order. */
typedef struct mf_elias_fano_reader {
    const uint8_t *in;
    int64_t i, bit, last;
} mf_elias_fano_reader;

/* Start with { in, 0, 0, -1 }. Fails: DATA_LOSS (not ascending, not below the limit). */
MF_MUST mf_status mf_elias_fano_next(const mf_elias_fano *a, mf_elias_fano_reader *r,
                                     int64_t *value);
/* After the last number: is the bitmap used up? */
MF_MUST mf_status mf_elias_fano_end(const mf_elias_fano *a, const mf_elias_fano_reader *r);

#endif
