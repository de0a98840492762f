/* SPDX-License-Identifier: Apache-2.0 */
/* ascending.h - `count` different numbers below `limit`, ascending, in few bits (Elias and Fano):
 * the low bits of each side by side, then, for the rest of number i, bit (rest + i) of a bitmap.
 * The length depends on count and limit alone; it is within two bits a number of the least
 * possible.
 */
#ifndef MF_PARALLEL_ASCENDING_H
#define MF_PARALLEL_ASCENDING_H

#include "base/status.h"

typedef struct mf_ascending {
    int64_t limit, count;
    int low; /* bits of a number that are stored as they are */
    int64_t high_at, bytes; /* where the bitmap begins; in all */
    int64_t high_bits;
} mf_ascending;

/* 1 <= count <= limit < 2^48. */
mf_ascending mf_ascending_layout(int64_t limit, int64_t count);

/* Number i is `value`; `out` was all zero before the first one. */
void mf_ascending_put(const mf_ascending *a, uint8_t *out, int64_t i, int64_t value);

/* Numbers come out one after the other. */
typedef struct mf_ascending_reader {
    const uint8_t *in;
    int64_t i, bit, last;
} mf_ascending_reader;

/* Start with { in, 0, 0, -1 }. Fails: DATA_LOSS (not ascending, not below the limit). */
MF_MUST mf_status mf_ascending_next(const mf_ascending *a, mf_ascending_reader *r, int64_t *value);
/* After the last one: is there nothing else? */
MF_MUST mf_status mf_ascending_end(const mf_ascending *a, const mf_ascending_reader *r);

#endif
