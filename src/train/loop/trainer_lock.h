/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_lock.h - which threads may use a trainer at the same time.
 *
 * Many may share it, to read weights and run the model; one alone may change it. The thread that
 * has it alone may take it again, shared or alone: hooks of mf_fit() call the trainer's functions.
 */
#ifndef MF_TRAIN_LOOP_TRAINER_LOCK_H
#define MF_TRAIN_LOOP_TRAINER_LOCK_H

#include "base/status.h"

#include <pthread.h>

typedef struct mf_trainer_lock {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t owner; /* that has it alone, */
    int64_t depth; /* so many times; 0: nobody has */
    int64_t sharing; /* threads that share it */
    int64_t waiting,
        waiting_alone; /* threads that wait for a turn; those of them who want it alone */
    int64_t served; /* turns that were waited for and given, ever */
} mf_trainer_lock;

void mf_trainer_lock_init(mf_trainer_lock *t);
void mf_trainer_lock_deinit(mf_trainer_lock *t);
/* Wait for it; returns t. */
mf_trainer_lock *mf_trainer_lock_share(mf_trainer_lock *t);
mf_trainer_lock *mf_trainer_lock_take(mf_trainer_lock *t);
/* The end of either. */
void mf_trainer_lock_end(mf_trainer_lock *t);
/* Of the thread that has it alone, once: where others wait, some of them come first. */
void mf_trainer_lock_pass(mf_trainer_lock *t);
/* Has this thread taken it? */
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
