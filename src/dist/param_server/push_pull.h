/* SPDX-License-Identifier: Apache-2.0 */
/* push_pull.h - an exchange that collects all values of a step and then does one round with a peer,
 * such as a parameter server. A thread does the round. */
#ifndef MF_DIST_PARAM_SERVER_PUSH_PULL_H
#define MF_DIST_PARAM_SERVER_PUSH_PULL_H

#include "graph/step_exchange.h"
#include "tensor/reduction_tree.h"

/* One result of the map over the shards. */
typedef struct mf_push_pull_round_value {
    bool concat; /* rows, in one part */
    mf_dtype dtype;
    mf_shape shape; /* of rows the first dimension is not known */
    mf_tensor *part; /* this worker's */
    mf_tensor result; /* filled by the round, with any contents of the type */
} mf_push_pull_round_value;

typedef struct mf_push_pull_round {
    int64_t step, samples; /* over all workers */
    int step_flags; /* this worker's: dist/step_flags.h */
    int n_parts;
    int64_t room; /* the capacity in parts */
    mf_reduction_tree_node *parts;
    mf_push_pull_round_value *values; /* bucket by bucket */
    int n_values;
} mf_push_pull_round;

/* A round without parts, with capacity for so many. Owns: mf_push_pull_round_deinit(), also after a
 * failure. */
MF_MUST mf_status mf_push_pull_round_init(mf_push_pull_round *r, int n_values, int64_t room);
void mf_push_pull_round_deinit(mf_push_pull_round *r);

typedef mf_status mf_push_pull_round_fn(void *ctx, mf_push_pull_round *round);

/* Part `part` of `n_parts` of a value is complete. True: it was consumed, so the round needs no
 * copy: values[value].part[part] is empty. */
typedef bool mf_push_pull_round_take_fn(void *ctx, int value, int part, int n_parts,
                                        const mf_tensor *x);

typedef struct mf_push_pull mf_push_pull;

typedef struct mf_push_pull_options {
    int64_t first, count; /* the shards computed here */
    int64_t shards, grain; /* of a batch; see mf_exchange */
    const int64_t *bucket; /* by result of the map: its bucket */
    int n_results, n_buckets;
    mf_push_pull_round_fn *round;
    mf_push_pull_round_take_fn *take; /* NULL: all values are copied */
    void *ctx;
} mf_push_pull_options;

MF_MUST mf_status mf_push_pull_new(const mf_push_pull_options *o, mf_push_pull **out);
void mf_push_pull_free(mf_push_pull *x);
mf_exchange *mf_push_pull_exchange(mf_push_pull *x);
/* Which value is result i of the map? */
int mf_push_pull_value(const mf_push_pull *x, int result);

/* The last completed round; NULL: none. */
mf_push_pull_round *mf_push_pull_last(mf_push_pull *x);

MF_MUST mf_status mf_push_pull_begin_step(mf_push_pull *x, int64_t step, int64_t samples,
                                          int step_flags);
/* How long the computation of this worker's part of the last step took. */
int64_t mf_push_pull_computed_ns(mf_push_pull *x);
/* Between two steps: from now on this worker computes these shards. The caller must set the
 * session's exchange again. */
void mf_push_pull_assign(mf_push_pull *x, int64_t first, int64_t count);

#endif
