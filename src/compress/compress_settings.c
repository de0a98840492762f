/* SPDX-License-Identifier: Apache-2.0 */
/* compress_settings.c - parses and prints the settings of the compression methods. */
#include "compress/compress_settings.h"

#include <string.h>

enum { MOST_BITS = 12 };

/* ---- units ---- */

mf_status mf_units_settings_parse(const char *text, mf_arena *arena, mf_units_settings *out)
{
    mf_options o;

    MF_TRY(mf_options_parse("units", "{share: float, layers: string = '*'}", text, arena, &o));
    *out = (mf_units_settings){ .share = mf_options_float(&o, "share"),
                                .layers = mf_options_string(&o, "layers") };
    if (!(out->share >= 0 && out->share < 1))
        return MF_FAIL(MF_INVALID_ARGUMENT, "units: share=%g: it is from 0 to below 1", out->share);
    return MF_OK;
}

void mf_units_settings_text(const mf_units_settings *s, mf_buf *out)
{
    const mf_setting_printer p = { out, NULL };

    mf_setting_float(&p, "share", s->share);
    mf_setting_string(&p, "layers", s->layers);
}

/* ---- low rank ---- */

mf_status mf_rank_settings_parse(const char *text, mf_arena *arena, mf_rank_settings *out)
{
    const char *settings =
        text[0] >= '0' && text[0] <= '9' ? mf_arena_printf(arena, "rank=%s", text) : text;
    mf_options o;

    if (!settings)
        return MF_NOMEM("factors");
    MF_TRY(mf_options_parse("rank",
                            "{rank: int >= 0 = 0, energy: float = 0.0, layers: string = '*'}",
                            settings, arena, &o));
    *out = (mf_rank_settings){ .rank = mf_options_int(&o, "rank"),
                               .energy = mf_options_float(&o, "energy"),
                               .layers = mf_options_string(&o, "layers") };
    if ((out->rank > 0) == (out->energy > 0) || out->energy < 0 || out->energy > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "rank: one of rank=16 and energy=0.95 (a share, up to 1) is needed");
    return MF_OK;
}

void mf_rank_settings_text(const mf_rank_settings *s, mf_buf *out)
{
    const mf_setting_printer p = { out, NULL };

    if (s->rank > 0)
        mf_setting_int(&p, "rank", s->rank);
    else
        mf_setting_float(&p, "energy", s->energy);
    mf_setting_string(&p, "layers", s->layers);
}

/* ---- shared values ---- */

mf_status mf_share_settings_parse(const char *text, mf_arena *arena, mf_share_settings *out)
{
    mf_options o;

    MF_TRY(
        mf_options_parse("share", "{bits: int >= 1 = 5, layers: string = '*'}", text, arena, &o));
    *out = (mf_share_settings){ .bits = mf_options_int(&o, "bits"),
                                .layers = mf_options_string(&o, "layers") };
    if (out->bits > MOST_BITS)
        return MF_FAIL(MF_INVALID_ARGUMENT, "share: bits=%lld: at most %d", (long long)out->bits,
                       MOST_BITS);
    return MF_OK;
}

void mf_share_settings_text(const mf_share_settings *s, mf_buf *out)
{
    const mf_setting_printer p = { out, NULL };

    mf_setting_int(&p, "bits", s->bits);
    mf_setting_string(&p, "layers", s->layers);
}

/* ---- 8-bit integers ---- */

mf_status mf_quantize_settings_parse(const char *text, mf_arena *arena, mf_quantize_settings *out)
{
    const char *head, *rest;
    mf_options o;

    MF_TRY(mf_options_head(text, arena, &head, &rest));
    if (strcmp(head, "int8") != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "quantize: 'int8', with settings, not '%.60s'", head);
    MF_TRY(mf_options_parse("int8",
                            "{per: string in ['channel','tensor'] = 'channel', aware: bool = "
                            "false, samples: int >= 1 = 1024, range: string in ['max','mean'] = "
                            "'max', layers: string = '*'}",
                            rest, arena, &o));
    *out =
        (mf_quantize_settings){ .per_channel = strcmp(mf_options_string(&o, "per"), "channel") == 0,
                                .mean = strcmp(mf_options_string(&o, "range"), "mean") == 0,
                                .aware = mf_options_bool(&o, "aware"),
                                .samples = mf_options_int(&o, "samples"),
                                .layers = mf_options_string(&o, "layers") };
    if (strchr(out->layers, '\'') || strchr(out->layers, ';'))
        return MF_FAIL(MF_INVALID_ARGUMENT, "int8: '%.60s' is no pattern of layers", out->layers);
    return MF_OK;
}

void mf_quantize_settings_text(const mf_quantize_settings *s, mf_buf *out)
{
    const mf_setting_printer p = { out, NULL };

    mf_buf_str(out, "int8");
    mf_setting_string(&p, "per", s->per_channel ? "channel" : "tensor");
    mf_setting_bool(&p, "aware", s->aware);
    mf_setting_int(&p, "samples", s->samples);
    mf_setting_string(&p, "range", s->mean ? "mean" : "max");
    mf_setting_string(&p, "layers", s->layers);
}
