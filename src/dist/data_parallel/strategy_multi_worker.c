/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_multi_worker.c - workers that all have the weights and sum over the shards of each batch
 * together (strategy multi_worker_mirrored); or only the first of them gets the sums and updates
 * (reduce_to_one). */
#include "base/log.h"
#include "dist/data_parallel/gradient_allreduce.h"
#include "dist/data_parallel/load_balance.h"
#include "dist/data_parallel/reduce_to_one.h"
#include "dist/job_members.h"
#include "train/step/precision.h"
#include "train/step/trainer.h"

#include <stddef.h>

typedef struct workers {
    mf_strategy strategy; /* first */
    mf_dist dist;
    mf_net *net; /* NULL: one process only, or an elastic job */
    mf_job_members members; /* of an elastic job: dist.members */
    mf_segment *alone[2]; /* memory of groups of one */
    mf_group *exchange_group;
    mf_codecs *codecs; /* NULL: none */
    mf_gradient_allreduce *sums;
    mf_session *session; /* of the trainer that is here */
    mf_balance balance;
    bool joined; /* a trainer has been here */
    mf_reduce_to_one *one; /* NULL: all workers update */
    mf_aggregation aggregation;
    double *weights;
    bool balances;
} workers;

static workers *strategy_multi_worker_of_dist(mf_dist *dist)
{
    return (workers *)(void *)((char *)dist - offsetof(workers, dist));
}

/* ---- steps ---- */

static void strategy_multi_worker_give_up(void *ctx, mf_status why)
{
    if (ctx)
        mf_net_abort(ctx, why);
}

static mf_status check_codecs(const workers *w, const mf_trainer *t)
{
    const mf_codec *keeps = mf_codecs_with_memory(w->codecs);
    const int64_t grain = mf_codecs_grain(w->codecs);
    const int64_t grains = (t->options.shards + grain - 1) / grain;
    mf_precision precision;

    if (grains < w->dist.size)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%d shards, of which the codec encodes %lld together, are enough for %lld "
                       "workers, not for %d; give --shards %lld or more, or a smaller grain",
                       t->options.shards, (long long)grain, (long long)grains, w->dist.size,
                       (long long)(grain * w->dist.size));
    MF_TRY(mf_precision_parse(t->options.precision, t->arena, &precision));
    if (keeps && precision.loss_scale != 0.0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "codec %s adds a part of the gradients to later steps, which have another "
                       "loss scale; use --precision bf16, or the codec bf16 or int8",
                       keeps->kind->name);
    return MF_OK;
}

/* May shards be assigned to any worker? Not where a result or a codec's state depends on the worker
 * that computes them. */
static bool may_choose(const workers *w)
{
    return w->aggregation.how != MF_AGGREGATE_WEIGHTED &&
           !(w->codecs && mf_codecs_with_memory(w->codecs));
}

static mf_net *net_of(const workers *w);

static mf_status strategy_multi_worker_make_sums(workers *w, const mf_trainer *t)
{
    return mf_gradient_allreduce_new(
        &(mf_gradient_allreduce_options){ .group = w->exchange_group,
                                          .shards = w->dist.shards.total,
                                          .of = w->balance.shares,
                                          .n_buckets = t->graph.n_buckets,
                                          .timeout_ns = w->dist.timeout_ns,
                                          .to_first = mf_dist_can(&w->dist, MF_DIST_ONE_UPDATER),
                                          .aggregation = w->aggregation,
                                          .codecs = w->codecs,
                                          .seed = t->options.seed,
                                          .failed = strategy_multi_worker_give_up,
                                          .ctx = net_of(w) },
        &w->sums);
}

/* Assign shards, and make the exchange that sums over them. */
static mf_status begin_sums(workers *w, mf_trainer *t)
{
    mf_dist *dist = &w->dist;
    const int64_t grain = w->codecs ? mf_codecs_grain(w->codecs) : 1;

    MF_TRY(mf_balance_init(&w->balance, dist, t->options.shards, grain, mf_pool_threads(t->pool),
                           w->balances && may_choose(w)));
    if (dist->shards.total < dist->size && dist->rank == 0)
        MF_WARN("%d workers share %lld shards: some workers have no shard; give --shards %d or "
                "more",
                dist->size, (long long)dist->shards.total, dist->size);
    MF_TRY(strategy_multi_worker_make_sums(w, t));
    mf_session_set_exchange(t->session, mf_gradient_allreduce_exchange(w->sums));
    return MF_OK;
}

static mf_status workers_join(mf_dist *dist, mf_trainer *t)
{
    workers *w = strategy_multi_worker_of_dist(dist);

    MF_TRY(mf_aggregation_join(&w->aggregation, t));
    if (w->codecs)
        MF_TRY(check_codecs(w, t));
    w->session = t->session;
    w->joined = true;
    if (w->dist.members) { /* the first rendezvous makes the exchange */
        dist->shards.total = t->options.shards;
        return MF_OK;
    }
    MF_TRY(begin_sums(w, t));
    return mf_dist_can(dist, MF_DIST_ONE_UPDATER) ? mf_reduce_to_one_new(t, &w->one) : MF_OK;
}

