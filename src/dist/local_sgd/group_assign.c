/* SPDX-License-Identifier: Apache-2.0 */
/* group_assign.c - which groups this worker computes, and with which other workers. */
#include "base/log.h"
#include "dist/local_sgd/strategy_local_sgd.h"

/* ---- variables of groups that are not in hand ---- */

static mf_status add_state(mf_local_sgd *l, mf_local_group *g)
{
    const mf_trainer *t = l->trainer;

    g->state = mf_calloc(t->n_trained, sizeof *g->state);
    if (!g->state)
        return MF_NOMEM("groups");
    for (int64_t i = 0; i < t->n_trained; i++)
        MF_TRY(mf_variable_read(t->trained[i].variable, &g->state[i]));
    return MF_OK;
}

static mf_status group_assign_add_own(mf_local_sgd *l)
{
    const mf_share places = mf_worker_groups_places(&l->groups, l->dist.rank);

    l->own = mf_calloc(places.n, sizeof *l->own);
    if (!l->own)
        return MF_NOMEM("groups");
    for (int64_t k = 0; k < places.n; k++) {
        mf_local_group *g = &l->own[l->n_own++];

        g->group = l->groups.active[places.first + k];
        if (k > 0)
            MF_TRY(add_state(l, g));
    }
    return MF_OK;
}

/* ---- a group of several workers ---- */

static void group_assign_give_up(void *ctx, mf_status why)
{
    if (ctx)
        mf_net_abort(ctx, why);
}

/* The group's part of a batch has as many shards as a batch has. */
static mf_status group_assign_make_sums(mf_local_sgd *l, int64_t workers)
{
    const mf_trainer *t = l->trainer;
    mf_share *of = mf_calloc(workers, sizeof *of);
    mf_status st;

    if (!of)
        return MF_NOMEM("groups");
    for (int64_t r = 0; r < workers; r++) {
        of[r].first = l->dist.shards.total * r / workers;
        of[r].n = l->dist.shards.total * (r + 1) / workers - of[r].first;
    }
    st = mf_gradient_allreduce_new(
        &(mf_gradient_allreduce_options){ .group = l->exchange_group,
                                          .shards = l->dist.shards.total,
                                          .of = of,
                                          .n_buckets = t->graph.n_buckets,
                                          .timeout_ns = l->dist.timeout_ns,
                                          .failed = group_assign_give_up,
                                          .ctx = mf_local_net(l) },
        &l->sums);
    mf_free(of);
    return st;
}

static mf_status join_others(mf_local_sgd *l, mf_share workers, uint32_t id)
{
    int *members = mf_calloc(workers.n, sizeof *members);
    mf_status st;

    if (!members)
        return MF_NOMEM("groups");
    for (int64_t i = 0; i < workers.n; i++)
        members[i] = (int)(workers.first + i);
    st = mf_job_group_of(mf_local_net(l), members, (int)workers.n, id, l->collective,
                         &l->exchange_group);
    mf_free(members);
    MF_TRY(st);
    MF_TRY(group_assign_make_sums(l, workers.n));
    mf_session_set_exchange(l->trainer->session, mf_gradient_allreduce_exchange(l->sums));
    l->dist.shards.part_first = mf_gradient_allreduce_exchange(l->sums)->first;
    l->dist.shards.part_n = mf_gradient_allreduce_exchange(l->sums)->count;
    return MF_OK;
}

/* ---- assignment ---- */

void mf_local_unassign(mf_local_sgd *l)
{
    const mf_trainer *t = l->trainer;

    for (int64_t k = 0; k < l->n_own; k++) {
        for (int64_t i = 0; l->own[k].state && i < t->n_trained; i++)
            mf_tensor_clear(&l->own[k].state[i]);
        mf_free(l->own[k].state);
        mf_free(l->own[k].steps);
    }
    mf_free(l->own);
    l->own = NULL;
    l->n_own = 0;
    mf_gradient_allreduce_free(l->sums);
    mf_group_free(l->exchange_group);
    l->sums = NULL;
    l->exchange_group = NULL;
}

void mf_local_release(mf_local_sgd *l)
{
    if (l->sums)
        mf_session_set_exchange(l->trainer->session, NULL);
    mf_local_unassign(l);
}

static void log_own_groups(const mf_local_sgd *l)
{
    const int first = l->own[0].group, last = l->own[l->n_own - 1].group;

    if (l->sums)
        MF_INFO("this worker does a part of group %d: %lld of the %lld shards of its samples",
                first, (long long)l->dist.shards.part_n, (long long)l->dist.shards.total);
    else if (l->n_own == 1)
        MF_INFO("this worker does group %d", first);
    else
        MF_INFO("this worker does %lld groups, from %d to %d", (long long)l->n_own, first, last);
}

mf_status mf_local_assign(mf_local_sgd *l)
{
    mf_dist *dist = &l->dist;
    const mf_train_progress *s = &l->trainer->progress;
    const uint32_t id = l->next_group_id;
    mf_share places, workers, reads;

    mf_local_release(l);
    mf_worker_groups_assign(&l->groups, (int)s->groups, dist->shards.total, dist->size, s->left_at);
    reads = mf_worker_groups_reads(&l->groups, dist->rank);
    dist->shards.first = reads.first;
    dist->shards.n = reads.n;
    dist->shards.part_first = dist->shards.part_n = 0;
    l->next_group_id += (uint32_t)l->groups.n_active;
    MF_TRY(group_assign_add_own(l));
    places = mf_worker_groups_places(&l->groups, dist->rank);
    workers = mf_worker_groups_workers(&l->groups, (int)places.first);
    if (workers.n > 1)
        MF_TRY(join_others(l, workers, id + (uint32_t)places.first));
    log_own_groups(l);
    return MF_OK;
}
