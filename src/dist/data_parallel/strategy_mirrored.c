/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_mirrored.c - one process that computes every batch in several places (strategies
 * mirrored and central_storage; the latter over several workers is strategy_param_server.c's). */
#include "base/log.h"
#include "base/machine_limits.h"
#include "dist/data_parallel/replicas.h"
#include "dist/strategies.h"

#include <stddef.h>

enum { MOST = 256 }; /* replicas */

typedef struct mirrored {
    mf_strategy strategy; /* first */
    mf_dist dist;
    int n;
    bool one_store;
    mf_aggregation aggregation;
    double *weights;
    mf_replicas *replicas;
} mirrored;

static mirrored *strategy_mirrored_of_dist(mf_dist *dist)
{
    return (mirrored *)(void *)((char *)dist - offsetof(mirrored, dist));
}

/* ---- steps: one worker, several replicas ---- */

static mf_status mirrored_join(mf_dist *dist, mf_trainer *t)
{
    mirrored *m = strategy_mirrored_of_dist(dist);

    if (m->replicas)
        return MF_FAIL(MF_FAILED_PRECONDITION, "a strategy serves one trainer at a time");
    dist->shards.total = dist->shards.n = t->options.shards;
    if (dist->shards.total < m->n)
        MF_WARN("%d replicas share %lld shards: some replicas have no shard; give --shards %d or "
                "more",
                m->n, (long long)dist->shards.total, m->n);
    MF_TRY(mf_aggregation_join(&m->aggregation, t));
    return mf_replicas_new(
        &(mf_replicas_options){
            .trainer = t, .n = m->n, .one_store = m->one_store, .aggregation = m->aggregation },
        &m->replicas);
}

static void mirrored_leave(mf_dist *dist, mf_trainer *t)
{
    mirrored *m = strategy_mirrored_of_dist(dist);

    (void)t;
    mf_replicas_free(m->replicas);
    m->replicas = NULL;
}

static mf_status mirrored_begin_step(mf_dist *dist, int64_t step, int64_t samples, bool wants_stop)
{
    return mf_replicas_begin_step(strategy_mirrored_of_dist(dist)->replicas, step, samples,
                                  wants_stop);
}

static mf_status mirrored_run(mf_dist *dist, mf_trainer *t, const mf_run_options *options,
                              const struct mf_loop_call *call)
{
    (void)t;
    return mf_replicas_run(strategy_mirrored_of_dist(dist)->replicas, options, call);
}

static mf_status mirrored_end_step(mf_dist *dist, int64_t step, bool *stop)
{
    (void)step;
    *stop = mf_replicas_wants_stop(strategy_mirrored_of_dist(dist)->replicas);
    return MF_OK;
}

static void mirrored_failed(mf_dist *dist, mf_status why)
{
    if (strategy_mirrored_of_dist(dist)->replicas)
        mf_replicas_abort(strategy_mirrored_of_dist(dist)->replicas, why);
}

static const mf_dist_lifecycle_ops mirrored_lifecycle = { .join = mirrored_join,
                                                          .leave = mirrored_leave,
                                                          .failed = mirrored_failed };

static const mf_dist_step_ops mirrored_steps = { .begin_step = mirrored_begin_step,
                                                 .run = mirrored_run,
                                                 .end_step = mirrored_end_step };

/* ---- opening and closing ---- */

static void mirrored_close(mf_strategy *s)
{
    mf_free(((mirrored *)s)->weights);
    mf_free(s);
}

static mf_status open_replicas(const mf_strategy_call *call, bool one_store, mf_strategy **out)
{
    int64_t n = call->settings->replicas;
    mirrored *m;
    mf_status st;

    if (call->cluster->size > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the strategy %s is for one process, and this job has %d; use "
                       "multi_worker_mirrored",
                       call->name, call->cluster->size);
    if (n == 0)
        n = mf_default_threads(NULL);
    if (n > MOST)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%lld replicas; at most %d are possible", (long long)n,
                       MOST);
    m = mf_calloc(1, sizeof *m);
    if (!m)
        return MF_NOMEM("replicas");
    m->n = (int)n;
    m->one_store = one_store;
    m->strategy = (mf_strategy){ .dist = &m->dist, .close = mirrored_close };
    m->dist = (mf_dist){ .ops = { .lifecycle = &mirrored_lifecycle, .step = &mirrored_steps },
                         .rank = 0,
                         .size = 1,
                         .timeout_ns = call->timeout_ns };
    st = mf_aggregation_make(call->settings, "replica", m->n, &m->aggregation, &m->weights);
    if (st != MF_OK)
        mirrored_close(&m->strategy);
    else
        *out = &m->strategy;
    return st;
}

mf_status mf_mirrored_open(const mf_strategy_call *call, mf_strategy **out)
{
    return open_replicas(call, false, out);
}

mf_status mf_central_storage_open(const mf_strategy_call *call, mf_strategy **out)
{
    const mf_cluster *c = call->cluster;
    const bool many = c->size > 1 || mf_cluster_count(c, MF_ROLE_PS) > 0;

    return many ? mf_ps_open_central(call, out) : open_replicas(call, true, out);
}
