/* SPDX-License-Identifier: Apache-2.0 */
/* group_aggregate.c - aggregation of the weights of all groups, other than their mean. All groups
 * had the same weights after the last average; the change of each since then is one long vector,
 * and these vectors are aggregated like gradients of shards. The unit is the group, so the result
 * does not depend on the workers. */
#include "dist/data_parallel/robust_reduce.h"
#include "dist/local_sgd/strategy_local_sgd.h"
#include "dist/local_sgd/weight_average.h"

#include <string.h>

bool mf_local_aggregates(const mf_local_sgd *l, int64_t variable)
{
    const mf_train_var *v = &l->trainer->trained[variable];
    const mf_model *model = l->trainer->model;

    if (l->aggregation.how == MF_AGGREGATE_MEAN || !v->is_weight ||
        v->variable->dtype != MF_DTYPE_F32)
        return false;
    for (int64_t i = 0; i < model->n_weights; i++) {
        if (strcmp(model->weights[i]->name, v->name) == 0)
            return model->weights[i]->trained;
    }
    return false;
}

/* ---- the changes of groups ---- */

typedef struct group_aggregate_changes {
    mf_robust_reduce_item *weights; /* their positions in a vector */
    int n_weights;
    int64_t count; /* floats of a vector */
    mf_tensor *own; /* a vector for each group with samples that this worker represents */
    const mf_tensor **own_at;
    int64_t n_own;
    mf_tensor result;
    mf_share *of; /* by rank: such groups */
    double factor[MF_MOST_GROUPS]; /* of such a group: how much it counts */
    int64_t groups; /* such groups */
} group_aggregate_changes;

static void changes_deinit(group_aggregate_changes *c)
{
    for (int64_t k = 0; c->own && k < c->n_own; k++)
        mf_tensor_clear(&c->own[k]);
    mf_tensor_clear(&c->result);
    mf_free(c->own);
    mf_free(c->own_at);
    mf_free(c->weights);
    mf_free(c->of);
}

/* One weight of a group: its change since the last average. */
static mf_status subtract(const mf_local_sgd *l, const mf_local_group *g, int64_t i, float *out)
{
    const float *before = l->commit.values[i].data;
    mf_tensor now = { 0 };

    if (g->state)
        mf_tensor_set(&now, &g->state[i]);
    else
        MF_TRY(mf_variable_read(l->trainer->trained[i].variable, &now));
    for (int64_t e = 0; e < now.count; e++)
        out[e] = ((const float *)now.data)[e] - before[e];
    mf_tensor_clear(&now);
    return MF_OK;
}

static mf_status group_aggregate_add_own(const mf_local_sgd *l, const mf_local_group *g,
                                         group_aggregate_changes *c)
{
    mf_tensor *x = &c->own[c->n_own];
    int n = 0;

    MF_TRY(mf_tensor_alloc(x, MF_DTYPE_F32, &MF_SHAPE(c->count)));
    c->own_at[c->n_own++] = x;
    for (int64_t i = 0; i < l->trainer->n_trained; i++) {
        if (l->aggregated[i])
            MF_TRY(subtract(l, g, i, (float *)x->data + c->weights[n++].at));
    }
    return MF_OK;
}

static void group_aggregate_lay_out(const mf_local_sgd *l, group_aggregate_changes *c)
{
    for (int64_t i = 0; i < l->trainer->n_trained; i++) {
        if (!l->aggregated[i])
            continue;
        c->weights[c->n_weights] = (mf_robust_reduce_item){ c->count, l->commit.values[i].count };
        c->count += c->weights[c->n_weights++].count;
    }
}

