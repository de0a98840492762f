/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_multi_worker.c - workers that all have the weights and sum over the shards of each batch
 * together (strategy multi_worker_mirrored); or only the first of them sums and updates
 * (reduce_to_one). */
#include "base/log.h"
#include "dist/data_parallel/gradient_allreduce.h"
#include "dist/data_parallel/load_balance.h"
#include "dist/data_parallel/reduce_to_one.h"
#include "dist/strategies.h"
#include "train/step/precision.h"
#include "train/step/trainer.h"

#include <stddef.h>

typedef struct workers {
    mf_strategy strategy; /* first */
    mf_dist_worker team;
    mf_net *net; /* NULL: there is nobody else, or they come and go */
    mf_job_members members; /* where workers come and go: the team's */
    mf_segment *alone[2]; /* where one meets itself */
    mf_group *exchange_group;
    mf_codecs *codecs; /* NULL: none */
    mf_gradient_allreduce *sums;
    mf_session *session; /* of the trainer that is here */
    mf_balance balance;
    bool joined; /* a trainer has been here */
    mf_reduce_to_one *one; /* NULL: all update */
    mf_aggregation aggregation;
    double *weights;
    bool balances;
} workers;

static workers *strategy_multi_worker_of_team(mf_dist_worker *team)
{
    return (workers *)(void *)((char *)team - offsetof(workers, team));
}

/* ---- the team ---- */

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

    if (grains < w->team.size)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%d shards, of which the codec encodes %lld together, are enough for %lld "
                       "workers, not for %d; give --shards %lld or more, or a smaller grain",
                       t->options.shards, (long long)grain, (long long)grains, w->team.size,
                       (long long)(grain * w->team.size));
    MF_TRY(mf_precision_parse(t->options.precision, t->arena, &precision));
    if (keeps && precision.loss_scale != 0.0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "codec %s keeps a part of the gradients for later, when they are scaled "
                       "otherwise; use --precision bf16, or the codec bf16 or int8",
                       keeps->kind->name);
    return MF_OK;
}

/* May it be chosen who takes which shards? Where a result or a codec's memory depends on who
 * computes them, they stay where they are. */
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
                                          .shards = w->team.shards,
                                          .of = w->balance.shares,
                                          .n_buckets = t->graph.n_buckets,
                                          .timeout_ns = w->team.timeout_ns,
                                          .to_first = w->team.one_updates,
                                          .aggregation = w->aggregation,
                                          .codecs = w->codecs,
                                          .seed = t->options.seed,
                                          .failed = strategy_multi_worker_give_up,
                                          .ctx = net_of(w) },
        &w->sums);
}

/* Who computes what, and where the sums are made. */
static mf_status begin_sums(workers *w, mf_trainer *t)
{
    mf_dist_worker *team = &w->team;
    const int64_t grain = w->codecs ? mf_codecs_grain(w->codecs) : 1;

    MF_TRY(mf_balance_init(&w->balance, team, t->options.shards, grain, mf_pool_threads(t->pool),
                           w->balances && may_choose(w)));
    if (team->shards < team->size && team->rank == 0)
        MF_WARN("%d workers share %lld shards: some have nothing to do; give --shards %d or more",
                team->size, (long long)team->shards, team->size);
    MF_TRY(strategy_multi_worker_make_sums(w, t));
    mf_session_set_exchange(t->session, mf_gradient_allreduce_exchange(w->sums));
    return MF_OK;
}

static mf_status workers_join(mf_dist_worker *team, mf_trainer *t)
{
    workers *w = strategy_multi_worker_of_team(team);

    MF_TRY(mf_aggregation_join(&w->aggregation, t));
    if (w->codecs)
        MF_TRY(check_codecs(w, t));
    w->session = t->session;
    w->joined = true;
    if (w->team.members) { /* they meet when all is ready */
        team->shards = t->options.shards;
        return MF_OK;
    }
    MF_TRY(begin_sums(w, t));
    return team->one_updates ? mf_reduce_to_one_new(t, &w->one) : MF_OK;
}

static void workers_leave(mf_dist_worker *team, mf_trainer *t)
{
    workers *w = strategy_multi_worker_of_team(team);

    (void)t;
    mf_reduce_to_one_free(w->one);
    mf_gradient_allreduce_free(w->sums);
    w->one = NULL;
    w->sums = NULL;
}

