/* SPDX-License-Identifier: Apache-2.0 */
/* strategy.c - the table of strategies, and opening one. */
#include "base/host_state.h"
#include "base/log.h"
#include "dist/job_members.h"
#include "dist/mesh/mesh_settings.h"
#include "dist/strategies.h"
#include "observe/status_page.h"

#include <stdio.h>
#include <stdlib.h>

const mf_strategy_kind mf_strategies[] = {
    { "multi_worker_mirrored",
      "{collective: string = 'auto', balance: bool = true, " MF_AGGREGATION_SETTINGS "}",
      "every worker has all weights; gradients of all shards of a batch are all-reduced",
      MF_STRATEGY_COLLECTIVE | MF_STRATEGY_BALANCE | MF_STRATEGY_AGGREGATION, NULL, NULL,
      mf_workers_open },
    { "reduce_to_one",
      "{collective: string = 'auto', balance: bool = true, " MF_AGGREGATION_SETTINGS "}",
      "gradients are reduced to one worker, which updates the weights and broadcasts them",
      MF_STRATEGY_COLLECTIVE | MF_STRATEGY_BALANCE | MF_STRATEGY_AGGREGATION, NULL, NULL,
      mf_reduce_to_one_open },
    { "mirrored", "{replicas: int >= 0 = 0, " MF_AGGREGATION_SETTINGS "}",
      "one process computes on several replicas; each has all weights", MF_STRATEGY_AGGREGATION,
      mf_replicas_read, mf_replicas_print, mf_mirrored_open },
    { "central_storage", "{replicas: int >= 0 = 0, " MF_AGGREGATION_SETTINGS "}",
      "one process computes on several replicas, or several workers do; the weights are on one "
      "replica, or on one parameter server",
      MF_STRATEGY_AGGREGATION, mf_replicas_read, mf_replicas_print, mf_central_storage_open },
    { "local_sgd",
      "{groups: int >= 0 = 0, period: int >= 1 = 16, slots: string = 'average', "
      "collective: string = 'auto', " MF_AGGREGATION_SETTINGS "}",
      "groups of workers train separately; their weights are averaged periodically",
      MF_STRATEGY_COLLECTIVE | MF_STRATEGY_AGGREGATION, mf_local_sgd_settings_read,
      mf_local_sgd_settings_print, mf_local_sgd_open },
    { "parameter_server",
      "{mode: string = 'sync', staleness: int >= 0 = 2, quorum: int >= 0 = 0, "
      "period: int >= 1 = 1, blocks: int >= 0 = 0, copies: int >= 0 = 1, by_host: bool = true, "
      "partition: string = 'even', shards: int >= 0 = 0, shard_bytes: int >= 1 = 262144, "
      "max_shards: int >= 0 = 0, place: string = 'round_robin', balance: bool = true, "
      "collective: string = 'auto', " MF_AGGREGATION_SETTINGS "}",
      "servers hold and update the weights; workers push gradients and pull weights",
      MF_STRATEGY_COLLECTIVE | MF_STRATEGY_BALANCE | MF_STRATEGY_AGGREGATION, mf_ps_settings_read,
      mf_ps_settings_print, mf_ps_open },
    { "mesh",
      "{axes: string, layout: string = '', exact: bool = false, stages: string = '', "
      "pipeline: string = '1f1b', chunks: int >= 1 = 2, balance: bool = false, "
      "collective: string = 'auto', " MF_AGGREGATION_SETTINGS "}",
      "the devices of a mesh hold shards of the weights and compute shards of each step, as a "
      "layout of named dimensions says; --mesh and --layout are short for it",
      MF_STRATEGY_COLLECTIVE | MF_STRATEGY_BALANCE | MF_STRATEGY_AGGREGATION, mf_mesh_settings_read,
      mf_mesh_settings_print, mf_mesh_open },
    { "servers", "{target: string, by_bytes: bool = true}",
      "steps run on a cluster of servers, TensorFlow's or `meshflow server`; --target is short for "
      "it",
      0, mf_remote_settings_read, mf_remote_settings_print, mf_servers_open },
    { 0 },
};

static void close_alone(mf_strategy *s)
{
    mf_free(s);
}

/* A single process. */
static mf_status open_alone(mf_strategy **out)
{
    mf_strategy *s = mf_calloc(1, sizeof *s);

    if (!s)
        return MF_NOMEM("a strategy");
    s->close = close_alone;
    *out = s;
    return MF_OK;
}

static mf_status open_kind(const mf_strategy_settings *settings, const mf_strategy_options *o,
                           const mf_cluster *cluster, mf_arena *arena, mf_strategy **out)
{
    const mf_strategy_kind *kind = settings->kind;
    mf_strategy_call call = { .name = kind->name,
                              .settings = settings,
                              .o = o,
                              .cluster = cluster,
                              .timeout_ns = mf_job_timeout_ns(o),
                              .arena = arena };

    if (o->codec && kind->open != mf_workers_open)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "codecs encode the gradients that workers all-reduce: omit --codec, or "
                       "use the strategy multi_worker_mirrored instead of %s",
                       kind->name);
    if (o->codec)
        MF_TRY(mf_codecs_parse(o->codec, &call.codecs));
    return kind->open(&call, out);
}

