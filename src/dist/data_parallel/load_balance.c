/* SPDX-License-Identifier: Apache-2.0 */
/* load_balance.c - assigns shards to the workers of a synchronous job by their measured speeds. All
 * workers know all speeds and so make the same decision. */
#include "dist/data_parallel/load_balance.h"

#include "base/log.h"
#include "base/mem.h"
#include "dist/data_parallel/shard_assignment.h"

#include <stdio.h>
#include <string.h>

enum {
    WARM = 2, /* steps that are not measured: compilation is part of the first */
    SHORTEST = 8, /* steps between two checks, initially */
    LONGEST = 256 /* and after a long time without a change */
};

/* A new assignment costs a compilation and the batches that were read ahead: it must save this
 * much. */
#define WORTH_IT 0.85

/* n numbers of each worker, rank by rank. */
static mf_status load_balance_gather(mf_dist *dist, const mf_collective *c, const double *mine,
                                     int64_t n, double *all)
{
    int64_t *sizes;
    mf_status st;

    if (dist->size == 1) {
        memcpy(all, mine, (size_t)n * sizeof *all);
        return MF_OK;
    }
    sizes = mf_calloc(dist->size, sizeof *sizes);
    if (!sizes)
        return MF_NOMEM("shards");
    for (int r = 0; r < dist->size; r++)
        sizes[r] = n * (int64_t)sizeof *mine;
    st = mf_all_gather(dist->group, &(mf_gather){ *c, mine, sizes, all });
    mf_free(sizes);
    return st;
}

static mf_status gather_speeds(mf_dist *dist, int64_t step, double mine, double *all)
{
    const mf_collective c = mf_dist_collective(dist, step, "the speeds of all workers");

    return load_balance_gather(dist, &c, &mine, 1, all);
}

static void load_balance_take(const mf_balance *b, mf_dist *dist)
{
    dist->shards.first = b->shares[dist->rank].first;
    dist->shards.n = b->shares[dist->rank].n;
}

/* Unless all workers are equal. */
static void log_first_assignment(const mf_balance *b, const mf_dist *dist)
{
    char text[400];
    size_t at = 0;
    bool equal = true;

    for (int r = 0; r < dist->size && at < sizeof text - 24; r++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", r > 0 ? ", " : "",
                               (long long)b->shares[r].n);
        equal &= b->speed[r] == b->speed[0];
    }
    if (!equal && dist->rank == 0)
        MF_INFO("shards are assigned by the number of threads: workers have %s", text);
}

mf_status mf_balance_init(mf_balance *b, mf_dist *dist, int64_t shards, int64_t grain, int threads,
                          bool moves)
{
    mf_balance_deinit(b);
    *b = (mf_balance){ .grain = grain,
                       .shares = mf_calloc(dist->size, sizeof *b->shares),
                       .order = mf_calloc(dist->size, sizeof *b->order),
                       .speed = mf_calloc(dist->size, sizeof *b->speed),
                       .moves = moves && dist->size > 1,
                       .steps = -WARM,
                       .pause = SHORTEST };
    if (!b->shares || !b->order || !b->speed)
        return MF_NOMEM("shards");
    for (int r = 0; r < dist->size; r++)
        b->order[r] = r;
    dist->shards.total = shards;
    MF_TRY(gather_speeds(dist, 0, threads, b->speed));
    mf_shard_assign(shards, grain, dist->size, b->speed, b->order, b->shares);
    load_balance_take(b, dist);
    log_first_assignment(b, dist);
    return MF_OK;
}

void mf_balance_deinit(mf_balance *b)
{
    mf_free(b->shares);
    mf_free(b->order);
    mf_free(b->speed);
    *b = (mf_balance){ 0 };
}

static void log_reassignment(const mf_balance *b, const mf_dist *dist, int64_t step)
{
    char text[400];
    size_t at = 0;

    for (int r = 0; r < dist->size && at < sizeof text - 48; r++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld at %.3g/s", r > 0 ? ", " : "",
                               (long long)b->shares[r].n, b->speed[r]);
    MF_INFO("after step %lld shards are assigned again, by speed: workers have %s", (long long)step,
            text);
}