static mf_status workers_begin_step(mf_dist_worker *team, int64_t step, int64_t samples,
                                    bool wants_stop)
{
    workers *w = strategy_multi_worker_of_team(team);
    const int votes = w->team.members ? mf_job_members_votes(&w->members, team, wants_stop)
                      : wants_stop    ? MF_STEP_FLAG_STOP
                                      : 0;

    return mf_gradient_allreduce_begin_step(w->sums, step, samples, votes);
}

static mf_status one_run(mf_dist_worker *team, mf_trainer *t, const mf_run_options *options,
                         const mf_loop_call *call)
{
    (void)t;
    return mf_reduce_to_one_run(strategy_multi_worker_of_team(team)->one, options, call);
}

/* Shards have other owners. */
static mf_status follow_balance(workers *w)
{
    MF_TRY(mf_gradient_allreduce_deal(w->sums, w->balance.shares));
    mf_session_set_exchange(w->session, mf_gradient_allreduce_exchange(w->sums));
    return MF_OK;
}

static mf_status workers_end_step(mf_dist_worker *team, int64_t step, bool *stop)
{
    workers *w = strategy_multi_worker_of_team(team);
    bool changed;

    mf_job_take_votes(team, mf_gradient_allreduce_votes(w->sums), stop);
    MF_TRY(mf_balance_step(&w->balance, team, step, mf_gradient_allreduce_computed_ns(w->sums),
                           &changed));
    if (!changed)
        return MF_OK;
    return follow_balance(w);
}

static mf_status workers_near(mf_dist_worker *team, const double *near)
{
    workers *w = strategy_multi_worker_of_team(team);

    if (!may_choose(w))
        return MF_OK;
    MF_TRY(mf_balance_near(&w->balance, team, near));
    return follow_balance(w);
}

static mf_net *net_of(const workers *w)
{
    return w->team.members ? w->members.net : w->net;
}

static void workers_failed(mf_dist_worker *team, mf_status why)
{
    strategy_multi_worker_give_up(net_of(strategy_multi_worker_of_team(team)), why);
}

static void workers_traffic(const mf_dist_worker *team, mf_traffic *out)
{
    const workers *w = strategy_multi_worker_of_team((mf_dist_worker *)(uintptr_t)team);

    if (!w->sums || team->size == 1)
        return;
    out->bytes = w->exchange_group->bytes;
    out->plain_bytes = out->bytes + mf_gradient_allreduce_saved_bytes(w->sums);
}

/* ---- workers that come and go ---- */

/* What belongs to the epoch that is over. */
static void strategy_multi_worker_part(mf_dist_worker *team, mf_status why)
{
    workers *w = strategy_multi_worker_of_team(team);
    mf_error e;

    mf_error_save(why, &e);
    if (w->sums)
        mf_session_set_exchange(w->session, NULL);
    mf_gradient_allreduce_free(w->sums);
    mf_group_free(w->exchange_group);
    mf_group_free(w->team.group);
    w->sums = NULL;
    w->exchange_group = w->team.group = NULL;
    (void)mf_error_restore(&e);
    mf_job_members_part(&w->members, why);
}

static mf_status strategy_multi_worker_meet_once(mf_dist_worker *team, mf_trainer *t)
{
    workers *w = strategy_multi_worker_of_team(team);

    MF_TRY(mf_job_members_meet(&w->members));
    MF_TRY(mf_job_describe_view(&w->members, team));
    MF_TRY(mf_job_members_group(&w->members, 1, &team->group));
    MF_TRY(mf_job_members_group(&w->members, 2, &w->exchange_group));
    return begin_sums(w, t);
}

static mf_status workers_meet(mf_dist_worker *team, mf_trainer *t, mf_status why)
{
    static const mf_job_meeting meeting = { strategy_multi_worker_part,
                                            strategy_multi_worker_meet_once };

    return mf_job_meet(team, t, &meeting, why);
}

static const mf_dist_worker_kind TEAM = { .join = workers_join,
                                          .leave = workers_leave,
                                          .begin_step = workers_begin_step,
                                          .near = workers_near,
                                          .end_step = workers_end_step,
                                          .meet = workers_meet,
                                          .note_saved = mf_job_note_saved,
                                          .over = mf_job_note_end,
                                          .failed = workers_failed,
                                          .traffic = workers_traffic };