/* Groups without samples contribute nothing; the others are renumbered. */
static mf_status changes_init(const mf_local_sgd *l, const int64_t *samples,
                              group_aggregate_changes *c)
{
    c->weights = mf_calloc(l->trainer->n_trained, sizeof *c->weights);
    c->own = mf_calloc(l->n_own, sizeof *c->own);
    c->own_at = mf_calloc(l->n_own, sizeof *c->own_at);
    c->of = mf_calloc(l->dist.size, sizeof *c->of);
    if (!c->weights || !c->own || !c->own_at || !c->of)
        return MF_NOMEM("averages");
    group_aggregate_lay_out(l, c);
    for (int r = 0; r < l->dist.size; r++) {
        const mf_share places = { mf_worker_groups_places(&l->groups, r).first,
                                  mf_local_spoken_for(l, r) };

        c->of[r].first = c->groups;
        for (int64_t p = places.first; p < places.first + places.n; p++) {
            if (samples[p] == 0)
                continue;
            if (r == l->dist.rank)
                MF_TRY(group_aggregate_add_own(l, &l->own[p - places.first], c));
            c->factor[c->groups++] = l->aggregation.how == MF_AGGREGATE_WEIGHTED
                                         ? l->weights[l->groups.active[p]]
                                         : (double)samples[p];
        }
        c->of[r].n = c->groups - c->of[r].first;
    }
    return mf_tensor_alloc(&c->result, MF_DTYPE_F32, &MF_SHAPE(c->count));
}

/* ---- the result ---- */

static mf_status aggregate_apart(const mf_local_sgd *l, const mf_collective *call,
                                 group_aggregate_changes *c)
{
    const void **own = mf_calloc(c->n_own, sizeof *own);
    mf_shard_owners shares = { 0 };
    mf_status st = own ? mf_shard_owners_init(&shares, l->dist.size, c->groups, 1, c->of)
                       : MF_NOMEM("averages");

    for (int64_t k = 0; own && k < c->n_own; k++)
        own[k] = c->own[k].data;
    if (st == MF_OK) {
        mf_shard_owners_set(&shares, c->groups);
        st = mf_robust_reduce_reduce(&(mf_robust_reduce){ .group = l->dist.group,
                                                          .call = *call,
                                                          .aggregation = &l->aggregation,
                                                          .shares = &shares,
                                                          .dtype = MF_DTYPE_F32,
                                                          .count = c->count,
                                                          .gradients = c->weights,
                                                          .n_gradients = c->n_weights,
                                                          .shards = own,
                                                          .means = true,
                                                          .out = c->result.data });
    }
    mf_shard_owners_deinit(&shares);
    mf_free(own);
    return st;
}

static mf_status group_aggregate(const mf_local_sgd *l, const mf_collective *call,
                                 group_aggregate_changes *c)
{
    if (mf_aggregate_is_apart(l->aggregation.how))
        return aggregate_apart(l, call, c);
    return mf_average(l->dist.group, call,
                      &(mf_average_of){ .leaves = c->groups,
                                        .weights = c->factor,
                                        .of = c->of,
                                        .values = c->own_at,
                                        .n = 1,
                                        .means = &c->result });
}

/* All groups have the new weights from here on. */
static mf_status group_aggregate_take(mf_local_sgd *l, const group_aggregate_changes *c)
{
    const double times = l->aggregation.how == MF_AGGREGATE_SUM ? (double)c->groups : 1.0;
    int n = 0;

    for (int64_t i = 0; i < l->trainer->n_trained; i++) {
        const mf_tensor *before = &l->commit.values[i];
        const float *change;
        mf_tensor value = { 0 };

        if (!l->aggregated[i])
            continue;
        change = (const float *)c->result.data + c->weights[n++].at;
        MF_TRY(mf_tensor_alloc(&value, MF_DTYPE_F32, &before->shape));
        for (int64_t e = 0; e < value.count; e++)
            ((float *)value.data)[e] =
                (float)((double)((const float *)before->data)[e] + times * (double)change[e]);
        mf_local_give(l, i, &value);
    }
    return MF_OK;
}

mf_status mf_local_aggregate(mf_local_sgd *l, const mf_collective *c, const int64_t *samples)
{
    group_aggregate_changes x = { 0 };
    mf_status st;

    if (l->aggregation.how == MF_AGGREGATE_MEAN)
        return MF_OK;
    st = changes_init(l, samples, &x);
    if (st == MF_OK)
        st = group_aggregate(l, c, &x);
    if (st == MF_OK)
        st = group_aggregate_take(l, &x);
    changes_deinit(&x);
    return st;
}
