/* SPDX-License-Identifier: Apache-2.0 */
/* active_runs.c - the list of running steps of a session, for cancellation and close. */
#include "runtime/active_runs.h"

#include "base/mem.h"

static mf_status flag_new(mf_active_runs_flag **out)
{
    *out = mf_calloc(1, sizeof **out);
    if (!*out)
        return MF_NOMEM("a session");
    mf_cancel_init(&(*out)->cancel);
    return MF_OK;
}

static void flag_free(mf_active_runs_flag *f)
{
    if (!f)
        return;
    mf_cancel_deinit(&f->cancel);
    mf_free(f);
}

mf_status mf_active_runs_init(mf_active_runs *r)
{
    *r = (mf_active_runs){ 0 };
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->ended, NULL);
    return flag_new(&r->flag);
}

void mf_active_runs_deinit(mf_active_runs *r)
{
    flag_free(r->flag);
    pthread_cond_destroy(&r->ended);
    pthread_mutex_destroy(&r->lock);
}

/* The flag that ends all runs also ends this one. */
static void active_runs_pass_on(mf_cancel_hook *hook)
{
    mf_cancel_raise(((mf_run *)(void *)hook)->cancel);
}

void mf_active_runs_begin(mf_active_runs *r, mf_cancel *until, mf_run *run)
{
    pthread_mutex_lock(&r->lock);
    *run = (mf_run){ .hook.fn = active_runs_pass_on, .flag = r->flag };
    run->flag->runs++;
    r->running++;
    pthread_mutex_unlock(&r->lock);
    run->cancel = until ? until : &run->flag->cancel;
    if (until && !mf_cancel_add(&run->flag->cancel, &run->hook))
        mf_cancel_raise(until);
}

void mf_active_runs_end(mf_active_runs *r, mf_run *run)
{
    if (run->cancel != &run->flag->cancel)
        (void)mf_cancel_remove(&run->flag->cancel, &run->hook);
    pthread_mutex_lock(&r->lock);
    r->running--;
    if (--run->flag->runs == 0)
        pthread_cond_broadcast(&r->ended);
    pthread_mutex_unlock(&r->lock);
}

void mf_active_runs_cancel(mf_active_runs *r)
{
    mf_active_runs_flag *old, *fresh;

    if (flag_new(&fresh) != MF_OK)
        return;
    pthread_mutex_lock(&r->lock);
    old = r->flag;
    r->flag = fresh;
    pthread_mutex_unlock(&r->lock);
    mf_cancel_raise(&old->cancel);
    pthread_mutex_lock(&r->lock);
    while (old->runs > 0) /* they refer to it */
        pthread_cond_wait(&r->ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
    flag_free(old);
}

void mf_active_runs_drain(mf_active_runs *r)
{
    mf_active_runs_cancel(r);
    pthread_mutex_lock(&r->lock);
    while (r->running > 0)
        pthread_cond_wait(&r->ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
}
