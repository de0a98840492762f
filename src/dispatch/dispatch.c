/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.c - opening and closing: finds the master and the workers. */
#include "base/host_state.h"
#include "dispatch/dispatch_private.h"
#include "dist/strategies.h"

/* ---- roles ---- */

/* Task numbers: first the tasks that compute, by rank, then the masters. */
static int find_hub(const mf_cluster *c)
{
    return mf_cluster_count(c, MF_ROLE_MASTER) > 0 ? c->size : 0;
}

static mf_status check_roles(const mf_cluster *c)
{
    const mf_cluster_task *self = mf_cluster_self(c);

    if (self && !mf_role_trains(self->role) && self->role != MF_ROLE_MASTER)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "this process is %s %d, which cannot run closures: master, chief "
                       "and worker can",
                       mf_role_name(self->role), self->index);
    if (c->size < 1 && c->n_tasks > 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the cluster has no workers to run calls: list some under \"worker\", or "
                       "give --workers 1");
    return MF_OK;
}

/* ---- the master ---- */

/* All other tasks: workers, then the other masters. */
static mf_status dispatch_lead(mf_dispatch *d, const mf_cluster *c)
{
    const int n = c->size + mf_cluster_count(c, MF_ROLE_MASTER);
    int *tasks = mf_calloc(n, sizeof *tasks), n_tasks = 0;
    mf_status st;

    if (!tasks)
        return MF_NOMEM("tasks");
    for (int i = 0; i < n; i++) {
        if (i != d->hub)
            tasks[n_tasks++] = i;
    }
    st = mf_master_new(d, tasks, n_tasks, d->hub < c->size ? c->size - 1 : c->size, &d->master);
    mf_free(tasks);
    return st;
}

/* ---- opening and closing ---- */

static mf_status dispatch_copy_options(mf_dispatch *d, const mf_dispatch_options *o)
{
    if (o->queue < 0 || o->slots < 0 || o->threads < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "mf_dispatch_open(): queue %lld, slots %d, threads %d: none may be negative",
                       (long long)o->queue, o->slots, o->threads);
    d->o = *o;
    d->o.cluster = NULL;
    d->dirs = mf_calloc(o->n_allow_dirs, sizeof *d->dirs);
    d->o.allow_dirs = (const char *const *)d->dirs;
    if (!d->dirs)
        return MF_NOMEM("directories");
    for (int i = 0; i < o->n_allow_dirs; i++) {
        d->dirs[i] = mf_strdup(o->allow_dirs[i]);
        if (!d->dirs[i])
            return MF_NOMEM("directories");
    }
    return MF_OK;
}

static mf_status join_cluster(mf_dispatch *d, const mf_strategy_options *o, const mf_cluster *c)
{
    mf_arena *arena = mf_arena_new();
    const mf_strategy_call call = {
        .name = "dispatch", .o = o, .cluster = c, .timeout_ns = d->timeout_ns, .arena = arena
    };
    const mf_status st = arena ? mf_job_connect_with(&call, MF_ROLE_MASTER, &d->hub, &d->net)
                               : MF_NOMEM("a cluster");

    mf_arena_free(arena);
    return st;
}

static mf_status dispatch_open_all(mf_dispatch *d, const mf_strategy_options *o)
{
    mf_cluster *c;
    mf_status st;

    MF_TRY(mf_job_resolve(o, &c));
    d->hub = find_hub(c);
    d->timeout_ns = mf_job_timeout_ns(o);
    st = check_roles(c);
    if (st == MF_OK && c->n_tasks > 1)
        st = join_cluster(d, o, c);
    if (st == MF_OK && !d->net) {
        st = mf_master_new(d, NULL, 0, 0, &d->master);
    } else if (st == MF_OK) {
        d->spare = mf_net_self(d->net) > d->hub && d->hub >= c->size;
        if (mf_net_self(d->net) == d->hub)
            st = dispatch_lead(d, c);
    }
    mf_cluster_free(c);
    return st;
}

mf_status mf_dispatch_open(const mf_dispatch_options *options, mf_dispatch **out)
{
    MF_ENTRY;
    MF_NEED(out);
    if (options)
        MF_NEED_ALL(options->allow_dirs, options->n_allow_dirs);

    const mf_dispatch_options none = { 0 }, *o = options ? options : &none;
    const mf_strategy_options usual = { 0 };
    mf_dispatch *d = mf_calloc(1, sizeof *d);
    mf_status st;
    mf_error why;

    *out = NULL;
    if (!d)
        return MF_NOMEM("a dispatch");
    st = dispatch_copy_options(d, o);
    if (st == MF_OK)
        st = dispatch_open_all(d, o->cluster ? o->cluster : &usual);
    if (st == MF_OK) {
        *out = d;
        return MF_OK;
    }
    mf_error_save(st, &why);
    mf_dispatch_close(d);
    return mf_error_restore(&why);
}

void mf_dispatch_close(mf_dispatch *d)
{
    MF_ENTRY_OR();

    if (!d)
        return;
    mf_dispatch_cancel(d);
    mf_master_free(d->master);
    mf_net_close(d->net);
    for (int i = 0; d->dirs && i < d->o.n_allow_dirs; i++)
        mf_free(d->dirs[i]);
    mf_free(d->dirs);
    mf_free(d);
}

bool mf_dispatch_is_master(const mf_dispatch *d)
{
    return d && d->master;
}

mf_status mf_dispatch_serve(mf_dispatch *d)
{
    MF_ENTRY;
    MF_NEED(d);

    if (d->master)
        return MF_FAIL(MF_FAILED_PRECONDITION, "this task is the master: it does not serve");
    return mf_worker_serve(d);
}
