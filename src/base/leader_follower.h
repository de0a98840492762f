/* SPDX-License-Identifier: Apache-2.0 */
/* leader_follower.h - leader/follower threads: the thread that receives an event also handles it,
 * so no event waits for another thread to wake up. Before a thread handles an event, it makes sure
 * that another thread waits for the next one. */
#ifndef MF_BASE_LEADER_FOLLOWER_H
#define MF_BASE_LEADER_FOLLOWER_H

#include "base/status.h"

#include <pthread.h>

typedef struct mf_leader_follower {
    int most; /* maximum number of threads, each of which may block */
    int spare; /* threads that stay when idle */
    /* The main function of a thread: it waits for an event, calls mf_leader_follower_takes(),
     * handles the event, and calls mf_leader_follower_stays(). It returns when that is false, or
     * when no more events will come. */
    void (*live)(void *ctx);
    void *ctx;

    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t changed;
    int threads, idle;
} mf_leader_follower;

/* Initialises the fields other than `most`, `spare`, `live` and `ctx`, and starts the first thread.
 */
MF_MUST mf_status mf_leader_follower_start(mf_leader_follower *lf);
/* This thread has an event to handle. False: no thread is left to wait for the next event, so the
 * handler must not block. */
bool mf_leader_follower_takes(mf_leader_follower *lf);
/* The event is handled. False: this thread is not needed any more and must end, without calling
 * mf_leader_follower_ends(). */
bool mf_leader_follower_stays(mf_leader_follower *lf);
/* An idle thread ends, because no more events will come. */
void mf_leader_follower_ends(mf_leader_follower *lf);
/* Waits until all threads have ended. */
void mf_leader_follower_join(mf_leader_follower *lf);

#endif
