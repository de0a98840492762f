/* SPDX-License-Identifier: Apache-2.0 */
/* group_step.c - a step of each group of this worker, one after the other: the group's variables
 * are swapped with the trainer's, and it gets its rows of the batch. */
#include "dist/local_sgd/strategy_local_sgd.h"
#include "graph/shard.h"
#include "train/loop/loop.h"

#include <math.h>
#include <string.h>

mf_status mf_local_init_step(mf_local_sgd *l)
{
    const mf_names *n = &l->trainer->step_names;

    l->rows = mf_calloc(n->n_feeds, sizeof *l->rows);
    l->feeds = mf_calloc(n->n_feeds, sizeof *l->feeds);
    l->totals = mf_calloc(n->n_fetches, sizeof *l->totals);
    if (!l->rows || !l->feeds || !l->totals)
        return MF_NOMEM("groups");
    MF_TRY(mf_tensor_alloc(&l->clock, MF_DTYPE_I64, &MF_SHAPE(3)));
    return mf_tensor_alloc(&l->inverse, MF_DTYPE_F32, &MF_SCALAR);
}

void mf_local_deinit_step(mf_local_sgd *l)
{
    for (int i = 0; l->totals && i < l->trainer->step_names.n_fetches; i++)
        mf_tensor_clear(&l->totals[i]);
    mf_free(l->rows);
    mf_free(l->feeds);
    mf_free(l->totals);
    l->rows = l->totals = NULL;
    l->feeds = NULL;
    mf_tensor_clear(&l->clock);
    mf_tensor_clear(&l->inverse);
}

static void change_places(const mf_local_sgd *l, mf_local_group *g)
{
    for (int64_t i = 0; g->state && i < l->trainer->n_trained; i++)
        mf_variable_exchange(l->trainer->trained[i].variable, &g->state[i]);
}

/* For groups whose variables are not the trainer's at the moment: the trainer counts its own. */
static mf_status group_step_count_step(const mf_local_sgd *l)
{
    mf_status st = MF_OK;

    for (int64_t k = 1; k < l->n_own && st == MF_OK; k++) {
        change_places(l, &l->own[k]);
        st = mf_trainer_count_step(l->trainer);
        change_places(l, &l->own[k]);
    }
    return st;
}

mf_status mf_local_begin_step(mf_local_sgd *l, int64_t step, int64_t samples)
{
    l->dist.samples.own = 0;
    for (int64_t k = 0; k < l->n_own; k++) {
        mf_local_group *g = &l->own[k];

        g->rows = mf_worker_groups_samples(&l->groups, g->group, samples);
        g->samples += g->rows.n;
        l->dist.samples.own += g->rows.n;
        MF_TRY(mf_grow(&g->steps, &g->cap_steps, g->n_steps + 1, sizeof *g->steps));
        g->steps[g->n_steps++] = (mf_local_step){ NAN, g->rows.n };
    }
    if (l->dist.samples.own == 0) /* no group runs */
        return group_step_count_step(l);
    return l->sums ? mf_gradient_allreduce_begin_step(l->sums, step, l->own[0].rows.n, 0) : MF_OK;
}

/* ---- feeds ---- */

/* This worker's rows of the group's: all, or those of its shards. */
static mf_share group_step_rows_of(const mf_local_sgd *l, const mf_local_group *g)
{
    const mf_exchange *x = l->sums ? mf_gradient_allreduce_exchange(l->sums) : NULL;
    int64_t from, to;

    if (!x)
        return g->rows;
    from = mf_shard_begin(g->rows.n, l->dist.shards.total, x->first);
    to = mf_shard_begin(g->rows.n, l->dist.shards.total, x->first + x->count);
    return (mf_share){ g->rows.first + from, to - from };
}

static void group_step_cut(const mf_tensor *batch, int64_t from, int64_t n, mf_tensor *out)
{
    *out = *batch;
    out->count = mf_shape_span(&out->shape, 1, out->shape.rank);
    out->data = (char *)out->data + (size_t)(from * out->count) * mf_dtype_cell(out->dtype);
    out->shape.dims[0] = n;
    out->count *= n;
}

/* The rows, their position in the batch, and the number of samples that means are over. */
static void group_step_feed(mf_local_sgd *l, const mf_local_group *g, const mf_loop_call *call)
{
    const int n_batched = (int)l->trainer->model->n_inputs + 1;
    const int64_t read = ((const int64_t *)call->feeds[n_batched]->data)[2]; /* its first row */
    const mf_share rows = group_step_rows_of(l, g);

    for (int i = 0; i < call->n_feeds; i++) {
        l->feeds[i] = call->feeds[i];
        if (i >= n_batched)
            continue;
        group_step_cut(call->feeds[i], rows.first - read, rows.n, &l->rows[i]);
        l->feeds[i] = &l->rows[i];
    }
    memcpy(l->clock.data, call->feeds[n_batched]->data, 3 * sizeof(int64_t));
    ((int64_t *)l->clock.data)[2] = rows.first;
    ((float *)l->inverse.data)[0] = 1.0f / (float)g->rows.n;
    l->feeds[n_batched] = &l->clock;
    l->feeds[n_batched + 2] = &l->inverse;
}

/* ---- results ---- */

/* Results are sums over samples, so those of several groups are added. */
static mf_status group_step_add_results(mf_local_sgd *l, const mf_loop_call *call, bool first)
{
    for (int i = 0; i < call->n_fetches; i++) {
        mf_tensor *total = &l->totals[i];
        const float *add = call->results[i]->data;

        if (first) {
            mf_tensor_clear(total);
            MF_TRY(mf_tensor_clone(total, call->results[i]));
            continue;
        }
        for (int64_t j = 0; j < total->count; j++)
            ((float *)total->data)[j] += add[j];
    }
    return MF_OK;
}

/* ---- one group ---- */

static mf_status run_group(mf_local_sgd *l, mf_local_group *g, const mf_run_options *options,
                           const mf_loop_call *call, bool first)
{
    mf_trainer *t = l->trainer;
    mf_loop_call own = *call;

    if (g->rows.n == 0)
        return mf_trainer_count_step(t);
    group_step_feed(l, g, call);
    own.feeds = l->feeds;
    MF_TRY(first ? mf_trainer_call(t, options, &own) /* with hooks, which expect one run for each
                                                        step */
                 : mf_session_run(t->session, NULL, own.feed_names, own.feeds, own.n_feeds,
                                  own.fetches, own.n_fetches, own.targets, own.n_targets,
                                  own.results));
    g->steps[g->n_steps - 1].loss = mf_report_value(&t->graph.reports[0], call->results[0]->data,
                                                    call->results[0]->count, g->rows.n);
    return l->n_own > 1 ? group_step_add_results(l, call, first) : MF_OK;
}

mf_status mf_local_run(mf_dist *dist, mf_trainer *t, const mf_run_options *options,
                       const mf_loop_call *call)
{
    mf_local_sgd *l = (mf_local_sgd *)(void *)((char *)dist - offsetof(mf_local_sgd, dist));
    bool first = true;

    (void)t;
    for (int64_t k = 0; k < l->n_own; k++) {
        mf_local_group *g = &l->own[k];
        mf_status st;

        change_places(l, g);
        st = run_group(l, g, options, call, first);
        change_places(l, g);
        MF_TRY(st);
        first &= g->rows.n == 0;
    }
    for (int i = 0; l->n_own > 1 && i < call->n_fetches; i++)
        mf_tensor_move(call->results[i], &l->totals[i]);
    return MF_OK;
}
