/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_allreduce.h - the exchange of synchronous data-parallel training: sums over all shards,
 * in the fixed reduction tree, on all workers.
 *
 * A thread runs the collectives, in the order of the buckets, while the step continues to compute.
 */
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
    mf_group *group; /* not used otherwise; must outlive the exchange */
    int64_t shards; /* of a batch */
    const mf_share *of; /* by rank: its shards; in the order of ranks with codecs that have state */
    int n_buckets; /* of a step; loss and metrics are in the last */
    int64_t timeout_ns; /* of every collective */
    const mf_codecs
        *codecs; /* how gradients are encoded; must outlive the exchange. NULL: not at all */
    uint64_t seed; /* of codecs that draw numbers */
    bool to_first; /* only the first member gets the gradients; all get loss and metrics */
    mf_aggregation aggregation; /* its weights must outlive the exchange; robust ones exclude codecs
                                 */
    /* A collective failed, with the thread's error: peers should be notified. May be NULL. */
    void (*failed)(void *ctx, mf_status why);
    void *ctx;
} mf_gradient_allreduce_options;

MF_MUST mf_status mf_gradient_allreduce_new(const mf_gradient_allreduce_options *o,
                                            mf_gradient_allreduce **out);
void mf_gradient_allreduce_free(mf_gradient_allreduce *x);
mf_exchange *mf_gradient_allreduce_exchange(mf_gradient_allreduce *x);

/* A step of so many samples, over all workers, begins. step_flags: this worker's. */
MF_MUST mf_status mf_gradient_allreduce_begin_step(mf_gradient_allreduce *x, int64_t step,
                                                   int64_t samples, int step_flags);
/* Nanoseconds from the beginning of the last step until this worker had computed everything that is
 * exchanged. */
int64_t mf_gradient_allreduce_computed_ns(mf_gradient_allreduce *x);
/* Between steps, by all members: shards have other owners from now on (of: as in the options); the
 * caller must set the session's exchange again. Not with codecs that have state. */
MF_MUST mf_status mf_gradient_allreduce_assign(mf_gradient_allreduce *x, const mf_share *of);
/* The step flags of all workers, of the last completed step. */
int mf_gradient_allreduce_step_flags(mf_gradient_allreduce *x);
/* How many more bytes this worker would have sent without codecs, in an optimal all-reduce: 2 (n -
 * 1) / n of a vector, with n workers. 0 without codecs. */
int64_t mf_gradient_allreduce_saved_bytes(mf_gradient_allreduce *x);

/* Between steps: replace the codecs' state by a checkpoint's (ownership is transferred); or gather
 * it in the first member's list, which is collective, in the caller's group. */
void mf_gradient_allreduce_restore(mf_gradient_allreduce *x, mf_aux_state_list *before);
MF_MUST mf_status mf_gradient_allreduce_collect(mf_gradient_allreduce *x, mf_group *group,
                                                const mf_collective *call, mf_aux_state_list *out);

#endif
