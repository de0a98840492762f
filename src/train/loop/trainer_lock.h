/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_lock.h - which threads may use a trainer at the same time.
 *
 * Several threads may share it, to read weights and run the model; one exclusive thread may change
 * it. The exclusive thread may lock it again, shared or exclusive: hooks of mf_fit() call the
 * trainer's functions. */
#ifndef MF_TRAIN_LOOP_TRAINER_LOCK_H
#define MF_TRAIN_LOOP_TRAINER_LOCK_H

#include "base/status.h"

#include <pthread.h>

typedef struct mf_trainer_lock {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t owner; /* that has it alone, */
    int64_t depth; /* recursion depth of the owner; 0: no owner */
    int64_t sharing; /* threads that share it */
    int64_t waiting, waiting_alone; /* waiting threads; of these, exclusive ones */
    int64_t served; /* the number of waits that have ended */
} mf_trainer_lock;

void mf_trainer_lock_init(mf_trainer_lock *t);
void mf_trainer_lock_deinit(mf_trainer_lock *t);
/* Lock it shared; returns t. */
mf_trainer_lock *mf_trainer_lock_share(mf_trainer_lock *t);
mf_trainer_lock *mf_trainer_lock_take(mf_trainer_lock *t);
/* The end of either. */
void mf_trainer_lock_end(mf_trainer_lock *t);
/* By the exclusive thread, at depth 1: let some waiting threads run first. */
void mf_trainer_lock_pass(mf_trainer_lock *t);
/* Does this thread own it? */
bool mf_trainer_lock_is_mine(mf_trainer_lock *t);

/* Until the end of this block. */
#define MF_SHARE(turns)                                                                            \
    mf_trainer_lock *turn_ __attribute__((cleanup(mf_trainer_lock_end_block), unused)) =           \
        mf_trainer_lock_share(turns)
#define MF_ALONE(turns)                                                                            \
    mf_trainer_lock *turn_ __attribute__((cleanup(mf_trainer_lock_end_block), unused)) =           \
        mf_trainer_lock_take(turns)
static inline void mf_trainer_lock_end_block(mf_trainer_lock *const *t)
{
    mf_trainer_lock_end(*t);
}

#endif
