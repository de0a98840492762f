/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_local_sgd.c - groups of workers train separately, each on its part of every batch, and
 * the variables of all groups are averaged periodically (strategy local_sgd). Inside:
 * strategy_local_sgd.h. */
#include "dist/local_sgd/strategy_local_sgd.h"

#include "base/log.h"

#include <limits.h>
#include <string.h>

enum { FIRST_GROUP_ID = 2 };

static mf_local_sgd *strategy_local_sgd_of_dist(mf_dist *dist)
{
    return (mf_local_sgd *)(void *)((char *)dist - offsetof(mf_local_sgd, dist));
}

/* ---- lifecycle and steps ---- */

static mf_status check_groups(const mf_local_sgd *l, int64_t n)
{
    if (n > MF_MOST_GROUPS)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%lld groups; at most %d are possible", (long long)n,
                       MF_MOST_GROUPS);
    if (n > l->dist.shards.total)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%lld groups cannot share %lld shards; give --shards %lld or more",
                       (long long)n, (long long)l->dist.shards.total, (long long)n);
    return MF_OK;
}

/* Groups are assigned when the workers and their state are known: local_aligned(). */
static mf_status local_join(mf_dist *dist, mf_trainer *t)
{
    mf_local_sgd *l = strategy_local_sgd_of_dist(dist);

    if (l->trainer)
        return MF_FAIL(MF_FAILED_PRECONDITION, "a strategy serves one trainer at a time");
    l->trainer = t;
    dist->shards.total = t->options.shards;
    t->progress.groups = l->wanted > 0 ? l->wanted : l->first_size;
    MF_TRY(check_groups(l, t->progress.groups));
    MF_TRY(mf_local_init_step(l));
    return mf_local_init_average(l);
}

/* The trainer's session is freed already. */
static void local_leave(mf_dist *dist, mf_trainer *t)
{
    mf_local_sgd *l = strategy_local_sgd_of_dist(dist);

    if (l->trainer != t)
        return;
    mf_local_unassign(l);
    mf_local_deinit_step(l);
    mf_local_deinit_average(l);
    mf_free(l->machines);
    l->machines = NULL;
    l->verdict = (mf_local_verdict){ 0 };
    l->watched = false;
    l->trainer = NULL;
}

/* A checkpoint, or other workers, may have another number of groups. */
static mf_status local_aligned(mf_dist *dist, mf_trainer *t)
{
    mf_local_sgd *l = strategy_local_sgd_of_dist(dist);

    if (l->wanted > 0 && t->progress.groups != l->wanted)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "training began with %lld groups, not %lld: continuing would give other "
                       "weights; use the same number, or begin in another folder",
                       (long long)t->progress.groups, (long long)l->wanted);
    MF_TRY(check_groups(l, t->progress.groups));
    if (l->n_weights > 0 && l->n_weights != t->progress.groups)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "local_sgd: %lld weights for %lld groups: give one for each group",
                       (long long)l->n_weights, (long long)t->progress.groups);
    MF_TRY(mf_local_assign(l));
    MF_TRY(mf_local_align_verdict(l));
    return mf_local_commit_now(l);
}

static mf_status local_begin_step(mf_dist *dist, int64_t step, int64_t samples, bool wants_stop)
{
    mf_local_sgd *l = strategy_local_sgd_of_dist(dist);

    l->wants_stop |= wants_stop;
    return mf_local_begin_step(l, step, samples);
}

static mf_status local_settle(mf_dist *dist, bool *stop)
{
    return mf_local_average(strategy_local_sgd_of_dist(dist), stop);
}

static mf_status local_end_step(mf_dist *dist, int64_t step, bool *stop)
{
    return step % strategy_local_sgd_of_dist(dist)->period == 0 ? local_settle(dist, stop) : MF_OK;
}

static void local_failed(mf_dist *dist, mf_status why)
{
    mf_net *net = mf_local_net(strategy_local_sgd_of_dist(dist));

    if (net)
        mf_net_abort(net, why);
}

