/* SPDX-License-Identifier: Apache-2.0 */
/* accumulator.h - conditional accumulators: gradients are added up, those of stale steps dropped,
 * and whoever takes the sum or mean waits until enough have come. */
#ifndef MF_OPS_STATE_ACCUMULATOR_H
#define MF_OPS_STATE_ACCUMULATOR_H

#include "ops/state/op_waiter.h"

/* Rows of a sparse sum. */
typedef struct mf_sparse_sum {
    int64_t *index; /* ascending, if those of the gradients are */
    int64_t *slot; /* where the row of index[i] stands in `rows` */
    int64_t *times; /* how many gradients have added to it */
    int64_t n, cap;
    mf_tensor rows; /* [room, ...] */
} mf_sparse_sum;

typedef struct mf_accumulator {
    mf_object object;
    char *name;
    mf_dtype dtype;
    mf_shape shape; /* may be partly unknown */
    bool is_mean, is_sparse;
    pthread_mutex_t lock; /* guards all below */
    int64_t count; /* gradients since the last take */
    int64_t step; /* gradients of earlier steps are dropped */
    mf_tensor sum;
    mf_sparse_sum sparse;
    mf_wait_line takers;
} mf_accumulator;

/* The arithmetic (accumulator_sum.c); under the lock. */
MF_MUST mf_status mf_accumulator_add(mf_accumulator *a, const mf_kernel *k);
MF_MUST mf_status mf_accumulator_add_sparse(mf_accumulator *a, const mf_kernel *k);
/* The result becomes the outputs of k; the sum is empty afterwards. */
MF_MUST mf_status mf_accumulator_put(mf_accumulator *a, mf_kernel *k);
MF_MUST mf_status mf_accumulator_put_sparse(mf_accumulator *a, mf_kernel *k);
void mf_accumulator_reset(mf_accumulator *a);

#endif
