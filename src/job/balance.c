/* SPDX-License-Identifier: Apache-2.0 */
/* balance.c - see balance.h. All workers know all speeds and so come to the same decision. */
#include "job/balance.h"

#include "base/log.h"
#include "base/mem.h"
#include "parallel/dealing.h"

#include <stdio.h>
#include <string.h>

enum {
    WARM = 2, /* steps that are not looked at: the first one is compiled in */
    SHORTEST = 8, /* steps between two looks, to begin with */
    LONGEST = 256 /* and when nothing had to be changed for long */
};

/* A new deal costs a compilation and batches read ahead, so it has to be worth it. */
#define WORTH_IT 0.85

static mf_status gather(mf_team *team, int64_t step, double mine, double *all)
{
    const mf_collective c = mf_team_call(team, step, "the speeds of all workers");
    int64_t *sizes;
    mf_status st;

    if (team->size == 1) {
        all[0] = mine;
        return MF_OK;
    }
    sizes = mf_calloc(team->size, sizeof *sizes);
    if (!sizes)
        return MF_NOMEM("speeds");
    for (int r = 0; r < team->size; r++)
        sizes[r] = sizeof mine;
    st = mf_all_gather(team->group, &(mf_gather){ c, &mine, sizes, all });
    mf_free(sizes);
    return st;
}

static void take(const mf_balance *b, mf_team *team)
{
    team->first_shard = b->first[team->rank];
    team->n_shards = b->first[team->rank + 1] - team->first_shard;
}

mf_status mf_balance_init(mf_balance *b, mf_team *team, int64_t shards, int64_t grain, int threads,
                          bool moves)
{
    mf_balance_deinit(b);
    *b = (mf_balance){ .grain = grain,
                       .first = mf_calloc(team->size + 1, sizeof *b->first),
                       .speed = mf_calloc(team->size, sizeof *b->speed),
                       .moves = moves && team->size > 1,
                       .steps = -WARM,
                       .pause = SHORTEST };
    if (!b->first || !b->speed)
        return MF_NOMEM("shards");
    team->shards = shards;
    MF_TRY(gather(team, 0, threads, b->speed));
    mf_deal(shards, grain, team->size, b->speed, b->first);
    take(b, team);
    return MF_OK;
}

void mf_balance_deinit(mf_balance *b)
{
    mf_free(b->first);
    mf_free(b->speed);
    *b = (mf_balance){ 0 };
}

static void say(const mf_balance *b, const mf_team *team, int64_t step)
{
    char text[400];
    size_t at = 0;

    for (int r = 0; r < team->size && at < sizeof text - 48; r++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld at %.3g/s", r > 0 ? ", " : "",
                               (long long)(b->first[r + 1] - b->first[r]), b->speed[r]);
    MF_INFO("after step %lld shards are dealt out anew, by speed: workers take %s", (long long)step,
            text);
}

/* The speeds are known: is there a better deal? */
static mf_status deal_again(mf_balance *b, mf_team *team, int64_t step, bool *changed)
{
    int64_t *first = mf_calloc(team->size + 1, sizeof *first);

    if (!first)
        return MF_NOMEM("shards");
    mf_deal(team->shards, b->grain, team->size, b->speed, first);
    *changed = mf_deal_time(team->size, b->speed, first) <
               WORTH_IT * mf_deal_time(team->size, b->speed, b->first);
    if (*changed) {
        memcpy(b->first, first, (size_t)(team->size + 1) * sizeof *first);
        take(b, team);
        if (team->rank == 0)
            say(b, team, step);
    }
    mf_free(first);
    return MF_OK;
}

mf_status mf_balance_step(mf_balance *b, mf_team *team, int64_t step, int64_t ns, bool *changed)
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
    mine = (double)(team->n_shards * b->steps) * 1e9 / (double)(b->ns > 0 ? b->ns : 1);
    b->steps = b->ns = 0;
    if (team->n_shards == 0) /* nothing is known: as before */
        mine = b->speed[team->rank];
    MF_TRY(gather(team, step, mine, b->speed));
    MF_TRY(deal_again(b, team, step, changed));
    b->pause = *changed ? SHORTEST : b->pause < LONGEST ? 2 * b->pause : LONGEST;
    if (*changed)
        b->steps = -WARM;
    return MF_OK;
}
