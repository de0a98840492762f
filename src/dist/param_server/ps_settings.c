/* SPDX-License-Identifier: Apache-2.0 */
/* ps_settings.c - parses, checks and prints the settings of the strategy parameter_server. */
#include "dist/param_server/ps_settings.h"

#include "dist/strategy_settings.h"

#include <string.h>

/* ---- partition of weights ---- */

/* The settings that each rule needs. */
static const struct {
    const char *name;
    mf_weight_partition_kind kind;
    bool shards, bytes; /* true: the rule has them */
} RULES[] = {
    { "even", MF_WEIGHT_PARTITION_EVEN, false, false },
    { "whole", MF_WEIGHT_PARTITION_WHOLE, false, false },
    { "fixed", MF_WEIGHT_PARTITION_FIXED, true, false },
    { "min_size", MF_WEIGHT_PARTITION_MIN_SIZE, false, true },
    { "max_size", MF_WEIGHT_PARTITION_MAX_SIZE, false, true },
};

static mf_status read_partition(const mf_options *o, mf_weight_partition *out)
{
    const char *name = mf_options_string(o, "partition"), *place = mf_options_string(o, "place");
    int i = 0;

    while (i < MF_COUNT(RULES) && strcmp(RULES[i].name, name) != 0)
        i++;
    if (i == MF_COUNT(RULES))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "parameter_server: partition is even, whole, fixed, min_size or max_size, "
                       "not '%s'",
                       name);
    *out = (mf_weight_partition){ .kind = RULES[i].kind,
                                  .shards = mf_options_int(o, "shards"),
                                  .bytes = mf_options_int(o, "shard_bytes"),
                                  .max_shards = mf_options_int(o, "max_shards"),
                                  .by_size = strcmp(place, "by_size") == 0 };
    if (!out->by_size && strcmp(place, "round_robin") != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "parameter_server: place is round_robin or by_size, not '%s'", place);
    if ((out->shards > 0) != RULES[i].shards)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "parameter_server: shards=N and partition=fixed belong together: give both or "
            "neither");
    if (!RULES[i].bytes &&
        (mf_options_given(o, "shard_bytes") || mf_options_given(o, "max_shards")))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "parameter_server: shard_bytes and max_shards need partition=min_size or "
                       "partition=max_size");
    if (RULES[i].kind == MF_WEIGHT_PARTITION_EVEN && mf_options_given(o, "place"))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "parameter_server: place=%s needs partition=whole, fixed, min_size or "
                       "max_size",
                       place);
    return MF_OK;
}

static void print_partition(const mf_weight_partition *w, const mf_setting_printer *p)
{
    int i = 0;

    while (RULES[i].kind != w->kind)
        i++;
    mf_setting_string(p, "partition", RULES[i].name);
    if (RULES[i].shards)
        mf_setting_int(p, "shards", w->shards);
    if (RULES[i].bytes) {
        mf_setting_int(p, "shard_bytes", w->bytes);
        mf_setting_int(p, "max_shards", w->max_shards);
    }
    if (w->kind != MF_WEIGHT_PARTITION_EVEN)
        mf_setting_string(p, "place", w->by_size ? "by_size" : "round_robin");
}

/* ---- synchronization ---- */

static mf_status ps_settings_check_aggregation(const mf_options *o, mf_aggregate how, bool sync)
{
    if (sync || how == MF_AGGREGATE_MEAN)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "parameter_server: aggregation=%s needs mode=sync: with mode=%s servers "
                   "update without waiting for all workers, so they never have the gradients of "
                   "a whole batch; use mode=sync, or omit aggregation",
                   mf_options_string(o, "aggregation"), mf_options_string(o, "mode"));
}

static mf_status ps_settings_read_mode(const mf_options *o, mf_ps_mode *mode)
{
    const char *name = mf_options_string(o, "mode");
    const bool semi = strcmp(name, "semi") == 0;

    if (!semi && strcmp(name, "sync") != 0 && strcmp(name, "async") != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "parameter_server: mode is sync, async or semi, not '%s'", name);
    *mode = (mf_ps_mode){ .sync = strcmp(name, "sync") == 0,
                          .staleness = semi ? mf_options_int(o, "staleness") : -1,
                          .quorum = semi ? mf_options_int(o, "quorum") : 0,
                          .period = mf_options_int(o, "period"),
                          .blocks = mf_options_int(o, "blocks") };
    if (mode->sync && mode->blocks > 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "parameter_server: blocks=%lld is for mode=async and mode=semi; in sync "
                       "all workers share every batch",
                       (long long)mode->blocks);
    if (mode->sync && mode->period > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "parameter_server: period=%lld is for mode=async and mode=semi; in sync "
                       "all workers push every step",
                       (long long)mode->period);
    if (mode->quorum > 0 && !mf_options_given(o, "staleness"))
        mode->staleness = -1; /* late pushes are discarded, so no worker waits for them */
    return MF_OK;
}

mf_status mf_ps_settings_read(const mf_options *o, mf_arena *arena, mf_strategy_settings *out)
{
    mf_ps_settings *s = &out->ps;

    (void)arena;
    *s = (mf_ps_settings){ .copies = mf_options_int(o, "copies"),
                           .by_host = mf_options_bool(o, "by_host") };
    MF_TRY(ps_settings_read_mode(o, &s->mode));
    MF_TRY(ps_settings_check_aggregation(o, out->aggregation.how, s->mode.sync));
    return read_partition(o, &s->mode.partition);
}

void mf_ps_settings_print(const mf_strategy_settings *s, const mf_setting_printer *p)
{
    const mf_ps_mode *m = &s->ps.mode;
    const bool semi = m->staleness >= 0 || m->quorum > 0;

    mf_setting_string(p, "mode", m->sync ? "sync" : semi ? "semi" : "async");
    if (m->staleness >= 0) /* printed even if it is the default, which quorum changes */
        mf_setting_int(&(mf_setting_printer){ p->out, NULL }, "staleness", m->staleness);
    if (semi)
        mf_setting_int(p, "quorum", m->quorum);
    mf_setting_int(p, "period", m->period);
    mf_setting_int(p, "blocks", m->blocks);
    mf_setting_int(p, "copies", s->ps.copies);
    mf_setting_bool(p, "by_host", s->ps.by_host);
    print_partition(&m->partition, p);
}
