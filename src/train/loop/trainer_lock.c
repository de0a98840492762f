/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_lock.c - the reader/writer lock of a trainer, which its exclusive owner may lock again.
 */
#include "train/loop/trainer_lock.h"

void mf_trainer_lock_init(mf_trainer_lock *t)
{
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
}

void mf_trainer_lock_deinit(mf_trainer_lock *t)
{
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
}

static bool is_mine(const mf_trainer_lock *t)
{
    return t->depth > 0 && pthread_equal(t->owner, pthread_self());
}

static void wait_for_turn(mf_trainer_lock *t, bool alone)
{
    bool waited = false;

    t->waiting++;
    t->waiting_alone += alone;
    /* Waiting exclusive threads precede new shared ones, or they would starve. */
    while (t->depth > 0 || (alone ? t->sharing > 0 : t->waiting_alone > 0)) {
        waited = true;
        pthread_cond_wait(&t->changed, &t->lock);
    }
    t->waiting--;
    t->waiting_alone -= alone;
    t->served += waited;
    pthread_cond_broadcast(&t->changed);
}

mf_trainer_lock *mf_trainer_lock_share(mf_trainer_lock *t)
{
    pthread_mutex_lock(&t->lock);
    if (is_mine(t)) {
        t->depth++;
    } else {
        wait_for_turn(t, false);
        t->sharing++;
    }
    pthread_mutex_unlock(&t->lock);
    return t;
}

static void take_locked(mf_trainer_lock *t)
{
    wait_for_turn(t, true);
    t->owner = pthread_self();
    t->depth = 1;
}

mf_trainer_lock *mf_trainer_lock_take(mf_trainer_lock *t)
{
    pthread_mutex_lock(&t->lock);
    if (is_mine(t))
        t->depth++;
    else
        take_locked(t);
    pthread_mutex_unlock(&t->lock);
    return t;
}

void mf_trainer_lock_end(mf_trainer_lock *t)
{
    pthread_mutex_lock(&t->lock);
    if (is_mine(t))
        t->depth--;
    else
        t->sharing--;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void mf_trainer_lock_pass(mf_trainer_lock *t)
{
    pthread_mutex_lock(&t->lock);
    if (t->waiting > 0) {
        const int64_t served = t->served;

        t->depth = 0;
        pthread_cond_broadcast(&t->changed);
        while (t->served == served && t->waiting > 0)
            pthread_cond_wait(&t->changed, &t->lock);
        take_locked(t);
    }
    pthread_mutex_unlock(&t->lock);
}

bool mf_trainer_lock_is_mine(mf_trainer_lock *t)
{
    bool mine;

    pthread_mutex_lock(&t->lock);
    mine = is_mine(t);
    pthread_mutex_unlock(&t->lock);
    return mine;
}
