/* SPDX-License-Identifier: Apache-2.0 */
/* turns.h - which threads may use a trainer at the same time.
 *
 * Many may share it, to read weights and run the model; one alone may change it. The thread that
 * has it alone may take it again, shared or alone: hooks of mf_fit() call the trainer's functions.
 */
#ifndef MF_TRAIN_TURNS_H
#define MF_TRAIN_TURNS_H

#include "base/status.h"

#include <pthread.h>

typedef struct mf_turns {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t owner; /* that has it alone, */
    int64_t depth; /* so many times; 0: nobody has */
    int64_t sharing; /* threads that share it */
    int64_t waiting,
        waiting_alone; /* threads that wait for a turn; those of them who want it alone */
    int64_t served; /* turns that were waited for and given, ever */
} mf_turns;

void mf_turns_init(mf_turns *t);
void mf_turns_deinit(mf_turns *t);
/* Wait for it; returns t. */
mf_turns *mf_turns_share(mf_turns *t);
mf_turns *mf_turns_take(mf_turns *t);
/* The end of either. */
void mf_turns_end(mf_turns *t);
/* Of the thread that has it alone, once: where others wait, some of them come first. */
void mf_turns_pass(mf_turns *t);
/* Has this thread taken it? */
bool mf_turns_is_mine(mf_turns *t);

/* Until the end of this block. */
#define MF_SHARE(turns)                                                                            \
    mf_turns *turn_ __attribute__((cleanup(mf_turns_end_block), unused)) = mf_turns_share(turns)
#define MF_ALONE(turns)                                                                            \
    mf_turns *turn_ __attribute__((cleanup(mf_turns_end_block), unused)) = mf_turns_take(turns)
static inline void mf_turns_end_block(mf_turns *const *t)
{
    mf_turns_end(*t);
}

#endif
