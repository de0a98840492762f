/* SPDX-License-Identifier: Apache-2.0 */
/* ps_elastic.c - parameter servers and workers that join and are lost: the state of servers after a
 * rendezvous, what a recovery releases and assigns, and serving. */
#include "base/mem.h"
#include "dist/param_server/ps_job.h"

/* ---- the state of servers ---- */

/* The servers' state is lost. All workers begin again, with the state that the chief can restore.
 */
static mf_status strategy_param_server_restart(mf_ps_job *j, mf_trainer *t)
{
    mf_status st;

    t->has_state = false;
    j->dist.history.trained = true;
    st = MF_FAIL(MF_ABORTED, "the remaining servers do not have all of the weights");
    mf_net_abort(j->net, st); /* which leads to another rendezvous */
    return st;
}

/* The chief looks for the servers' state, and all workers get the result. */
static mf_status share_found(mf_ps_job *j, const mf_trainer *t, bool *found)
{
    const mf_collective c = mf_dist_collective(&j->dist, t->step, "the servers' state");

    return mf_broadcast(j->dist.group, &c, 0, found, sizeof *found);
}

/* The chief recovers the servers' state after the last step, if training has begun. */
static mf_status recover(mf_ps_job *j, mf_trainer *t)
{
    bool found = true;

    if (!j->dist.members || j->dist.history.fresh)
        return MF_OK;
    if (j->dist.rank == 0)
        MF_TRY(mf_ps_client_recover(j->client, t->step, &found));
    MF_TRY(share_found(j, t, &found));
    return found ? MF_OK : strategy_param_server_restart(j, t);
}

/* The chief has the variables of the job: servers begin with them. */
static mf_status begin_servers(mf_ps_job *j, mf_trainer *t)
{
    mf_ps_client_begin(j->client);
    if (j->dist.rank == 0)
        MF_TRY(mf_ps_client_set(j->client));
    j->start = t->step;
    return MF_OK;
}

/* Asynchronous servers have the state of the job: this worker pulls it. */
static mf_status strategy_param_server_go_on(mf_ps_job *j)
{
    mf_ps_progress *each = mf_calloc(j->n_servers, sizeof *each);
    mf_status st = each ? mf_ps_client_progress(j->client, each) : MF_NOMEM("parameter servers");

    if (st == MF_OK) {
        j->start = each[0].start;
        st = mf_ps_client_get(j->client);
    }
    mf_free(each);
    return st;
}

/* Without servers, their copies and a checkpoint, a training that has done steps is lost. */
static mf_status check_lost(mf_ps_job *j, const mf_trainer *t)
{
    bool trained = false;

    if (!j->dist.members || t->step > 0)
        return MF_OK;
    MF_TRY(mf_members_marked(j->members.members, MF_PS_TRAINED, &trained));
    if (!trained)
        return MF_OK;
    return MF_FAIL(MF_DATA_LOSS, "the parameter servers that had the weights are lost with all "
                                 "copies, and there is no checkpoint to continue from; give "
                                 "--out and --save-steps, or more parameter servers");
}

/* Asynchronous servers keep the training while workers join and are lost, even if all workers are
 * new. */
static mf_status follow_servers(mf_ps_job *j, mf_trainer *t)
{
    bool found = false;

    if (j->dist.members && j->dist.rank == 0)
        MF_TRY(mf_ps_client_restore(j->client, &found));
    if (j->dist.members)
        MF_TRY(share_found(j, t, &found));
    if (found)
        return strategy_param_server_go_on(j);
    if (j->dist.members && !j->dist.history.fresh)
        return strategy_param_server_restart(j, t);
    MF_TRY(check_lost(j, t));
    return begin_servers(j, t);
}

mf_status mf_ps_job_aligned(mf_dist *dist, mf_trainer *t)
{
    mf_ps_job *j = mf_ps_job_of(dist);

    if (j->mode.sync)
        MF_TRY(recover(j, t));
    MF_TRY(j->mode.sync ? begin_servers(j, t) : follow_servers(j, t));
    mf_dist_set_cap(dist, MF_DIST_LOCKSTEP, j->mode.sync);
    j->stop = false;
    j->began = true;
    return mf_dist_barrier(dist, t->step, "the servers' beginning");
}

/* ---- servers ---- */

