/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_master.c - the master: its agents, and statistics of each worker. */
#include "base/cond.h"
#include "base/host_state.h"
#include "dispatch/dispatch_private.h"

/* ---- receiving messages ---- */

static void dispatch_master_take_message(void *ctx, int from, const mf_frame *f, void *data)
{
    mf_master *m = ctx;

    for (int i = 0; i < m->n_agents; i++) {
        if (m->agents[i].task == from) {
            mf_mailbox_put(&m->agents[i].box, from, f, data);
            return;
        }
    }
    mf_free(data);
}

static void wake_agents(void *ctx)
{
    mf_master_wake(ctx);
}

void mf_master_wake(mf_master *m)
{
    for (int i = 0; i < m->n_agents; i++)
        mf_mailbox_wake(&m->agents[i].box);
}

/* ---- opening and closing ---- */

/* This process runs the calls, one at a time; all of its threads work on each call. */
static mf_status add_own_process(mf_master *m)
{
    mf_agent *a = &m->agents[0];

    a->done.name = "this process";
    a->task = -1;
    a->running = mf_calloc(1, sizeof *a->running);
    if (!a->running)
        return MF_NOMEM("a worker");
    a->done.slots = 1;
    return mf_dispatch_call_runner_new(&m->d->o, &m->runner);
}

static mf_status dispatch_master_start(mf_master *m, const int *tasks, int n)
{
    for (int i = 0; i < n; i++) {
        m->agents[i].task = tasks[i];
        m->agents[i].done.name = mf_net_name(m->d->net, tasks[i]);
    }
    if (n == 0)
        MF_TRY(add_own_process(m));
    if (m->d->net) {
        m->watch = (mf_net_watch){ .fn = wake_agents, .ctx = m, .questions = true };
        mf_net_watch_add(m->d->net, &m->watch);
        mf_net_serve(m->d->net, dispatch_master_take_message, m);
    }
    for (int i = 0; i < m->n_agents; i++)
        MF_TRY(mf_agent_start(&m->agents[i]));
    return MF_OK;
}

mf_status mf_master_new(mf_dispatch *d, const int *tasks, int n, int n_workers, mf_master **out)
{
    mf_master *m = mf_calloc(1, sizeof *m);
    mf_status st;

    *out = NULL;
    if (!m)
        return MF_NOMEM("a master");
    pthread_mutex_init(&m->lock, NULL);
    mf_cond_init(&m->changed);
    m->d = d;
    m->n_agents = n > 0 ? n : 1;
    m->n_workers = m->n_left = n > 0 ? n_workers : 1;
    m->agents = mf_calloc(m->n_agents, sizeof *m->agents);
    if (!m->agents)
        m->n_agents = 0;
    for (int i = 0; i < m->n_agents; i++) {
        m->agents[i].master = m;
        m->agents[i].index = i;
        mf_mailbox_init(&m->agents[i].box);
    }
    st = m->agents ? dispatch_master_start(m, tasks, n) : MF_NOMEM("a master");
    if (st == MF_OK) {
        *out = m;
        return MF_OK;
    }
    mf_master_free(m);
    return st;
}

static void free_agent(mf_agent *a)
{
    for (int k = 0; k < a->done.slots; k++) {
        if (a->running[k])
            mf_future_unref(a->running[k]);
    }
    mf_free(a->running);
    mf_free(a->shipped);
    mf_mailbox_deinit(&a->box);
}

void mf_master_free(mf_master *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->closing = true;
    pthread_mutex_unlock(&m->lock);
    if (m->runner)
        mf_dispatch_call_runner_stop(m->runner);
    for (int i = 0; i < m->n_agents; i++)
        mf_agent_stop(&m->agents[i]);
    if (m->d->net) {
        mf_net_serve(m->d->net, NULL, NULL);
        mf_net_watch_remove(m->d->net, &m->watch);
    }
    for (int i = 0; i < m->n_agents; i++)
        free_agent(&m->agents[i]);
    while (m->graphs) {
        mf_shipped *s = m->graphs;

        m->graphs = s->next;
        mf_bytes_free(s->bytes);
        mf_free(s);
    }
    mf_dispatch_call_runner_free(m->runner);
    mf_free(m->agents);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    mf_free(m);
}

/* ---- statistics ---- */

int mf_dispatch_workers(const mf_dispatch *d)
{
    MF_ENTRY_OR(0);

    return d && d->master ? d->master->n_workers : 0;
}

void mf_dispatch_done(mf_dispatch *d, int worker, mf_worker_done *out)
{
    MF_ENTRY_OR();
    if (!d || !out)
        return;

    *out = (mf_worker_done){ 0 };
    if (worker < 0 || worker >= mf_dispatch_workers(d))
        return;
    pthread_mutex_lock(&d->master->lock);
    *out = d->master->agents[worker].done;
    pthread_mutex_unlock(&d->master->lock);
}
