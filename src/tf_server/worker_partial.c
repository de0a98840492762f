/* SPDX-License-Identifier: Apache-2.0 */
/* worker_partial.c - RunGraph of a partial run. The first call starts this task's part on a thread
 * of its own. Feeds and fetches go through the rendezvous table of the step. The last call waits
 * until the part has ended. */
#include "base/cond.h"
#include "base/map.h"
#include "base/thread.h"
#include "runtime/session.h"
#include "tf_server/step_rendezvous.h"
#include "tf_server/worker.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct worker_partial {
    char name[17]; /* of its step */
    mf_worker_graph *graph;
    mf_step_rendezvous rendezvous;
    mf_cancel cancel;
    pthread_t thread;
    bool has_thread;
    int refs; /* held by calls and the map; guarded by the service's lock */
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    bool ended;
    mf_error how;
} worker_partial;

struct mf_worker_partials {
    mf_server *server;
    pthread_mutex_t lock;
    mf_map by_step; /* guarded by lock */
};

/* ---- one part ---- */

static mf_status run_nodes(worker_partial *p)
{
    int n;
    const char *const *targets = mf_worker_graph_targets(p->graph, &n);
    mf_server *server = p->rendezvous.server;

    if (n == 0)
        return MF_OK;
    return mf_session_run_with(mf_worker_graph_session(p->graph), &(mf_run_options){ 0 },
                               &(mf_run_with){ .until = &p->cancel,
                                               .rendezvous = &p->rendezvous.base,
                                               .task = mf_server_self(server)->name,
                                               .step = p->rendezvous.step },
                               NULL, NULL, 0, NULL, 0, targets, n, NULL);
}