static void workers_leave(mf_dist *dist, mf_trainer *t)
{
    workers *w = strategy_multi_worker_of_dist(dist);

    (void)t;
    mf_reduce_to_one_free(w->one);
    mf_gradient_allreduce_free(w->sums);
    w->one = NULL;
    w->sums = NULL;
}

static mf_status workers_begin_step(mf_dist *dist, int64_t step, int64_t samples, bool wants_stop)
{
    workers *w = strategy_multi_worker_of_dist(dist);

    return mf_gradient_allreduce_begin_step(
        w->sums, step, samples, mf_job_members_step_flags(&w->members, dist, wants_stop));
}

static mf_status one_run(mf_dist *dist, mf_trainer *t, const mf_run_options *options,
                         const mf_loop_call *call)
{
    (void)t;
    return mf_reduce_to_one_run(strategy_multi_worker_of_dist(dist)->one, options, call);
}

/* Shards have other owners. */
static mf_status follow_balance(workers *w)
{
    MF_TRY(mf_gradient_allreduce_assign(w->sums, w->balance.shares));
    mf_session_set_exchange(w->session, mf_gradient_allreduce_exchange(w->sums));
    return MF_OK;
}

static mf_status workers_end_step(mf_dist *dist, int64_t step, bool *stop)
{
    workers *w = strategy_multi_worker_of_dist(dist);
    bool changed;

    mf_dist_apply_step_flags(dist, mf_gradient_allreduce_step_flags(w->sums), stop);
    MF_TRY(mf_balance_step(&w->balance, dist, step, mf_gradient_allreduce_computed_ns(w->sums),
                           &changed));
    if (!changed)
        return MF_OK;
    return follow_balance(w);
}

static mf_status workers_near(mf_dist *dist, const double *near)
{
    workers *w = strategy_multi_worker_of_dist(dist);

    if (!may_choose(w))
        return MF_OK;
    MF_TRY(mf_balance_near(&w->balance, dist, near));
    return follow_balance(w);
}

static mf_net *net_of(const workers *w)
{
    return w->dist.members ? w->members.net : w->net;
}

static void workers_failed(mf_dist *dist, mf_status why)
{
    strategy_multi_worker_give_up(net_of(strategy_multi_worker_of_dist(dist)), why);
}

static void workers_traffic(const mf_dist *dist, mf_traffic *out)
{
    const workers *w = strategy_multi_worker_of_dist((mf_dist *)(uintptr_t)dist);

    if (!w->sums || dist->size == 1)
        return;
    out->bytes = w->exchange_group->bytes;
    out->plain_bytes = out->bytes + mf_gradient_allreduce_saved_bytes(w->sums);
}

/* ---- recovery ---- */

static void workers_release(mf_dist *dist)
{
    workers *w = strategy_multi_worker_of_dist(dist);

    if (w->sums)
        mf_session_set_exchange(w->session, NULL);
    mf_gradient_allreduce_free(w->sums);
    mf_group_free(w->exchange_group);
    w->sums = NULL;
    w->exchange_group = NULL;
}

static mf_status workers_assign(mf_dist *dist, mf_trainer *t)
{
    workers *w = strategy_multi_worker_of_dist(dist);

    MF_TRY(mf_job_members_group(&w->members, 2, &w->exchange_group));
    return begin_sums(w, t);
}

static const mf_recovery_hooks workers_recovery = { .release = workers_release,
                                                    .assign = workers_assign };

/* ---- with codecs that have state ---- */

static mf_status workers_collect(mf_dist *dist, int64_t step)
{
    const mf_collective c = mf_dist_collective(dist, step, "codec state");

    mf_aux_state_clear(&dist->aux.list);
    MF_TRY(mf_gradient_allreduce_collect(strategy_multi_worker_of_dist(dist)->sums, dist->group, &c,
                                         &dist->aux.list));
    dist->aux.collected = true;
    return MF_OK;
}

static mf_status workers_restore(mf_dist *dist, int64_t step)
{
    if (step > 0 && dist->aux.list.n == 0 && dist->rank == 0)
        MF_WARN("the codec's state of step %lld is unknown: it begins empty, so weights will "
                "differ from those of an uninterrupted training",
                (long long)step);
    mf_gradient_allreduce_restore(strategy_multi_worker_of_dist(dist)->sums, &dist->aux.list);
    return MF_OK;
}

static const mf_dist_lifecycle_ops workers_lifecycle = {
    .join = workers_join, .leave = workers_leave, .over = mf_job_note_end, .failed = workers_failed
};

