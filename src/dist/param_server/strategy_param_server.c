/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_param_server.c - strategy parameter_server: workers compute, servers hold and update the
 * weights. */
#include "base/log.h"
#include "base/mem.h"
#include "dist/data_parallel/shard_owners.h"
#include "dist/param_server/ps_job.h"
#include "dist/step_flags.h"
#include "observe/status_page.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/variable_query.h"

#include <string.h>
#include <time.h>

enum {
    IDLE_NS = 100000000, /* how often an idle worker asks for a batch */
    MOST_COPIES = 63, /* of a slice on other servers */
};

/* ---- a worker ---- */

mf_status mf_ps_job_join(mf_dist *dist, mf_trainer *t)
{
    mf_ps_job *j = mf_ps_job_of(dist);
    mf_placement place;

    MF_TRY(mf_aggregation_join(&j->mode.aggregation, t));
    /* Checked by every task before it connects: workers would wait for servers that have ended. */
    MF_TRY(mf_ps_place(t, j->n_servers, &j->mode, &place));
    mf_dist_assign_shards(dist, t->options.shards);
    if (j->index >= 0 || !j->net) /* the first rendezvous calls this again */
        return MF_OK;
    if (j->mode.sync) {
        MF_TRY(mf_balance_init(&j->balance, dist, t->options.shards, 1, mf_pool_threads(t->pool),
                               j->balances));
    } else { /* a batch is one worker's */
        dist->shards.first = 0;
        dist->shards.n = dist->shards.total;
    }
    mf_ps_client_free(j->client);
    MF_TRY(mf_ps_client_new(j->net, j->n_workers, j->n_servers, t, &j->mode, dist->shards.first,
                            dist->shards.n, dist->timeout_ns, &j->client));
    if (dist->rank == 0 && j->mode.partition.kind != MF_WEIGHT_PARTITION_EVEN)
        mf_ps_log_placement(mf_ps_client_placement(j->client), &j->mode.partition);
    mf_ps_client_use_host_aggregate(j->client, &j->host_aggregate);
    mf_session_set_exchange(t->session, mf_push_pull_exchange(mf_ps_client_rounds(j->client)));
    return MF_OK;
}

static mf_status ps_begin_step(mf_dist *dist, int64_t step, int64_t samples, bool wants_stop)
{
    mf_ps_job *j = mf_ps_job_of(dist);
    const int flags = mf_job_members_step_flags(&j->members, dist, wants_stop);
    float factor;

    MF_TRY(mf_shard_owners_factor(&j->mode.aggregation, j->balance.shares, dist->size, dist->rank,
                                  dist->shards.total, samples, &factor));
    mf_ps_client_weigh(j->client, factor);
    return mf_push_pull_begin_step(mf_ps_client_rounds(j->client), step, samples, flags);
}

static mf_status strategy_param_server_balance(mf_ps_job *j, int64_t step)
{
    mf_push_pull *rounds = mf_ps_client_rounds(j->client);
    bool changed;

    MF_TRY(
        mf_balance_step(&j->balance, &j->dist, step, mf_push_pull_computed_ns(rounds), &changed));
    if (!changed)
        return MF_OK;
    mf_push_pull_assign(rounds, j->dist.shards.first, j->dist.shards.n);
    mf_session_set_exchange(mf_ps_client_trainer(j->client)->session,
                            mf_push_pull_exchange(rounds));
    return MF_OK;
}

/* A later run that finds no state must know that there was one, which is lost. */
static mf_status strategy_param_server_note_step(mf_ps_job *j)
{
    if (j->marked || !j->dist.members || j->mode.sync)
        return MF_OK;
    j->marked = true;
    return mf_members_mark(j->members.members, MF_PS_TRAINED);
}

static mf_status ps_end_step(mf_dist *dist, int64_t step, bool *stop)
{
    mf_ps_job *j = mf_ps_job_of(dist);

    mf_dist_apply_step_flags(dist, mf_ps_client_step_flags(j->client), stop);
    j->stop |= *stop;
    *stop = j->stop;
    return j->mode.sync ? strategy_param_server_balance(j, step)
                        : strategy_param_server_note_step(j);
}

static void ps_failed(mf_dist *dist, mf_status why)
{
    if (mf_ps_job_of(dist)->net)
        mf_net_abort(mf_ps_job_of(dist)->net, why);
}

static int64_t ps_progress(const mf_dist *dist)
{
    return mf_ps_client_done(mf_ps_job_of((mf_dist *)(uintptr_t)dist)->client);
}

/* The servers' state includes at least the batches that they reported as done before. */
static mf_status ps_before_save_leased(mf_dist *dist, mf_trainer *t)
{
    mf_ps_job *j = mf_ps_job_of(dist);
    mf_ps_progress *each = mf_calloc(j->n_servers, sizeof *each);
    mf_status st = each ? mf_ps_client_progress(j->client, each) : MF_NOMEM("parameter servers");

    (void)t;
    mf_free(each);
    return st == MF_OK ? mf_ps_client_get(j->client) : st;
}

