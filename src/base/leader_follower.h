/* SPDX-License-Identifier: Apache-2.0 */
/* leader_follower.h - threads that take what comes and do it themselves, so that nothing waits for
 * another thread to wake up. Whoever gets something to do sees to it first that somebody is left to
 * take the next one. */
#ifndef MF_BASE_LEADER_FOLLOWER_H
#define MF_BASE_LEADER_FOLLOWER_H

#include "base/status.h"

#include <pthread.h>

typedef struct mf_leader_follower {
    int most; /* threads, of which each may wait for something */
    int spare; /* that stay when there is nothing to do */
    /* A thread's life: it waits for something to come, says mf_leader_follower_takes(), does it,
     * and asks mf_leader_follower_stays(); when that is false, or nothing will come, it returns. */
    void (*live)(void *ctx);
    void *ctx;

    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    int threads, idle;
} mf_leader_follower;

/* Sets up all that `most`, `spare`, `live` and `ctx` do not say, and starts the first thread. */
MF_MUST mf_status mf_leader_follower_start(mf_leader_follower *crew);
/* This thread has something to do. False: nobody is left for what comes next, so it must not wait
 * for anything. */
bool mf_leader_follower_takes(mf_leader_follower *crew);
/* It has done it: is it still needed? Else it must end, without mf_leader_follower_ends(). */
bool mf_leader_follower_stays(mf_leader_follower *crew);
/* A thread that is idle ends, because nothing will come. */
void mf_leader_follower_ends(mf_leader_follower *crew);
/* Waits until all threads have ended. */
void mf_leader_follower_join(mf_leader_follower *crew);

#endif
