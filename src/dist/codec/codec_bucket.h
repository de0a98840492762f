/* SPDX-License-Identifier: Apache-2.0 */
/* codec_bucket.h - the items of a bucket that travel by a codec (codec.h), and the codecs' state.
 * Thread: that of the exchange; the state, between steps: the loop's. */
#ifndef MF_DIST_CODEC_CODEC_BUCKET_H
#define MF_DIST_CODEC_CODEC_BUCKET_H

#include "dist/codec/codec.h"
#include "dist/data_parallel/shard_owners.h"
#include "train/checkpoint/aux_state.h"

typedef struct mf_codec_bucket_item {
    char *name;
    const mf_codec *codec;
    mf_codec_item about;
    int64_t at; /* in a grain's vector, and in the result */
    float *memory; /* grain by grain: `kept` each */
    int64_t kept;
    float *shared;
    int64_t n_shared;
} mf_codec_bucket_item;

typedef struct mf_codec_bucket {
    mf_codec_bucket_item *items;
    int64_t n, cap;
    mf_tensor sent, got, scratch, sums; /* memory to be used again */
} mf_codec_bucket;

/* The current exchange. */
typedef struct mf_codec_bucket_call {
    mf_group *group;
    mf_collective call;
    const mf_shard_owners *shares;
    float *const *grains; /* this worker's: vectors that contain the items */
    float *result;
} mf_codec_bucket_call;

/* item: count, rows, columns and seed are set. `before`: what a checkpoint had; found there, it is
 * taken. Fails: FAILED_PRECONDITION (it is of another codec). */
MF_MUST mf_status mf_codec_bucket_add(mf_codec_bucket *c, const mf_shard_owners *s, int rank,
                                      const char *name, const mf_codec *codec,
                                      const mf_codec_item *item, int64_t at,
                                      const mf_aux_state_list *before);
void mf_codec_bucket_deinit(mf_codec_bucket *c);

/* All items, on all members. Fails as collectives do; DATA_LOSS. */
MF_MUST mf_status mf_codec_bucket_exchange(mf_codec_bucket *c, const mf_codec_bucket_call *call);

/* Gather the state of all members in the list of the first one. Collective. */
MF_MUST mf_status mf_codec_bucket_collect(const mf_codec_bucket *c, const mf_shard_owners *s,
                                          mf_group *group, const mf_collective *call,
                                          mf_aux_state_list *out);

#endif
