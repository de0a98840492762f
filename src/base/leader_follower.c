/* SPDX-License-Identifier: Apache-2.0 */
/* leader_follower.c - see leader_follower.h. */
#include "base/leader_follower.h"

#include "base/cond.h"
#include "base/thread.h"

static void *leader_follower_live(void *arg)
{
    mf_leader_follower *crew = arg;

    crew->live(crew->ctx);
    return NULL;
}

static bool start_thread(mf_leader_follower *crew)
{
    pthread_t thread;

    if (mf_thread_start(&thread, leader_follower_live, crew) != 0)
        return false;
    (void)pthread_detach(thread);
    return true;
}

mf_status mf_leader_follower_start(mf_leader_follower *crew)
{
    pthread_mutex_init(&crew->lock, NULL);
    mf_cond_init(&crew->changed);
    crew->threads = crew->idle = 1;
    if (start_thread(crew))
        return MF_OK;
    crew->threads = crew->idle = 0;
    return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no more threads");
}

bool mf_leader_follower_takes(mf_leader_follower *crew)
{
    bool missing, left;

    pthread_mutex_lock(&crew->lock);
    missing = --crew->idle == 0 && crew->threads < crew->most;
    crew->threads += missing;
    crew->idle += missing;
    left = crew->idle > 0;
    pthread_mutex_unlock(&crew->lock);
    if (!missing || start_thread(crew))
        return left;
    pthread_mutex_lock(&crew->lock);
    crew->threads--;
    left = --crew->idle > 0;
    pthread_mutex_unlock(&crew->lock);
    return left;
}

bool mf_leader_follower_stays(mf_leader_follower *crew)
{
    bool needed;

    pthread_mutex_lock(&crew->lock);
    needed = crew->idle < crew->spare;
    crew->idle += needed;
    crew->threads -= !needed;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
    return needed;
}

void mf_leader_follower_ends(mf_leader_follower *crew)
{
    pthread_mutex_lock(&crew->lock);
    crew->idle--;
    crew->threads--;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

void mf_leader_follower_join(mf_leader_follower *crew)
{
    pthread_mutex_lock(&crew->lock);
    while (crew->threads > 0)
        pthread_cond_wait(&crew->changed, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
    pthread_cond_destroy(&crew->changed);
    pthread_mutex_destroy(&crew->lock);
}
