/* SPDX-License-Identifier: Apache-2.0 */
/* leader_follower.c - the leader/follower thread pool: the thread that receives an event also
 * handles it. */
#include "base/leader_follower.h"

#include "base/cond.h"
#include "base/thread.h"

static void *leader_follower_live(void *arg)
{
    mf_leader_follower *lf = arg;

    lf->live(lf->ctx);
    return NULL;
}

static bool start_thread(mf_leader_follower *lf)
{
    pthread_t thread;

    if (mf_thread_start(&thread, leader_follower_live, lf) != 0)
        return false;
    (void)pthread_detach(thread);
    return true;
}

mf_status mf_leader_follower_start(mf_leader_follower *lf)
{
    pthread_mutex_init(&lf->lock, NULL);
    mf_cond_init(&lf->changed);
    lf->threads = lf->idle = 1;
    if (start_thread(lf))
        return MF_OK;
    lf->threads = lf->idle = 0;
    return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no more threads");
}

bool mf_leader_follower_takes(mf_leader_follower *lf)
{
    bool missing, left;

    pthread_mutex_lock(&lf->lock);
    missing = --lf->idle == 0 && lf->threads < lf->most;
    lf->threads += missing;
    lf->idle += missing;
    left = lf->idle > 0;
    pthread_mutex_unlock(&lf->lock);
    if (!missing || start_thread(lf))
        return left;
    pthread_mutex_lock(&lf->lock);
    lf->threads--;
    left = --lf->idle > 0;
    pthread_mutex_unlock(&lf->lock);
    return left;
}

bool mf_leader_follower_stays(mf_leader_follower *lf)
{
    bool needed;

    pthread_mutex_lock(&lf->lock);
    needed = lf->idle < lf->spare;
    lf->idle += needed;
    lf->threads -= !needed;
    pthread_cond_broadcast(&lf->changed);
    pthread_mutex_unlock(&lf->lock);
    return needed;
}

void mf_leader_follower_ends(mf_leader_follower *lf)
{
    pthread_mutex_lock(&lf->lock);
    lf->idle--;
    lf->threads--;
    pthread_cond_broadcast(&lf->changed);
    pthread_mutex_unlock(&lf->lock);
}

void mf_leader_follower_join(mf_leader_follower *lf)
{
    pthread_mutex_lock(&lf->lock);
    while (lf->threads > 0)
        pthread_cond_wait(&lf->changed, &lf->lock);
    pthread_mutex_unlock(&lf->lock);
    pthread_cond_destroy(&lf->changed);
    pthread_mutex_destroy(&lf->lock);
}