static const mf_dist_step_ops workers_steps = { .begin_step = workers_begin_step,
                                                .end_step = workers_end_step };
static const mf_dist_step_ops reduce_to_one_steps = { .begin_step = workers_begin_step,
                                                      .run = one_run,
                                                      .end_step = workers_end_step };

static const mf_dist_membership_ops workers_membership = { .rendezvous = mf_recovery_rendezvous,
                                                           .step_done = mf_recovery_step_done,
                                                           .near = workers_near };

static const mf_dist_state_ops workers_state = { .note_saved = mf_job_note_saved };
static const mf_dist_state_ops workers_codec_state = { .collect = workers_collect,
                                                       .restore = workers_restore };

static const mf_dist_trace_ops workers_trace = { .traffic = workers_traffic };

/* ---- opening and closing ---- */

static void workers_close(mf_strategy *s)
{
    workers *w = (workers *)s;
    mf_net *net = net_of(w);

    if (w->joined && net && mf_net_check(net) == MF_OK &&
        mf_dist_barrier(&w->dist, 0, "the end") !=
            MF_OK) /* no worker closes while others still send */
        MF_LOG(w->dist.members ? MF_LOG_DEBUG : MF_LOG_WARNING, "%s", mf_error_message());
    mf_gradient_allreduce_free(w->sums);
    mf_group_free(w->exchange_group);
    mf_group_free(w->dist.group);
    for (int i = 0; i < MF_COUNT(w->alone); i++)
        mf_segment_free(w->alone[i]);
    if (w->net)
        mf_net_close(w->net);
    mf_codecs_free(w->codecs);
    mf_aux_state_clear(&w->dist.aux.list);
    mf_balance_deinit(&w->balance);
    if (w->dist.members)
        mf_job_members_deinit(&w->members);
    mf_free(w->weights);
    mf_free(w);
}

static mf_status strategy_multi_worker_open_all(workers *w, const mf_strategy_call *call)
{
    MF_TRY(
        mf_aggregation_make(call->settings, "worker", w->dist.size, &w->aggregation, &w->weights));
    w->balances = call->settings->balance;
    if (w->codecs && mf_codecs_with_memory(w->codecs))
        w->dist.ops.state = &workers_codec_state;
    if (w->codecs && mf_aggregate_is_apart(w->aggregation.how))
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "aggregation=%s needs the gradient of each shard, but a codec encodes sums of "
            "shards: omit --codec or the aggregation",
            mf_aggregate_name(w->aggregation.how));
    if (!mf_dist_can(&w->dist, MF_DIST_ONE_UPDATER) && may_choose(w) &&
        mf_job_is_elastic(call->o, call->cluster)) {
        w->dist.members = &w->members;
        return mf_job_members_init(call, &workers_recovery, &w->members);
    }
    if (call->cluster->n_tasks <= 1) {
        MF_TRY(mf_job_group_alone(&w->alone[0], &w->dist.group));
        return mf_job_group_alone(&w->alone[1], &w->exchange_group);
    }
    MF_TRY(mf_job_connect(call, &w->net));
    MF_TRY(mf_job_group(call, w->net, 1, &w->dist.group));
    return mf_job_group(call, w->net, 2, &w->exchange_group);
}

static mf_status open_workers(const mf_strategy_call *call, bool one_updates, mf_strategy **out)
{
    workers *w = mf_calloc(1, sizeof *w);
    mf_status st;

    if (!w) {
        mf_codecs_free(call->codecs);
        return MF_NOMEM("workers");
    }
    w->codecs = call->codecs;
    w->strategy = (mf_strategy){ .dist = &w->dist, .close = workers_close };
    w->dist = (mf_dist){ .ops = { .lifecycle = &workers_lifecycle,
                                  .step = one_updates ? &reduce_to_one_steps : &workers_steps,
                                  .membership = &workers_membership,
                                  .state = &workers_state,
                                  .trace = one_updates ? NULL : &workers_trace },
                         .caps = MF_DIST_LOCKSTEP | (one_updates ? MF_DIST_ONE_UPDATER : 0),
                         .rank = call->cluster->rank,
                         .size = call->cluster->size > 1 ? call->cluster->size : 1,
                         .timeout_ns = call->timeout_ns };
    st = strategy_multi_worker_open_all(w, call);
    if (st == MF_OK) {
        *out = &w->strategy;
        return MF_OK;
    }
    mf_error why;

    mf_error_save(st, &why);
    workers_close(&w->strategy);
    return mf_error_restore(&why);
}

mf_status mf_workers_open(const mf_strategy_call *call, mf_strategy **out)
{
    return open_workers(call, false, out);
}

mf_status mf_reduce_to_one_open(const mf_strategy_call *call, mf_strategy **out)
{
    return open_workers(call, true, out);
}