static mf_status ps_before_save(mf_dist *dist, mf_trainer *t)
{
    (void)t;
    return mf_ps_client_get(mf_ps_job_of(dist)->client);
}

static mf_status ps_lease(mf_dist *dist, mf_dist_lease *l)
{
    mf_ps_job *j = mf_ps_job_of(dist);
    mf_ps_lease lease = { .start = j->start, .total = l->total, .n_near = dist->locality.n };

    lease.save_every = mf_dist_can(dist, MF_DIST_SAVES_BETWEEN) ? l->save_every : 0;
    memcpy(lease.near, dist->locality.near, sizeof lease.near);
    MF_TRY(mf_ps_client_lease(j->client, &lease, &l->batch));
    while (l->batch == MF_PS_NO_BLOCK) {
        mf_status_page_phase(MF_PHASE_IDLE);
        (void)nanosleep(&(struct timespec){ 0, IDLE_NS }, NULL);
        MF_TRY(mf_net_check(j->net));
        MF_TRY(mf_ps_client_lease(j->client, &lease, &l->batch));
    }
    l->save = l->batch == MF_PS_SAVE_FIRST;
    l->over = (l->batch < 0 && !l->save) || j->stop;
    return MF_OK;
}

static mf_status ps_save_parts(mf_dist *dist, mf_trainer *t, const char *prefix, mf_snapshot *s)
{
    (void)t;
    return mf_ps_client_save(mf_ps_job_of(dist)->client, prefix, s);
}

static mf_status ps_trace_begin(mf_dist *dist, int64_t origin)
{
    return mf_ps_client_trace_begin(mf_ps_job_of(dist)->client, origin);
}

static mf_status ps_trace_end(mf_dist *dist, mf_buf *events)
{
    return mf_ps_client_trace_end(mf_ps_job_of(dist)->client, events);
}

static void strategy_param_server_widen(int64_t range[2], int64_t n)
{
    range[0] = n < range[0] ? n : range[0];
    range[1] = n > range[1] ? n : range[1];
}

/* The counters of the servers, after the last step. */
static mf_status count_updates(mf_ps_job *j)
{
    mf_ps_progress *each = mf_calloc(j->n_servers, sizeof *each);
    mf_status st = each ? mf_ps_client_progress(j->client, each) : MF_NOMEM("parameter servers");

    for (int s = 0; s < j->n_servers && st == MF_OK; s++) {
        if (s == 0)
            j->done = (mf_traffic){ .updates = { INT64_MAX, 0 },
                                    .batches = { each[0].batches, each[0].batches },
                                    .staleness = j->mode.sync ? -1 : each[0].staleness };
        strategy_param_server_widen(j->done.updates, each[s].steps - each[s].start);
        strategy_param_server_widen(j->done.batches, each[s].batches);
        j->done.late_pushes =
            each[s].late > j->done.late_pushes ? each[s].late : j->done.late_pushes;
    }
    mf_free(each);
    return st;
}

/* After the last step. */
static mf_status ps_leave(mf_dist *dist, mf_trainer *t)
{
    mf_ps_job *j = mf_ps_job_of(dist);
    const mf_collective c = mf_dist_collective(dist, 0, "the bytes that were sent");
    int64_t *sent = mf_calloc(dist->size, sizeof *sent);
    mf_status st = sent ? mf_ps_client_leave(j->client) : MF_NOMEM("workers");

    (void)t;
    if (st == MF_OK)
        st = mf_group_sizes(dist->group, &c, mf_net_sent_remote(j->net), sent);
    j->sent = 0;
    for (int r = 0; st == MF_OK && r < dist->size; r++)
        j->sent += sent[r] / dist->size;
    mf_free(sent);
    return st == MF_OK ? count_updates(j) : st;
}

/* All workers have done their last step: each pulls the final weights. */
static mf_status ps_finish(mf_dist *dist, mf_trainer *t)
{
    mf_ps_job *j = mf_ps_job_of(dist);

    const mf_collective c = mf_dist_collective(dist, 0, "the last step of all workers");
    int64_t mine = t->step, *steps = mf_calloc(dist->size, sizeof *steps);
    mf_status st = steps ? mf_ps_client_flush(j->client) : MF_NOMEM("workers");

    if (st == MF_OK)
        st = ps_leave(dist, t);

    if (st == MF_OK)
        st = mf_group_sizes(dist->group, &c, mine, steps);

    for (int r = 0; st == MF_OK && r < dist->size; r++)
        t->step = steps[r] > t->step ? steps[r] : t->step;
    if (st == MF_OK) /* a worker that got no further batch does not know the reason */
        st = mf_group_sizes(dist->group, &c, j->stop, steps);
    for (int r = 0; st == MF_OK && r < dist->size; r++)
        t->progress.stop |= steps[r];
    mf_free(steps);
    MF_TRY(st);
    MF_TRY(mf_ps_client_get(j->client));
    mf_dist_set_cap(dist, MF_DIST_LOCKSTEP, true);
    return mf_dist_barrier(dist, t->step, "the last weights");
}

