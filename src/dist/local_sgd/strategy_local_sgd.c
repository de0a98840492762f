/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_local_sgd.c - groups of workers train apart, each on its part of every batch, and from
 * time to time the variables of all are averaged (strategy local_sgd). Inside:
 * strategy_local_sgd.h. */
#include "dist/local_sgd/strategy_local_sgd.h"

#include "base/log.h"

#include <limits.h>
#include <string.h>

enum { FIRST_GROUP_ID = 2 };

static mf_local_sgd *strategy_local_sgd_of_team(mf_dist_worker *team)
{
    return (mf_local_sgd *)(void *)((char *)team - offsetof(mf_local_sgd, team));
}

/* ---- the team ---- */

static mf_status check_groups(const mf_local_sgd *l, int64_t n)
{
    if (n > MF_MOST_GROUPS)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%lld groups; at most %d are possible", (long long)n,
                       MF_MOST_GROUPS);
    if (n > l->team.shards)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%lld groups cannot share %lld shards; give --shards %lld or more",
                       (long long)n, (long long)l->team.shards, (long long)n);
    return MF_OK;
}

/* Who is there, and whose groups they are, is seen when all are ready: aligned(). */
static mf_status local_join(mf_dist_worker *team, mf_trainer *t)
{
    mf_local_sgd *l = strategy_local_sgd_of_team(team);

    if (l->trainer)
        return MF_FAIL(MF_FAILED_PRECONDITION, "a strategy serves one trainer at a time");
    l->trainer = t;
    team->shards = t->options.shards;
    t->standing.groups = l->wanted > 0 ? l->wanted : l->first_size;
    MF_TRY(check_groups(l, t->standing.groups));
    MF_TRY(mf_local_init_step(l));
    return mf_local_init_average(l);
}

/* The trainer's session is gone already. */
static void local_leave(mf_dist_worker *team, mf_trainer *t)
{
    mf_local_sgd *l = strategy_local_sgd_of_team(team);

    if (l->trainer != t)
        return;
    mf_local_undeal(l);
    mf_local_deinit_step(l);
    mf_local_deinit_average(l);
    mf_free(l->machines);
    l->machines = NULL;
    l->verdict = (mf_local_verdict){ 0 };
    l->watched = false;
    l->trainer = NULL;
}

/* A checkpoint, or others, may have had other groups. */
static mf_status local_aligned(mf_dist_worker *team, mf_trainer *t)
{
    mf_local_sgd *l = strategy_local_sgd_of_team(team);

    if (l->wanted > 0 && t->standing.groups != l->wanted)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "training has begun with %lld groups, not %lld: going on would give other "
                       "weights; use the same, or begin in another folder",
                       (long long)t->standing.groups, (long long)l->wanted);
    MF_TRY(check_groups(l, t->standing.groups));
    if (l->n_weights > 0 && l->n_weights != t->standing.groups)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "local_sgd: there are %lld weights for %lld groups: give one for each group",
                       (long long)l->n_weights, (long long)t->standing.groups);
    MF_TRY(mf_local_deal(l));
    MF_TRY(mf_local_align_verdict(l));
    return mf_local_commit_now(l);
}

static mf_status local_begin_step(mf_dist_worker *team, int64_t step, int64_t samples,
                                  bool wants_stop)
{
    mf_local_sgd *l = strategy_local_sgd_of_team(team);

    l->wants_stop |= wants_stop;
    return mf_local_begin_step(l, step, samples);
}

static mf_status local_settle(mf_dist_worker *team, bool *stop)
{
    return mf_local_average(strategy_local_sgd_of_team(team), stop);
}

static mf_status local_end_step(mf_dist_worker *team, int64_t step, bool *stop)
{
    return step % strategy_local_sgd_of_team(team)->period == 0 ? local_settle(team, stop) : MF_OK;
}

static void local_failed(mf_dist_worker *team, mf_status why)
{
    mf_net *net = mf_local_net(strategy_local_sgd_of_team(team));

    if (net)
        mf_net_abort(net, why);
}

/* ---- workers that come and go ---- */

/* What belongs to the epoch that is over; and the steps that not all have done. */
static void strategy_local_sgd_part(mf_dist_worker *team, mf_status why)
{
    mf_local_sgd *l = strategy_local_sgd_of_team(team);
    mf_error e;

    mf_error_save(why, &e);
    mf_local_part(l);
    mf_group_free(team->group);
    team->group = NULL;
    l->next_group_id = FIRST_GROUP_ID;
    mf_local_go_back(l);
    (void)mf_error_restore(&e);
    mf_job_members_part(&l->members, why);
}