/* A server that was asked to end serves as long as there are workers. */
static bool may_leave(mf_ps_job *j)
{
    return j->n_workers == 0 && (atomic_load(&j->dist.leave_requested) ||
                                 mf_trainer_wants_stop(j->members.recovery.trainer));
}

static bool server_waits_for_next(void *ctx)
{
    mf_ps_job *j = ctx;

    return may_leave(j) || mf_members_wait_for_next(j->members.members);
}

/* kept: see mf_ps_server_options. */
static mf_status serve_once(mf_ps_job *j, mf_trainer *t, struct server **kept)
{
    return mf_ps_serve(
        &(mf_ps_server_options){ .net = j->net,
                                 .n_workers = j->n_workers,
                                 .index = j->index,
                                 .n_servers = j->n_servers,
                                 .mode = j->mode,
                                 .timeout_ns = j->dist.timeout_ns,
                                 .copies = j->dist.members ? &j->copies : NULL,
                                 .n_copies = j->n_copies,
                                 .kept = kept,
                                 .generation = j->dist.members ? j->members.view->epoch : 0,
                                 .wait_for_next = j->dist.members ? server_waits_for_next : NULL,
                                 .ctx = j },
        t);
}

/* ---- recovery: workers ---- */

static void ps_release(mf_dist *dist)
{
    mf_ps_job *j = mf_ps_job_of(dist);
    mf_traffic before;

    mf_ps_job_traffic(dist, &before);
    j->pushed = before.pushed_bytes;
    j->pulled = before.pulled_bytes;
    if (j->client)
        mf_session_set_exchange(mf_ps_client_trainer(j->client)->session, NULL);
    mf_ps_client_free(j->client);
    mf_ps_host_aggregate_close(&j->host_aggregate);
    j->client = NULL;
    j->net = NULL;
}

/* Slices of asynchronous servers keep their number: each has its own set of completed batches. */
static int ps_servers_needed(const mf_dist *dist)
{
    const mf_ps_job *j = mf_ps_job_of((mf_dist *)(uintptr_t)dist);

    return j->mode.sync ? 1 : j->n_slices;
}

static void take_view(mf_ps_job *j)
{
    j->net = j->members.net;
    j->n_workers = j->members.n_workers;
    j->n_servers = j->members.n_servers;
}

static mf_status ps_assign(mf_dist *dist, mf_trainer *t)
{
    mf_ps_job *j = mf_ps_job_of(dist);

    take_view(j);
    if (!j->mode.sync) /* other servers are on standby */
        j->n_servers = ps_servers_needed(dist);
    if (j->by_host)
        MF_TRY(mf_ps_host_aggregate_open(j->net, j->n_workers, j->n_servers, dist->timeout_ns,
                                         &j->host_aggregate));
    return mf_ps_job_join(dist, t);
}

const mf_recovery_hooks mf_ps_worker_recovery = { .release = ps_release,
                                                  .servers_needed = ps_servers_needed,
                                                  .assign = ps_assign };

/* ---- recovery: servers ---- */

/* Synchronous servers get their variables from the workers, which have all of them. */
static mf_status serve_or_stand_by(mf_ps_job *j, mf_trainer *t)
{
    const int needed = ps_servers_needed(&j->dist);

    if (j->mode.sync)
        return serve_once(j, t, NULL);
    if (j->n_servers < needed)
        return mf_recovery_await_servers(&j->members, needed);
    j->n_servers = needed;
    return j->index < needed ? serve_once(j, t, &j->kept)
                             : mf_recovery_await_servers(&j->members, 0);
}

static mf_status serve_epoch(mf_dist *dist, mf_trainer *t)
{
    mf_ps_job *j = mf_ps_job_of(dist);

    take_view(j);
    j->index = j->members.self - j->n_workers;
    if (may_leave(j) || (j->n_workers == 0 && mf_members_are_done(j->members.members)))
        return MF_OK;
    return serve_or_stand_by(j, t);
}

const mf_recovery_hooks mf_ps_server_recovery = { .release = ps_release, .serve = serve_epoch };

mf_status mf_ps_job_serve(mf_dist *dist, mf_trainer *t)
{
    mf_ps_job *j = mf_ps_job_of(dist);
    mf_status st;

    if (!dist->members)
        return serve_once(j, t, NULL);
    st = mf_recovery_rendezvous(dist, t, MF_OK);
    mf_ps_server_free(j->kept);
    j->kept = NULL;
    return st;
}
