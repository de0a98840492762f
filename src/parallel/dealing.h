/* SPDX-License-Identifier: Apache-2.0 */
/* dealing.h - how many shards of a batch each worker takes: by what it can do, and by how fast it
 * was seen to be. Who computes a shard shows in no result. */
#ifndef MF_PARALLEL_DEALING_H
#define MF_PARALLEL_DEALING_H

#include <stdint.h>

/* first[r] .. first[r + 1): the shards of rank r, neighbours, in whole grains, so that whoever
 * takes longest is done as early as possible. Everybody gets something where there is enough.
 * speed: in any unit, by rank, above 0; equal ones get equally many, give or take a grain. */
void mf_deal(int64_t shards, int64_t grain, int ranks, const double *speed, int64_t *first);

/* How long the one takes that takes longest: shards by speed. */
double mf_deal_time(int ranks, const double *speed, const int64_t *first);

#endif
