/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_settings.c - parses, prints and compares the settings of all strategies. */
#include "dist/strategy_settings.h"

#include "dist/strategies.h"

#include <string.h>

/* ---- mirrored, central_storage ---- */

mf_status mf_replicas_read(const mf_options *o, mf_arena *arena, mf_strategy_settings *out)
{
    (void)arena;
    out->replicas = mf_options_int(o, "replicas");
    return MF_OK;
}

void mf_replicas_print(const mf_strategy_settings *s, const mf_setting_printer *p)
{
    mf_setting_int(p, "replicas", s->replicas);
}

/* ---- local_sgd ---- */

static const char *const SLOTS[] = {
    [MF_SLOTS_AVERAGE] = "average", [MF_SLOTS_KEEP] = "keep", [MF_SLOTS_RESET] = "reset"
};

mf_status mf_local_sgd_settings_read(const mf_options *o, mf_arena *arena,
                                     mf_strategy_settings *out)
{
    const char *name = mf_options_string(o, "slots");
    int i = 0;

    (void)arena;
    while (i < MF_COUNT(SLOTS) && strcmp(name, SLOTS[i]) != 0)
        i++;
    if (i == MF_COUNT(SLOTS))
        return MF_FAIL(MF_INVALID_ARGUMENT, "local_sgd: slots are average, keep or reset, not '%s'",
                       name);
    out->local_sgd = (mf_local_sgd_settings){ .groups = mf_options_int(o, "groups"),
                                              .period = mf_options_int(o, "period"),
                                              .slots = (mf_local_slots)i };
    return MF_OK;
}

void mf_local_sgd_settings_print(const mf_strategy_settings *s, const mf_setting_printer *p)
{
    mf_setting_int(p, "groups", s->local_sgd.groups);
    mf_setting_int(p, "period", s->local_sgd.period);
    mf_setting_string(p, "slots", SLOTS[s->local_sgd.slots]);
}

/* ---- servers ---- */

mf_status mf_remote_settings_read(const mf_options *o, mf_arena *arena, mf_strategy_settings *out)
{
    (void)arena;
    out->remote = (mf_remote_settings){ .target = mf_options_string(o, "target"),
                                        .by_bytes = mf_options_bool(o, "by_bytes") };
    return MF_OK;
}

void mf_remote_settings_print(const mf_strategy_settings *s, const mf_setting_printer *p)
{
    mf_setting_string(p, "target", s->remote.target);
    mf_setting_bool(p, "by_bytes", s->remote.by_bytes);
}

/* ---- any strategy ---- */

/* "everyone" is the old name of "exchange". */
static const char *collective_name(const char *name)
{
    return strcmp(name, "everyone") == 0 ? "exchange" : name;
}

mf_status mf_strategy_parse(const char *text, mf_arena *arena, mf_strategy_settings *out)
{
    const mf_kinds kinds = { "strategy", mf_strategies, sizeof mf_strategies[0] };
    const mf_strategy_kind *kind;
    const void *row;
    const char *rest;
    mf_options o;

    MF_TRY(mf_kinds_find(&kinds, text, arena, &row, &rest));
    kind = row;
    MF_TRY(mf_options_parse(kind->name, kind->settings, rest, arena, &o));
    *out = (mf_strategy_settings){ .kind = kind, .collective = "auto" };
    if (kind->common & MF_STRATEGY_COLLECTIVE)
        out->collective = collective_name(mf_options_string(&o, "collective"));
    if (kind->common & MF_STRATEGY_BALANCE)
        out->balance = mf_options_bool(&o, "balance");
    if (kind->common & MF_STRATEGY_AGGREGATION)
        MF_TRY(mf_aggregation_settings_read(&o, arena, &out->aggregation));
    return kind->read ? kind->read(&o, arena, out) : MF_OK;
}

static void strategy_print(const mf_strategy_settings *s, const mf_setting_printer *p)
{
    if (s->kind->print)
        s->kind->print(s, p);
    if (s->kind->common & MF_STRATEGY_COLLECTIVE)
        mf_setting_string(p, "collective", s->collective);
    if (s->kind->common & MF_STRATEGY_BALANCE)
        mf_setting_bool(p, "balance", s->balance);
    if (s->kind->common & MF_STRATEGY_AGGREGATION)
        mf_aggregation_settings_print(&s->aggregation, p);
}

void mf_strategy_text(const mf_strategy_settings *s, mf_buf *out)
{
    mf_arena *arena = mf_arena_new();
    mf_options defaults;
    const bool has_defaults =
        arena && mf_options_defaults(s->kind->name, s->kind->settings, arena, &defaults) == MF_OK;

    mf_buf_str(out, s->kind->name);
    strategy_print(s, &(mf_setting_printer){ out, has_defaults ? &defaults : NULL });
    mf_arena_free(arena);
}

static const mf_strategy_kind *strategy_kind_of(mf_status (*open)(const mf_strategy_call *call,
                                                                  mf_strategy **out))
{
    const mf_strategy_kind *kind = mf_strategies;

    while (kind->open != open)
        kind++;
    return kind;
}

void mf_strategy_of_mesh(const struct mf_mesh_settings *mesh, mf_strategy_settings *out)
{
    *out = (mf_strategy_settings){ .kind = strategy_kind_of(mf_mesh_open),
                                   .collective = "auto",
                                   .mesh = mesh };
}

void mf_strategy_of_target(const char *target, mf_strategy_settings *out)
{
    *out = (mf_strategy_settings){ .kind = strategy_kind_of(mf_servers_open),
                                   .collective = "auto",
                                   .remote = { .target = target, .by_bytes = true } };
}