static mf_status strategy_local_sgd_meet_once(mf_dist_worker *team, mf_trainer *t)
{
    mf_local_sgd *l = strategy_local_sgd_of_team(team);

    (void)t;
    MF_TRY(mf_job_members_meet(&l->members));
    MF_TRY(mf_job_describe_view(&l->members, team));
    return mf_job_members_group(&l->members, 1, &team->group);
}

static mf_status local_meet(mf_dist_worker *team, mf_trainer *t, mf_status why)
{
    static const mf_job_meeting meeting = { strategy_local_sgd_part, strategy_local_sgd_meet_once };

    return mf_job_meet(team, t, &meeting, why);
}

static const mf_dist_worker_kind TEAM = { .join = local_join,
                                          .leave = local_leave,
                                          .aligned = local_aligned,
                                          .begin_step = local_begin_step,
                                          .run = mf_local_run,
                                          .end_step = local_end_step,
                                          .settle = local_settle,
                                          .watch = mf_local_watch,
                                          .verdict = mf_local_tell,
                                          .before_save = mf_local_before_save,
                                          .meet = local_meet,
                                          .note_saved = mf_job_note_saved,
                                          .over = mf_job_note_end,
                                          .failed = local_failed };

/* ---- opening and closing ---- */

static void strategy_local_sgd_local_close(mf_strategy *s)
{
    mf_local_sgd *l = (mf_local_sgd *)s;
    const mf_net *net = mf_local_net(l);

    if (l->team.members && net && mf_net_check(l->members.net) == MF_OK &&
        mf_dist_worker_meet(&l->team, 0, "the end") !=
            MF_OK) /* nobody leaves while others still send */
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    mf_group_free(l->team.group);
    mf_segment_free(l->alone);
    if (l->net)
        mf_net_close(l->net);
    if (l->team.members)
        mf_job_members_deinit(&l->members);
    mf_free(l->machines);
    mf_free(l->weights);
    mf_free(l->collective);
    mf_free(l);
}

/* Each group has a weight of its own. */
static mf_status strategy_local_sgd_read_aggregation(mf_local_sgd *l, const mf_strategy_settings *s)
{
    const int64_t groups = l->wanted > 0 ? l->wanted : l->first_size;

    MF_TRY(mf_aggregation_make(s, "group", (int)(groups < INT_MAX ? groups : INT_MAX),
                               &l->aggregation, &l->weights));
    l->n_weights = l->weights ? groups : 0;
    return MF_OK;
}

/* Slots that each group keeps for itself are lost with whoever has them: then nobody may be. */
static mf_status strategy_local_sgd_open_all(mf_local_sgd *l, const mf_strategy_call *call)
{
    l->slots = call->settings->local_sgd.slots;
    MF_TRY(strategy_local_sgd_read_aggregation(l, call->settings));
    l->collective = mf_strdup(call->settings->collective);
    if (!l->collective)
        return MF_NOMEM("workers");
    if (l->slots != MF_SLOTS_KEEP && mf_job_may_change(call->o, call->cluster)) {
        l->team.members = &l->members;
        return mf_job_members_init(call, &l->members);
    }
    if (call->cluster->n_tasks <= 1)
        return mf_job_group_alone(&l->alone, &l->team.group);
    MF_TRY(mf_job_connect(call, &l->net));
    return mf_job_group(call, l->net, 1, &l->team.group);
}

mf_status mf_local_sgd_open(const mf_strategy_call *call, mf_strategy **out)
{
    mf_local_sgd *l = mf_calloc(1, sizeof *l);
    mf_status st;

    if (!l)
        return MF_NOMEM("workers");
    l->strategy = (mf_strategy){ .team = &l->team, .close = strategy_local_sgd_local_close };
    l->period = call->settings->local_sgd.period;
    l->wanted = call->settings->local_sgd.groups;
    l->first_size = call->cluster->size > 1 ? call->cluster->size : 1;
    l->next_group_id = FIRST_GROUP_ID;
    l->commit.step = -1;
    l->team = (mf_dist_worker){ .kind = &TEAM,
                                .rank = call->cluster->rank,
                                .size = l->first_size,
                                .timeout_ns = call->timeout_ns,
                                .lockstep = true,
                                .apart = true };
    st = strategy_local_sgd_open_all(l, call);
    if (st == MF_OK) {
        *out = &l->strategy;
        return MF_OK;
    }
    mf_error why;

    mf_error_save(st, &why);
    strategy_local_sgd_local_close(&l->strategy);
    return mf_error_restore(&why);
}