void mf_ps_job_traffic(const mf_dist *dist, mf_traffic *out)
{
    const mf_ps_job *j = mf_ps_job_of((mf_dist *)(uintptr_t)dist);

    *out = j->done;
    out->bytes = out->plain_bytes = j->sent;
    if (j->client)
        mf_ps_client_traffic(j->client, &out->pushed_bytes, &out->pulled_bytes);
    out->pushed_bytes += j->pushed;
    out->pulled_bytes += j->pulled;
}

static mf_status ps_holders(mf_dist *dist, const mf_trainer *t, int64_t i, mf_holders *out,
                            int64_t *step)
{
    (void)step; /* after every step a worker has the weights of all servers */
    mf_ps_client_holders(mf_ps_job_of(dist)->client, t->trained[i].name, out);
    return MF_OK;
}

static const mf_dist_lifecycle_ops ps_worker_lifecycle = {
    .join = mf_ps_job_join, .finish = ps_leave, .over = mf_job_note_end, .failed = ps_failed
};
static const mf_dist_lifecycle_ops ps_leasing_lifecycle = {
    .join = mf_ps_job_join, .finish = ps_finish, .over = mf_job_note_end, .failed = ps_failed
};
static const mf_dist_lifecycle_ops ps_server_lifecycle = { .join = mf_ps_job_join,
                                                           .serve = mf_ps_job_serve,
                                                           .failed = ps_failed };

static const mf_dist_step_ops ps_worker_steps = { .begin_step = ps_begin_step,
                                                  .end_step = ps_end_step };
static const mf_dist_step_ops ps_leasing_steps = {
    .begin_step = ps_begin_step, .end_step = ps_end_step, .lease = ps_lease, .progress = ps_progress
};

static const mf_dist_membership_ops ps_membership = { .rendezvous = mf_recovery_rendezvous,
                                                      .aligned = mf_ps_job_aligned,
                                                      .step_done = mf_recovery_step_done };

static const mf_dist_state_ops ps_worker_state = { .holders = ps_holders,
                                                   .before_save = ps_before_save,
                                                   .save_parts = ps_save_parts,
                                                   .note_saved = mf_job_note_saved };
static const mf_dist_state_ops ps_leasing_state = { .holders = ps_holders,
                                                    .before_save = ps_before_save_leased,
                                                    .save_parts = ps_save_parts,
                                                    .note_saved = mf_job_note_saved };

static const mf_dist_trace_ops ps_worker_trace = { .begin = ps_trace_begin,
                                                   .end = ps_trace_end,
                                                   .traffic = mf_ps_job_traffic };
static const mf_dist_trace_ops ps_leasing_trace = { .traffic = mf_ps_job_traffic };

static const mf_dist_ops ps_worker_ops = { .lifecycle = &ps_worker_lifecycle,
                                           .step = &ps_worker_steps,
                                           .membership = &ps_membership,
                                           .state = &ps_worker_state,
                                           .trace = &ps_worker_trace };
static const mf_dist_ops ps_leasing_ops = { .lifecycle = &ps_leasing_lifecycle,
                                            .step = &ps_leasing_steps,
                                            .membership = &ps_membership,
                                            .state = &ps_leasing_state,
                                            .trace = &ps_leasing_trace };
static const mf_dist_ops ps_server_ops = { .lifecycle = &ps_server_lifecycle };

/* ---- opening and closing ---- */

/* After all workers have finished, the servers may end. */
static void strategy_param_server_end_servers(mf_ps_job *j)
{
    int64_t staleness;

    if (!j->began || !j->net || mf_net_check(j->net) != MF_OK)
        return;
    if (mf_dist_barrier(&j->dist, 0, "the end") != MF_OK)
        MF_LOG(j->dist.members ? MF_LOG_DEBUG : MF_LOG_WARNING, "%s", mf_error_message());
    else if (j->dist.rank == 0 && mf_ps_client_end(j->client, &staleness) != MF_OK)
        MF_LOG(j->dist.members ? MF_LOG_DEBUG : MF_LOG_WARNING,
               "the parameter servers did not get the end of the job: %s", mf_error_message());
    else if (j->dist.rank == 0 && !j->mode.sync)
        MF_INFO("no worker was more than %lld steps ahead of another", (long long)staleness);
}