/* ---- recovery ---- */

/* Steps that not all workers have done are undone. */
static void local_release(mf_dist *dist)
{
    mf_local_sgd *l = strategy_local_sgd_of_dist(dist);

    mf_local_release(l);
    l->next_group_id = FIRST_GROUP_ID;
    mf_local_go_back(l);
}

/* Groups of workers are assigned when the state is known: local_aligned(). */
static const mf_recovery_hooks local_recovery = { .release = local_release };

static const mf_dist_lifecycle_ops local_lifecycle = {
    .join = local_join, .leave = local_leave, .over = mf_job_note_end, .failed = local_failed
};

static const mf_dist_step_ops local_steps = { .begin_step = local_begin_step,
                                              .run = mf_local_run,
                                              .end_step = local_end_step,
                                              .settle = local_settle };

static const mf_dist_membership_ops local_membership = { .rendezvous = mf_recovery_rendezvous,
                                                         .aligned = local_aligned,
                                                         .step_done = mf_recovery_step_done };

static const mf_dist_state_ops local_state = { .before_save = mf_local_before_save,
                                               .note_saved = mf_job_note_saved };

static const mf_dist_convergence_ops local_convergence = { .watch = mf_local_watch,
                                                           .verdict = mf_local_get_verdict };

/* ---- opening and closing ---- */

static void strategy_local_sgd_local_close(mf_strategy *s)
{
    mf_local_sgd *l = (mf_local_sgd *)s;
    const mf_net *net = mf_local_net(l);

    if (l->dist.members && net && mf_net_check(l->members.net) == MF_OK &&
        mf_dist_barrier(&l->dist, 0, "the end") !=
            MF_OK) /* no worker closes while others still send */
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    mf_group_free(l->dist.group);
    mf_segment_free(l->alone);
    if (l->net)
        mf_net_close(l->net);
    if (l->dist.members)
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

/* Slots that each group keeps for itself are lost with its workers: then no worker may be lost. */
static mf_status strategy_local_sgd_open_all(mf_local_sgd *l, const mf_strategy_call *call)
{
    l->slots = call->settings->local_sgd.slots;
    MF_TRY(strategy_local_sgd_read_aggregation(l, call->settings));
    l->collective = mf_strdup(call->settings->collective);
    if (!l->collective)
        return MF_NOMEM("workers");
    if (l->slots != MF_SLOTS_KEEP && mf_job_is_elastic(call->o, call->cluster)) {
        l->dist.members = &l->members;
        return mf_job_members_init(call, &local_recovery, &l->members);
    }
    if (call->cluster->n_tasks <= 1)
        return mf_job_group_alone(&l->alone, &l->dist.group);
    MF_TRY(mf_job_connect(call, &l->net));
    return mf_job_group(call, l->net, 1, &l->dist.group);
}

mf_status mf_local_sgd_open(const mf_strategy_call *call, mf_strategy **out)
{
    mf_local_sgd *l = mf_calloc(1, sizeof *l);
    mf_status st;

    if (!l)
        return MF_NOMEM("workers");
    l->strategy = (mf_strategy){ .dist = &l->dist, .close = strategy_local_sgd_local_close };
    l->period = call->settings->local_sgd.period;
    l->wanted = call->settings->local_sgd.groups;
    l->first_size = call->cluster->size > 1 ? call->cluster->size : 1;
    l->next_group_id = FIRST_GROUP_ID;
    l->commit.step = -1;
    l->dist = (mf_dist){ .ops = { .lifecycle = &local_lifecycle,
                                  .step = &local_steps,
                                  .membership = &local_membership,
                                  .state = &local_state,
                                  .convergence = &local_convergence },
                         .rank = call->cluster->rank,
                         .size = l->first_size,
                         .timeout_ns = call->timeout_ns,
                         .caps = MF_DIST_LOCKSTEP | MF_DIST_OWN_BATCHES };
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