/* ---- with codecs that keep something ---- */

static mf_status workers_collect(mf_dist_worker *team, int64_t step)
{
    const mf_collective c = mf_dist_worker_call(team, step, "what codecs keep");

    mf_aux_state_clear(&team->extra);
    MF_TRY(mf_gradient_allreduce_collect(strategy_multi_worker_of_team(team)->sums, team->group, &c,
                                         &team->extra));
    team->collected = true;
    return MF_OK;
}

static mf_status workers_restore(mf_dist_worker *team, int64_t step)
{
    if (step > 0 && team->extra.n == 0 && team->rank == 0)
        MF_WARN("nothing is known of what the codec had kept until step %lld: it begins with "
                "nothing, so weights will differ from those of a training without a break",
                (long long)step);
    mf_gradient_allreduce_restore(strategy_multi_worker_of_team(team)->sums, &team->extra);
    return MF_OK;
}

static const mf_dist_worker_kind KEEPING_TEAM = { .join = workers_join,
                                                  .leave = workers_leave,
                                                  .begin_step = workers_begin_step,
                                                  .end_step = workers_end_step,
                                                  .failed = workers_failed,
                                                  .traffic = workers_traffic,
                                                  .collect = workers_collect,
                                                  .restore = workers_restore };

static const mf_dist_worker_kind ONE_UPDATES = { .join = workers_join,
                                                 .leave = workers_leave,
                                                 .begin_step = workers_begin_step,
                                                 .run = one_run,
                                                 .near = workers_near,
                                                 .end_step = workers_end_step,
                                                 .failed = workers_failed };

/* ---- opening and closing ---- */

static void workers_close(mf_strategy *s)
{
    workers *w = (workers *)s;
    mf_net *net = net_of(w);

    if (w->joined && net && mf_net_check(net) == MF_OK &&
        mf_dist_worker_meet(&w->team, 0, "the end") !=
            MF_OK) /* nobody leaves while others still send */
        MF_LOG(w->team.members ? MF_LOG_DEBUG : MF_LOG_WARNING, "%s", mf_error_message());
    mf_gradient_allreduce_free(w->sums);
    mf_group_free(w->exchange_group);
    mf_group_free(w->team.group);
    for (int i = 0; i < MF_COUNT(w->alone); i++)
        mf_segment_free(w->alone[i]);
    if (w->net)
        mf_net_close(w->net);
    mf_codecs_free(w->codecs);
    mf_aux_state_clear(&w->team.extra);
    mf_balance_deinit(&w->balance);
    if (w->team.members)
        mf_job_members_deinit(&w->members);
    mf_free(w->weights);
    mf_free(w);
}

static mf_status strategy_multi_worker_open_all(workers *w, const mf_strategy_call *call)
{
    MF_TRY(
        mf_aggregation_make(call->settings, "worker", w->team.size, &w->aggregation, &w->weights));
    w->balances = call->settings->balance;
    if (w->codecs && mf_codecs_with_memory(w->codecs))
        w->team.kind = &KEEPING_TEAM;
    if (w->codecs && mf_aggregate_is_apart(w->aggregation.how))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "a codec sums what it encodes, so there is no %s of it; leave out one of "
                       "--codec and aggregation",
                       mf_aggregate_name(w->aggregation.how));
    if (w->team.kind == &TEAM && may_choose(w) && mf_job_may_change(call->o, call->cluster)) {
        w->team.members = &w->members;
        return mf_job_members_init(call, &w->members);
    }
    if (call->cluster->n_tasks <= 1) {
        MF_TRY(mf_job_group_alone(&w->alone[0], &w->team.group));
        return mf_job_group_alone(&w->alone[1], &w->exchange_group);
    }
    MF_TRY(mf_job_connect(call, &w->net));
    MF_TRY(mf_job_group(call, w->net, 1, &w->team.group));
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
    w->strategy = (mf_strategy){ .team = &w->team, .close = workers_close };
    w->team = (mf_dist_worker){ .kind = one_updates ? &ONE_UPDATES : &TEAM,
                                .one_updates = one_updates,
                                .lockstep = true,
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