/* The speeds are known: is there a better assignment? */
static mf_status reassign_shards(mf_balance *b, mf_dist *dist, int64_t step, bool *changed)
{
    mf_share *shares = mf_calloc(dist->size, sizeof *shares);

    if (!shares)
        return MF_NOMEM("shards");
    mf_shard_assign(dist->shards.total, b->grain, dist->size, b->speed, b->order, shares);
    *changed = mf_shard_assign_time(dist->size, b->speed, shares) <
               WORTH_IT * mf_shard_assign_time(dist->size, b->speed, b->shares);
    if (*changed) {
        memcpy(b->shares, shares, (size_t)dist->size * sizeof *shares);
        load_balance_take(b, dist);
        if (dist->rank == 0)
            log_reassignment(b, dist, step);
    }
    mf_free(shares);
    return MF_OK;
}

mf_status mf_balance_step(mf_balance *b, mf_dist *dist, int64_t step, int64_t ns, bool *changed)
{
    double mine;

    *changed = false;
    if (!b->moves)
        return MF_OK;
    if (++b->steps <= 0)
        return MF_OK;
    b->ns += ns;
    if (b->steps < b->pause)
        return MF_OK;
    mine = (double)(dist->shards.n * b->steps) * 1e9 / (double)(b->ns > 0 ? b->ns : 1);
    b->steps = b->ns = 0;
    if (dist->shards.n == 0) /* no measurement: as before */
        mine = b->speed[dist->rank];
    MF_TRY(gather_speeds(dist, step, mine, b->speed));
    MF_TRY(reassign_shards(b, dist, step, changed));
    b->pause = *changed ? SHORTEST : b->pause < LONGEST ? 2 * b->pause : LONGEST;
    if (*changed)
        b->steps = -WARM;
    return MF_OK;
}

/* ---- data locality ---- */

/* The upper bound: every shard at the worker that has most of its data. */
static double load_balance_at_most(const mf_dist *dist, const double *all)
{
    double sum = 0.0;

    for (int64_t k = 0; k < dist->shards.total; k++) {
        double most = 0.0;

        for (int r = 0; r < dist->size; r++)
            most = all[r * dist->shards.total + k] > most ? all[r * dist->shards.total + k] : most;
        sum += most;
    }
    return sum;
}

static void log_locality(const mf_balance *b, const mf_dist *dist, double near, double most)
{
    char text[400];
    size_t at = 0;

    for (int r = 0; r < dist->size && at < sizeof text - 48; r++)
        at +=
            (size_t)snprintf(text + at, sizeof text - at, "%s%lld from %lld on", r > 0 ? ", " : "",
                             (long long)b->shares[r].n, (long long)b->shares[r].first);
    MF_INFO("shards are assigned by data locality: workers have %s; %.0f %% of the data that "
            "some worker has is at the worker that reads it",
            text, most > 0.0 ? 100.0 * near / most : 100.0);
}

mf_status mf_balance_near(mf_balance *b, mf_dist *dist, const double *near)
{
    const mf_collective c = mf_dist_collective(dist, 0, "the data locality of all workers");
    double *all = mf_calloc(dist->size * dist->shards.total, sizeof *all), sum;
    mf_status st =
        all ? load_balance_gather(dist, &c, near, dist->shards.total, all) : MF_NOMEM("shards");

    if (st == MF_OK) {
        sum = mf_shard_assign_near(dist->shards.total, dist->size, all, b->shares, b->order);
        mf_shard_assign(dist->shards.total, b->grain, dist->size, b->speed, b->order, b->shares);
        load_balance_take(b, dist);
        if (dist->rank == 0)
            log_locality(b, dist, sum, load_balance_at_most(dist, all));
    }
    mf_free(all);
    return st;
}
