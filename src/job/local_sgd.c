/* SPDX-License-Identifier: Apache-2.0 */
/* local_sgd.c - every worker trains by itself on its part of each batch, and from time to time the
 * variables of all are averaged (strategy local_sgd). */
#include "graph/shard.h"
#include "job/strategies.h"
#include "parallel/average.h"

#include <stddef.h>
#include <string.h>

typedef enum slots { AVERAGE, KEEP, RESET } slots;

typedef struct local_sgd {
    mf_strategy strategy; /* first */
    mf_team team;
    mf_net *net;
    int64_t period; /* steps */
    slots slots;
    /* of the trainer */
    mf_trainer *trainer;
    mf_variable **averaged; /* borrowed */
    int64_t n_averaged;
    mf_tensor *initial; /* by variable; empty: it is not reset */
    int64_t *samples; /* by rank, of the steps since the last meeting */
    /* of the steps since the last meeting */
    int64_t own_samples;
    bool wants_stop;
} local_sgd;

static local_sgd *of_team(mf_team *team)
{
    return (local_sgd *)(void *)((char *)team - offsetof(local_sgd, team));
}

/* ---- what is averaged ---- */

static mf_status sort_variables(local_sgd *l, const mf_trainer *t)
{
    l->averaged = mf_calloc(t->n_trained, sizeof *l->averaged);
    l->initial = mf_calloc(t->n_trained, sizeof *l->initial);
    l->samples = mf_calloc(2 * l->team.size, sizeof *l->samples);
    if (!l->averaged || !l->initial || !l->samples)
        return MF_NOMEM("averages");
    for (int64_t i = 0; i < t->n_trained; i++) {
        const mf_trained *v = &t->trained[i];

        if (!mf_trained_is_slot(v) || l->slots == AVERAGE)
            l->averaged[l->n_averaged++] = v->variable;
        else if (l->slots == RESET)
            MF_TRY(mf_variable_read(v->variable, &l->initial[i]));
    }
    return MF_OK;
}

static mf_status reset_slots(const local_sgd *l)
{
    for (int64_t i = 0; i < l->trainer->n_trained; i++) {
        if (l->initial[i].data)
            MF_TRY(mf_variable_assign(l->trainer->trained[i].variable, &l->initial[i], true));
    }
    return MF_OK;
}

/* ---- the team ---- */

static mf_status local_join(mf_team *team, mf_trainer *t)
{
    local_sgd *l = of_team(team);

    if (l->trainer)
        return MF_FAIL(MF_FAILED_PRECONDITION, "a strategy serves one trainer at a time");
    l->trainer = t;
    mf_team_deal_shards(team, t->options.shards);
    if (team->shards < team->size)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%d workers cannot share %lld shards; give --shards %d or more", team->size,
                       (long long)team->shards, team->size);
    return sort_variables(l, t);
}

static void local_leave(mf_team *team, mf_trainer *t)
{
    local_sgd *l = of_team(team);

    if (l->trainer != t)
        return;
    for (int64_t i = 0; l->initial && i < t->n_trained; i++)
        mf_tensor_clear(&l->initial[i]);
    mf_free(l->averaged);
    mf_free(l->initial);
    mf_free(l->samples);
    l->averaged = NULL;
    l->initial = NULL;
    l->samples = NULL;
    l->n_averaged = l->own_samples = 0;
    l->trainer = NULL;
}

static mf_status local_begin_step(mf_team *team, int64_t step, int64_t samples, bool wants_stop)
{
    local_sgd *l = of_team(team);
    const int64_t lo = team->first_shard, hi = lo + team->n_shards;

    (void)step;
    l->wants_stop |= wants_stop;
    l->own_samples +=
        mf_shard_begin(samples, team->shards, hi) - mf_shard_begin(samples, team->shards, lo);
    return MF_OK;
}

/* How many samples everybody has used, and whether somebody wants to stop. */
static mf_status compare_notes(local_sgd *l, const mf_collective *c, bool *stop)
{
    const int n = l->team.size;
    const int64_t mine[] = { l->own_samples, l->wants_stop };
    int64_t *notes = mf_calloc(2 * n, sizeof *notes);
    int64_t *sizes = mf_calloc(n, sizeof *sizes);
    mf_status st = notes && sizes ? MF_OK : MF_NOMEM("averages");

    for (int r = 0; st == MF_OK && r < n; r++)
        sizes[r] = sizeof mine;
    if (st == MF_OK)
        st = mf_all_gather(l->team.group, &(mf_gather){ *c, mine, sizes, notes });
    for (int r = 0; st == MF_OK && r < n; r++) {
        l->samples[r] = notes[2 * r];
        *stop |= notes[2 * r + 1] != 0;
    }
    mf_free(notes);
    mf_free(sizes);
    return st;
}

static mf_status local_settle(mf_team *team, bool *stop)
{
    local_sgd *l = of_team(team);
    const mf_collective c = mf_team_call(team, l->trainer->step, "the averages");

    MF_TRY(compare_notes(l, &c, stop));
    MF_TRY(mf_average(team->group, &c, l->samples, l->averaged, l->n_averaged));
    MF_TRY(reset_slots(l));
    l->own_samples = 0;
    l->wants_stop = false;
    return MF_OK;
}

static mf_status local_end_step(mf_team *team, int64_t step, bool *stop)
{
    const local_sgd *l = of_team(team);

    return step % l->period == 0 ? local_settle(team, stop) : MF_OK;
}

static void local_failed(mf_team *team, mf_status why)
{
    mf_net_abort(of_team(team)->net, why);
}

static const mf_team_kind TEAM = { .join = local_join,
                                   .leave = local_leave,
                                   .begin_step = local_begin_step,
                                   .end_step = local_end_step,
                                   .settle = local_settle,
                                   .failed = local_failed };

/* ---- opening and closing ---- */

static void local_close(mf_strategy *s)
{
    local_sgd *l = (local_sgd *)s;

    mf_group_free(l->team.group);
    mf_net_close(l->net);
    mf_free(l);
}

static mf_status read_slots(const mf_options *o, slots *out)
{
    static const char *const names[] = { "average", "keep", "reset" };
    const char *name = mf_options_string(o, "slots");

    for (int i = 0; i < MF_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (slots)i;
            return MF_OK;
        }
    }
    return MF_FAIL(MF_INVALID_ARGUMENT, "local_sgd: slots are average, keep or reset, not '%s'",
                   name);
}

static mf_status open_all(local_sgd *l, const mf_strategy_call *call)
{
    MF_TRY(read_slots(call->settings, &l->slots));
    MF_TRY(mf_job_connect(call, &l->net));
    return mf_job_group(call, l->net, 1, &l->team.group);
}

mf_status mf_local_sgd_open(const mf_strategy_call *call, mf_strategy **out)
{
    local_sgd *l = mf_calloc(1, sizeof *l);
    mf_status st;

    if (!l)
        return MF_NOMEM("workers");
    l->strategy = (mf_strategy){ .team = &l->team, .close = local_close };
    l->period = mf_options_int(call->settings, "period");
    l->team = (mf_team){ .kind = &TEAM,
                         .rank = call->cluster->rank,
                         .size = call->cluster->size,
                         .timeout_ns = call->timeout_ns,
                         .lockstep = true,
                         .apart = true };
    st = open_all(l, call);
    if (st == MF_OK) {
        *out = &l->strategy;
        return MF_OK;
    }
    mf_error why;

    mf_error_save(st, &why);
    local_close(&l->strategy);
    return mf_error_restore(&why);
}
