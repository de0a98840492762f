/* SPDX-License-Identifier: Apache-2.0 */
/* coded.h - the items of a bucket that travel by a codec (codec.h), and what these keep from step
 * to step. Thread: that of the exchange; what is kept, between steps, the loop's. */
#ifndef MF_PARALLEL_CODED_H
#define MF_PARALLEL_CODED_H

#include "parallel/codec.h"
#include "parallel/shares.h"
#include "train/extra.h"

typedef struct mf_coded_item {
    char *name;
    const mf_codec *codec;
    mf_codec_item about;
    int64_t at; /* in a grain's vector, and in the result */
    float *memory; /* grain by grain: `kept` each */
    int64_t kept;
    float *shared;
    int64_t n_shared;
} mf_coded_item;

typedef struct mf_coded {
    mf_coded_item *items;
    int64_t n, cap;
    mf_tensor sent, got, scratch, sums; /* memory to be used again */
} mf_coded;

/* An exchange at hand. */
typedef struct mf_coded_call {
    mf_group *group;
    mf_collective call;
    const mf_shares *shares;
    float *const *grains; /* ours: vectors, in which items lie */
    float *result;
} mf_coded_call;

/* item: count, rows, columns and seed are set. `before`: what a checkpoint had; found there, it is
 * taken. Fails: FAILED_PRECONDITION (it is of another codec). */
MF_MUST mf_status mf_coded_add(mf_coded *c, const mf_shares *s, int rank, const char *name,
                               const mf_codec *codec, const mf_codec_item *item, int64_t at,
                               const mf_extra_list *before);
void mf_coded_deinit(mf_coded *c);

/* All items, on all members. Fails as collectives do; DATA_LOSS. */
MF_MUST mf_status mf_coded_exchange(mf_coded *c, const mf_coded_call *call);

/* What all members keep, to the list of the first one. Collective. */
MF_MUST mf_status mf_coded_collect(const mf_coded *c, const mf_shares *s, mf_group *group,
                                   const mf_collective *call, mf_extra_list *out);

#endif