static const char *usual_for(const mf_cluster *cluster)
{
    return mf_cluster_count(cluster, MF_ROLE_PS) > 0 ? "parameter_server" : "multi_worker_mirrored";
}

static mf_status strategy_check_role(const mf_cluster *cluster)
{
    const mf_cluster_task *self = mf_cluster_self(cluster);

    if (!self || mf_role_trains(self->role) || self->role == MF_ROLE_PS)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "this process is %s %d, which cannot join a training: chief, worker "
                   "and ps can%s",
                   mf_role_name(self->role), self->index,
                   self->role == MF_ROLE_MASTER
                       ? "; a master needs a store, so omit --masters or --all-stay"
                       : "");
}

/* Options that need a cluster. */
static void warn_of_unused(const mf_strategy_options *o)
{
    const char *unused = o->store       ? "the store"
                         : o->tls_dir   ? "the folder of certificates"
                         : o->transport ? "the transport"
                                        : NULL;

    if (unused)
        MF_WARN("this process trains alone, as no cluster is configured: %s is not used", unused);
}

static mf_status open_for(const mf_strategy_settings *settings, const mf_strategy_options *o,
                          const mf_cluster *cluster, mf_strategy **out)
{
    mf_strategy_settings usual;
    mf_arena *arena;
    mf_status st;

    if (!settings && cluster->n_tasks <= 1 && !o->codec /* a codec changes bits even for a single
                                                           process */
        && !mf_job_is_elastic(o, cluster)) { /* workers may join */
        if (!cluster->addresses)
            warn_of_unused(o);
        return open_alone(out);
    }
    arena = mf_arena_new();
    if (!arena)
        return MF_NOMEM("a strategy");
    st = settings ? MF_OK : mf_strategy_parse(usual_for(cluster), arena, &usual);
    if (st == MF_OK)
        st = open_kind(settings ? settings : &usual, o, cluster, arena, out);
    mf_arena_free(arena);
    return st;
}

/* Opens the status page: from now on other processes see this one. */
static mf_status strategy_show(const char *job, const mf_cluster *cluster)
{
    const mf_cluster_task *self = mf_cluster_self(cluster);
    char task[MF_STATUS_PAGE_TASK] = "worker 0";

    if (self)
        (void)snprintf(task, sizeof task, "%s %d", mf_role_name(self->role), self->index);
    return mf_status_page_open(job, task, cluster->n_tasks > 1 ? cluster->n_tasks : 1);
}

mf_status mf_job_show(const mf_strategy_options *o)
{
    mf_cluster *cluster = NULL;
    mf_status st;

    MF_TRY(mf_job_resolve(o, &cluster));
    st = strategy_check_role(cluster);
    if (st == MF_OK && o->job)
        st = strategy_show(o->job, cluster);
    mf_cluster_free(cluster);
    return st;
}

mf_status mf_strategy_open_with(const mf_strategy_settings *settings,
                                const mf_strategy_options *options, mf_strategy **out)
{
    const mf_strategy_options none = { 0 }, *o = options ? options : &none;
    mf_cluster *cluster = NULL;
    bool shown;
    mf_status st;

    *out = NULL;
    MF_TRY(mf_job_resolve(o, &cluster));
    st = strategy_check_role(cluster);
    if (st == MF_OK && o->job)
        st = strategy_show(o->job, cluster);
    shown = o->job && st == MF_OK;
    if (st == MF_OK)
        st = open_for(settings, o, cluster, out);
    if (st == MF_OK) {
        atomic_init(&(*out)->refs, 1);
        (*out)->shown = shown;
    } else if (shown)
        mf_status_page_close();
    mf_cluster_free(cluster);
    return st;
}

mf_status mf_strategy_open(const char *strategy, const mf_strategy_options *options,
                           mf_strategy **out)
{
    MF_ENTRY;
    MF_NEED(out);

    mf_arena *arena = mf_arena_new();
    mf_strategy_settings settings;
    mf_status st;

    *out = NULL;
    if (!arena)
        return MF_NOMEM("a strategy");
    st = strategy ? mf_strategy_parse(strategy, arena, &settings) : MF_OK;
    if (st == MF_OK)
        st = mf_strategy_open_with(strategy ? &settings : NULL, options, out);
    mf_arena_free(arena);
    return st;
}

void mf_strategy_close(mf_strategy *strategy)
{
    MF_ENTRY_OR();

    if (strategy)
        mf_strategy_unref(strategy);
}

int mf_strategy_rank(const mf_strategy *strategy)
{
    return strategy && strategy->dist ? strategy->dist->rank : 0;
}

int mf_strategy_size(const mf_strategy *strategy)
{
    return strategy && strategy->dist ? strategy->dist->size : 1;
}

void mf_strategy_traffic(const mf_strategy *strategy, mf_traffic *out)
{
    MF_ENTRY_OR();
    if (!out)
        return;

    mf_dist_traffic(strategy ? strategy->dist : NULL, out);
}

bool mf_strategy_serves(const mf_strategy *strategy)
{
    return strategy && mf_dist_serves(strategy->dist);
}

bool mf_strategy_is_over(const mf_strategy *strategy)
{
    return strategy && strategy->dist && strategy->dist->state == MF_DIST_OVER;
}

bool mf_strategy_is_chief(const mf_strategy *strategy)
{
    return mf_strategy_rank(strategy) == 0;
}
