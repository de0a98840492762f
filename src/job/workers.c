/* SPDX-License-Identifier: Apache-2.0 */
/* workers.c - workers that all have the weights and sum over the shards of each batch together
 * (strategy multi_worker_mirrored); or only the first of them sums and updates (reduce_to_one). */
#include "base/log.h"
#include "job/strategies.h"
#include "parallel/one_updates.h"
#include "parallel/sums.h"
#include "train/trainer.h"

#include <stddef.h>

typedef struct workers {
    mf_strategy strategy; /* first */
    mf_team team;
    mf_net *net;
    mf_group *exchange_group;
    mf_sums *sums;
    mf_one_updates *one; /* NULL: all update */
    mf_aggregation aggregation;
    double *weights;
} workers;

static workers *of_team(mf_team *team)
{
    return (workers *)(void *)((char *)team - offsetof(workers, team));
}

/* ---- the team ---- */

static void give_up(void *ctx, mf_status why)
{
    mf_net_abort(ctx, why);
}

static mf_status workers_join(mf_team *team, mf_trainer *t)
{
    workers *w = of_team(team);
    int64_t *first = mf_calloc(team->size + 1, sizeof *first);
    mf_status st = mf_aggregation_join(&w->aggregation, t);

    if (!first || st != MF_OK) {
        mf_free(first);
        return first ? st : MF_NOMEM("shards");
    }
    mf_team_deal_shards(team, t->options.shards);
    for (int r = 0; r <= team->size; r++)
        first[r] = mf_team_first_shard(team, r);
    if (team->shards < team->size && team->rank == 0)
        MF_WARN("%d workers share %lld shards: some have nothing to do; give --shards %d or more",
                team->size, (long long)team->shards, team->size);
    st = mf_sums_new(&(mf_sums_options){ .group = w->exchange_group,
                                         .shards = team->shards,
                                         .first = first,
                                         .n_buckets = t->graph.n_buckets,
                                         .timeout_ns = team->timeout_ns,
                                         .to_first = team->one_updates,
                                         .aggregation = w->aggregation,
                                         .failed = give_up,
                                         .ctx = w->net },
                     &w->sums);
    mf_free(first);
    MF_TRY(st);
    mf_session_set_exchange(t->session, mf_sums_exchange(w->sums));
    return team->one_updates ? mf_one_updates_new(t, &w->one) : MF_OK;
}

static void workers_leave(mf_team *team, mf_trainer *t)
{
    workers *w = of_team(team);

    (void)t;
    mf_one_updates_free(w->one);
    mf_sums_free(w->sums);
    w->one = NULL;
    w->sums = NULL;
}

static mf_status workers_begin_step(mf_team *team, int64_t step, int64_t samples, bool wants_stop)
{
    return mf_sums_begin_step(of_team(team)->sums, step, samples, wants_stop);
}

static mf_status one_run(mf_team *team, mf_trainer *t, const mf_run_options *options,
                         const mf_call *call)
{
    (void)t;
    return mf_one_updates_run(of_team(team)->one, options, call);
}

static mf_status workers_end_step(mf_team *team, bool *stop)
{
    *stop = mf_sums_wants_stop(of_team(team)->sums);
    return MF_OK;
}

static void workers_failed(mf_team *team, mf_status why)
{
    mf_net_abort(of_team(team)->net, why);
}

static const mf_team_kind TEAM = { .join = workers_join,
                                   .leave = workers_leave,
                                   .begin_step = workers_begin_step,
                                   .end_step = workers_end_step,
                                   .failed = workers_failed };

static const mf_team_kind ONE_UPDATES = { .join = workers_join,
                                          .leave = workers_leave,
                                          .begin_step = workers_begin_step,
                                          .run = one_run,
                                          .end_step = workers_end_step,
                                          .failed = workers_failed };

/* ---- opening and closing ---- */

static void workers_close(mf_strategy *s)
{
    workers *w = (workers *)s;

    mf_sums_free(w->sums);
    mf_group_free(w->exchange_group);
    mf_group_free(w->team.group);
    mf_net_close(w->net);
    mf_free(w->weights);
    mf_free(w);
}

static mf_status open_all(workers *w, const mf_strategy_call *call)
{
    MF_TRY(mf_aggregation_read(call->settings, w->team.size, &w->aggregation, &w->weights));
    MF_TRY(mf_job_connect(call, &w->net));
    MF_TRY(mf_job_group(call, w->net, 1, &w->team.group));
    return mf_job_group(call, w->net, 2, &w->exchange_group);
}

static mf_status open_workers(const mf_strategy_call *call, bool one_updates, mf_strategy **out)
{
    workers *w = mf_calloc(1, sizeof *w);
    mf_status st;

    if (!w)
        return MF_NOMEM("workers");
    w->strategy = (mf_strategy){ .team = &w->team, .close = workers_close };
    w->team = (mf_team){ .kind = one_updates ? &ONE_UPDATES : &TEAM,
                         .one_updates = one_updates,
                         .lockstep = true,
                         .rank = call->cluster->rank,
                         .size = call->cluster->size,
                         .timeout_ns = call->timeout_ns };
    st = open_all(w, call);
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
