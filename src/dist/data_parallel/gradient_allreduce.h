/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_allreduce.h - the exchange of synchronous data-parallel training: sums over all shards,
 * in the fixed tree, on all workers.
 *
 * A thread of its own carries out the collectives, in the order of the buckets, while the step
 * computes on. */
#ifndef MF_DIST_DATA_PARALLEL_GRADIENT_ALLREDUCE_H
#define MF_DIST_DATA_PARALLEL_GRADIENT_ALLREDUCE_H

#include "collective/gradient_aggregation.h"
#include "collective/group.h"
#include "dist/codec/codec.h"
#include "dist/data_parallel/shard_assignment.h"
#include "dist/step_flags.h"
#include "graph/step_exchange.h"
#include "train/checkpoint/aux_state.h"

typedef struct mf_gradient_allreduce mf_gradient_allreduce;

typedef struct mf_gradient_allreduce_options {
    mf_group *group; /* used by nobody else; must outlive the exchange */
    int64_t shards; /* of a batch */
    const mf_share
        *of; /* by rank: its shards; in the order of ranks with codecs that keep something
              */
    int n_buckets; /* of a step; loss and metrics are in the last */
    int64_t timeout_ns; /* for everybody to come */
    const mf_codecs
        *codecs; /* how gradients travel; must outlive the exchange. NULL: as they are */
    uint64_t seed; /* of codecs that draw numbers */
    bool to_first; /* only the first member gets the gradients; loss and metrics are for all */
    mf_aggregation aggregation; /* its weights must outlive the exchange; robust ones go without
                                   codecs */
    /* A collective failed, with the thread's error: others should know. May be NULL. */
    void (*failed)(void *ctx, mf_status why);
    void *ctx;
} mf_gradient_allreduce_options;

MF_MUST mf_status mf_gradient_allreduce_new(const mf_gradient_allreduce_options *o,
                                            mf_gradient_allreduce **out);
void mf_gradient_allreduce_free(mf_gradient_allreduce *x);
mf_exchange *mf_gradient_allreduce_exchange(mf_gradient_allreduce *x);

/* A step of so many samples in all begins. step_flags: ours. */
MF_MUST mf_status mf_gradient_allreduce_begin_step(mf_gradient_allreduce *x, int64_t step,
                                                   int64_t samples, int step_flags);
/* Nanoseconds from the beginning of the last step until all that is exchanged was computed here. */
int64_t mf_gradient_allreduce_computed_ns(mf_gradient_allreduce *x);
/* Between steps, by all members: shards have other owners from now on (of: as in the options);
 * the session has to be told. Not with codecs that keep something. */
MF_MUST mf_status mf_gradient_allreduce_assign(mf_gradient_allreduce *x, const mf_share *of);
/* What somebody has joined_step_flags for in the step that was done last. */
int mf_gradient_allreduce_step_flags(mf_gradient_allreduce *x);
/* How many bytes more this worker would have sent so far without codecs, in an all-reduce that
 * wastes none: 2 (n - 1) / n of a vector, with n workers. 0 without codecs. */
int64_t mf_gradient_allreduce_saved_bytes(mf_gradient_allreduce *x);

/* Between steps: what codecs keep becomes what a checkpoint has (it is taken over); or it is
 * brought together in the first member's list, which is collective, with a group of the caller's.
 */
void mf_gradient_allreduce_restore(mf_gradient_allreduce *x, mf_aux_state_list *before);
MF_MUST mf_status mf_gradient_allreduce_collect(mf_gradient_allreduce *x, mf_group *group,
                                                const mf_collective *call, mf_aux_state_list *out);

#endif
