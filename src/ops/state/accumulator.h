/* SPDX-License-Identifier: Apache-2.0 */
/* accumulator.h - conditional accumulators: gradients are added, those of stale steps are dropped,
 * and a take waits until enough have arrived. */
#ifndef MF_OPS_STATE_ACCUMULATOR_H
#define MF_OPS_STATE_ACCUMULATOR_H

#include "ops/state/op_waiter.h"

/* The rows of a sparse sum. */
typedef struct mf_sparse_sum {
    int64_t *index; /* ascending if those of the gradients are */
    int64_t *slot; /* position of the row of index[i] in `rows` */
    int64_t *times; /* number of gradients added to it */
    int64_t n, cap;
    mf_tensor rows; /* [room, ...] */
} mf_sparse_sum;

typedef struct mf_accumulator {
    mf_object object;
    char *name;
    mf_dtype dtype;
    mf_shape shape; /* may be partly unknown */
    bool is_mean, is_sparse;
    pthread_mutex_t lock; /* guards all members below */
    int64_t count; /* gradients since the last take */
    int64_t step; /* gradients of earlier steps are dropped */
    mf_tensor sum;
    mf_sparse_sum sparse;
    mf_wait_line takers;
} mf_accumulator;

/* Arithmetic (accumulator_sum.c); the caller holds the lock. */
MF_MUST mf_status mf_accumulator_add(mf_accumulator *a, const mf_kernel *k);
MF_MUST mf_status mf_accumulator_add_sparse(mf_accumulator *a, const mf_kernel *k);
/* Moves the result to the outputs of k; the sum is empty afterwards. */
MF_MUST mf_status mf_accumulator_put(mf_accumulator *a, mf_kernel *k);
MF_MUST mf_status mf_accumulator_put_sparse(mf_accumulator *a, mf_kernel *k);
void mf_accumulator_reset(mf_accumulator *a);

#endif