static void ps_close(mf_strategy *s)
{
    mf_ps_job *j = (mf_ps_job *)s;

    if (j->index < 0)
        strategy_param_server_end_servers(j);
    mf_ps_client_free(j->client);
    mf_ps_host_aggregate_close(&j->host_aggregate);
    mf_group_free(j->dist.group);
    if (j->dist.members)
        mf_job_members_deinit(&j->members);
    else
        mf_net_close(j->net);
    mf_ps_replica_table_deinit(&j->copies);
    mf_balance_deinit(&j->balance);
    mf_free(j->weights);
    mf_free(j);
}

static mf_status strategy_param_server_open_all(mf_ps_job *j, const mf_strategy_call *call)
{
    const mf_ps_settings *settings = &call->settings->ps;

    j->mode = settings->mode;
    MF_TRY(mf_aggregation_make(call->settings, "worker", call->cluster->size, &j->mode.aggregation,
                               &j->weights));
    /* The result depends on the owners of shards, so no worker may be lost. */
    const bool weighted = j->mode.aggregation.how == MF_AGGREGATE_WEIGHTED;

    if (j->index < 0 && !j->mode.sync)
        j->dist.ops = ps_leasing_ops;
    /* A push that waits for other workers must not wait for workers that wait for a checkpoint. */
    mf_dist_set_cap(&j->dist, MF_DIST_SAVES_BETWEEN, !j->mode.sync && j->mode.quorum == 0);
    mf_dist_set_cap(&j->dist, MF_DIST_LOCKSTEP, j->mode.sync);
    if (j->n_servers < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "parameter_server needs parameter servers: give the cluster tasks of job "
                       "ps, as `meshflow launch --workers 2 --ps 1 -- train ...` does");
    if (settings->copies > MOST_COPIES)
        return MF_FAIL(MF_INVALID_ARGUMENT, "parameter_server: copies=%lld, and %d is the most",
                       (long long)settings->copies, MOST_COPIES);
    j->n_copies = (int)settings->copies;
    j->balances = !weighted && call->settings->balance;
    j->by_host =
        j->mode.sync && !mf_aggregate_is_apart(j->mode.aggregation.how) && settings->by_host;
    if (!weighted && mf_job_is_elastic(call->o, call->cluster)) {
        j->dist.members = &j->members;
        return mf_job_members_init(
            call, j->index < 0 ? &mf_ps_worker_recovery : &mf_ps_server_recovery, &j->members);
    }
    MF_TRY(mf_job_connect(call, &j->net));
    if (j->index >= 0)
        return MF_OK;
    MF_TRY(mf_job_group(call, j->net, 1, &j->dist.group));
    return j->by_host ? mf_ps_host_aggregate_open(j->net, j->n_workers, j->n_servers,
                                                  call->timeout_ns, &j->host_aggregate)
                      : MF_OK;
}

mf_status mf_ps_open(const mf_strategy_call *call, mf_strategy **out)
{
    const mf_cluster *c = call->cluster;
    mf_ps_job *j = mf_calloc(1, sizeof *j);
    mf_status st;

    if (!j)
        return MF_NOMEM("parameter servers");
    j->n_workers = c->size;
    j->n_servers = j->n_slices = mf_cluster_count(c, MF_ROLE_PS);
    j->index = c->rank >= 0 ? -1 : mf_cluster_self(c)->index;
    j->strategy = (mf_strategy){ .dist = &j->dist, .close = ps_close };
    j->dist = (mf_dist){ .ops = j->index < 0 ? ps_worker_ops : ps_server_ops,
                         .caps = MF_DIST_PULLS_WEIGHTS,
                         .rank = j->index < 0 ? c->rank : c->size + j->index,
                         .size = c->size,
                         .timeout_ns = call->timeout_ns };
    st = strategy_param_server_open_all(j, call);
    if (st == MF_OK) {
        *out = &j->strategy;
        return MF_OK;
    }
    mf_error why;

    mf_error_save(st, &why);
    j->began = false;
    ps_close(&j->strategy);
    return mf_error_restore(&why);
}

/* The default settings of parameter_server, for one server. */
mf_status mf_ps_open_central(const mf_strategy_call *call, mf_strategy **out)
{
    const int servers = mf_cluster_count(call->cluster, MF_ROLE_PS);
    mf_strategy_call served = *call;
    mf_strategy_settings settings;

    if (servers != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "central_storage over several workers keeps the variables in one parameter "
                       "server, and this job has %d: start it with `meshflow launch --workers N "
                       "--ps 1`%s",
                       servers, servers > 1 ? ", or use the strategy parameter_server" : "");
    if (call->settings->replicas > 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "central_storage: replicas are for one process, and this job has %d workers",
                       call->cluster->size);
    MF_TRY(mf_strategy_parse("parameter_server", call->arena, &settings));
    settings.aggregation = call->settings->aggregation;
    served.settings = &settings;
    return mf_ps_open(&served, out);
}