static void *worker_partial_run_it(void *arg)
{
    worker_partial *p = arg;
    const mf_status st = run_nodes(p);
    mf_error how;

    mf_error_save(st, &how);
    if (st != MF_OK)
        mf_rendezvous_table_fail(p->rendezvous.table, st);
    pthread_mutex_lock(&p->lock);
    p->how = how;
    p->ended = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void worker_partial_free(worker_partial *p)
{
    mf_cancel_raise(&p->cancel);
    if (p->has_thread)
        pthread_join(p->thread, NULL);
    if (p->rendezvous.table)
        mf_step_rendezvous_end(&p->rendezvous,
                               MF_OK); /* worker_partial_run_it() reports the failure */
    mf_worker_graph_release(p->graph);
    mf_cancel_deinit(&p->cancel);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    mf_free(p);
}

static mf_status partial_new(mf_server *server, mf_worker_graph *g, int64_t step,
                             worker_partial **out)
{
    worker_partial *p = mf_calloc(1, sizeof *p);
    mf_status st;

    *out = NULL;
    if (!p)
        return MF_NOMEM("a run");
    (void)snprintf(p->name, sizeof p->name, "%016" PRIx64, (uint64_t)step);
    mf_cancel_init(&p->cancel);
    pthread_mutex_init(&p->lock, NULL);
    mf_cond_init(&p->changed);
    p->graph = mf_worker_graph_ref(g);
    p->refs = 1;
    st = mf_step_rendezvous_begin(&p->rendezvous, server, step);
    p->rendezvous.leader = mf_worker_graph_leader(g);
    if (st == MF_OK && mf_thread_start(&p->thread, worker_partial_run_it, p) != 0)
        st = MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread");
    else
        p->has_thread = st == MF_OK;
    if (st == MF_OK)
        *out = p;
    else
        worker_partial_free(p);
    return st;
}

/* ---- all parts of a task ---- */

mf_status mf_worker_partials_new(mf_server *server, mf_worker_partials **out)
{
    *out = mf_calloc(1, sizeof **out);
    if (!*out)
        return MF_NOMEM("a server");
    (*out)->server = server;
    pthread_mutex_init(&(*out)->lock, NULL);
    return MF_OK;
}

void mf_worker_partials_free(mf_worker_partials *all)
{
    if (!all)
        return;
    mf_worker_partials_end(all, NULL);
    mf_map_deinit(&all->by_step);
    pthread_mutex_destroy(&all->lock);
    mf_free(all);
}

static void worker_partial_unref(mf_worker_partials *all, worker_partial *p)
{
    bool last;

    pthread_mutex_lock(&all->lock);
    last = --p->refs == 0;
    pthread_mutex_unlock(&all->lock);
    if (last)
        worker_partial_free(p);
}

/* The caller holds the lock. */
static mf_status worker_partial_add(mf_worker_partials *all, mf_worker_graph *g, int64_t step,
                                    worker_partial **out)
{
    mf_status st;

    MF_TRY(partial_new(all->server, g, step, out));
    st = mf_map_set(&all->by_step, (*out)->name, *out);
    if (st != MF_OK)
        worker_partial_free(*out);
    return st;
}

/* The part of this step; started if there is none. Owns: worker_partial_unref(). */
static mf_status find_or_start(mf_worker_partials *all, mf_worker_graph *g, int64_t step,
                               worker_partial **out)
{
    char name[sizeof(*out)->name];
    mf_status st = MF_OK;

    (void)snprintf(name, sizeof name, "%016" PRIx64, (uint64_t)step);
    pthread_mutex_lock(&all->lock);
    *out = mf_map_find(&all->by_step, name);
    if (!*out)
        st = worker_partial_add(all, g, step, out);
    if (st == MF_OK)
        (*out)->refs++;
    pthread_mutex_unlock(&all->lock);
    return st;
}

/* Removes it from the map. Calls in progress see that it has ended. */
static void worker_partial_end(mf_worker_partials *all, worker_partial *p)
{
    mf_cancel_raise(&p->cancel);
    worker_partial_unref(all, p);
}

static worker_partial *worker_partial_take(mf_worker_partials *all, const char *name)
{
    worker_partial *p;

    pthread_mutex_lock(&all->lock);
    p = mf_map_remove(&all->by_step, name);
    pthread_mutex_unlock(&all->lock);
    return p;
}

void mf_worker_partials_end_step(mf_worker_partials *all, int64_t step)
{
    char name[sizeof((worker_partial *)0)->name];
    worker_partial *p;

    (void)snprintf(name, sizeof name, "%016" PRIx64, (uint64_t)step);
    p = worker_partial_take(all, name);
    if (p)
        worker_partial_end(all, p);
}

/* Removes and returns one of this graph, or of any; NULL: none. */
static worker_partial *take_any(mf_worker_partials *all, const mf_worker_graph *g)
{
    mf_map_entry *e;
    worker_partial *found = NULL;
    int64_t it = 0;

    pthread_mutex_lock(&all->lock);
    while (!found && (e = mf_map_next(&all->by_step, &it)) != NULL) {
        found = e->value;
        if (g && found->graph != g)
            found = NULL;
    }
    if (found)
        (void)mf_map_remove(&all->by_step, found->name);
    pthread_mutex_unlock(&all->lock);
    return found;
}

void mf_worker_partials_end(mf_worker_partials *all, const mf_worker_graph *g)
{
    worker_partial *p;

    while ((p = take_any(all, g)) != NULL)
        worker_partial_end(all, p);
}

/* ---- one call ---- */

static mf_status worker_partial_await_end(worker_partial *p)
{
    pthread_mutex_lock(&p->lock);
    while (!p->ended)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return p->how.status == MF_OK ? MF_OK : mf_error_restore(&p->how);
}

static mf_status worker_partial_feed_and_fetch(worker_partial *p,
                                               const Tensorflow__RunGraphRequest *q,
                                               mf_tensor *values)
{
    MF_TRY(mf_worker_put_sent(p->rendezvous.table, q));
    for (size_t i = 0; i < q->n_recv_key; i++)
        MF_TRY(
            mf_rendezvous_table_await(p->rendezvous.table, q->recv_key[i], &p->cancel, &values[i]));
    return q->is_last_partial_run ? worker_partial_await_end(p) : MF_OK;
}

typedef struct ender {
    mf_cancel_hook hook; /* first */
    worker_partial *run;
} ender;

static void end_run(mf_cancel_hook *hook)
{
    mf_cancel_raise(&((ender *)(void *)hook)->run->cancel);
}

mf_status mf_worker_partial_call(mf_request *r, const Tensorflow__RunGraphRequest *q,
                                 mf_worker_graph *g, mf_tensor *values)
{
    mf_worker_partials *all = r->server->partials;
    ender e = { .hook.fn = end_run };
    bool waits;
    mf_status st;
    mf_error why;

    MF_TRY(find_or_start(all, g, q->step_id, &e.run));
    waits = mf_cancel_add(&r->cancel, &e.hook);
    if (!waits)
        mf_cancel_raise(&e.run->cancel);
    st = worker_partial_feed_and_fetch(e.run, q, values);
    if (waits)
        (void)mf_cancel_remove(&r->cancel, &e.hook);
    mf_error_save(st, &why);
    if (q->is_last_partial_run)
        mf_worker_partials_end_step(all, q->step_id);
    worker_partial_unref(all, e.run);
    return st == MF_OK ? MF_OK : mf_error_restore(&why);
}
