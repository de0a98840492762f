/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_settings.c - parses, checks and prints the settings of the strategy mesh. */
#include "dist/mesh/mesh_settings.h"

#include <stdlib.h>
#include <string.h>

static const char *const PIPELINES[] = { [MF_PIPELINE_1F1B] = "1f1b",
                                         [MF_PIPELINE_GPIPE] = "gpipe",
                                         [MF_PIPELINE_INTERLEAVED] = "interleaved",
                                         [MF_PIPELINE_ZERO_BUBBLE] = "zero-bubble" };

static int mesh_settings_count_stages(const mf_mesh_spec *s)
{
    int n = 0;

    for (int i = 0; i < s->n; i++)
        n += mf_mesh_count(&s->at[i], mf_layout_rules_find(&s->rules, &s->at[i], "layers"));
    return n;
}

/* ---- parsing ---- */

static mf_status mesh_settings_check(mf_mesh_settings *s)
{
    mf_meshes meshes;

    s->exact = false;
    s->pipeline = MF_PIPELINE_1F1B;
    s->chunks = 1;
    s->n_layers = 0;
    return mf_mesh_spec_expand(&s->mesh, &meshes);
}

mf_status mf_mesh_settings_parse_mesh(const char *mesh, const char *layout, mf_mesh_settings *out)
{
    MF_TRY(mf_mesh_spec_parse(mesh, layout, &out->mesh));
    return mesh_settings_check(out);
}

mf_status mf_mesh_settings_take_mesh(const mf_mesh_spec *mesh, mf_mesh_settings *out)
{
    out->mesh = *mesh;
    return mesh_settings_check(out);
}

mf_status mf_mesh_settings_parse_pipeline(const char *name, int64_t chunks, mf_mesh_settings *out)
{
    const int stages = mesh_settings_count_stages(&out->mesh);
    int how = 0;

    while (how < MF_COUNT(PIPELINES) && strcmp(name, PIPELINES[how]) != 0)
        how++;
    if (how == MF_COUNT(PIPELINES))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "there is no pipeline '%s', only 1f1b, gpipe, interleaved and zero-bubble",
                       name);
    out->pipeline = (mf_pipeline)how;
    if (out->pipeline == MF_PIPELINE_INTERLEAVED && chunks > MF_MESH_CHUNKS / stages)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%d stages of %lld chunks are more than %d: use fewer",
                       stages, (long long)chunks, MF_MESH_CHUNKS);
    out->chunks = out->pipeline == MF_PIPELINE_INTERLEAVED ? (int)chunks : 1;
    return MF_OK;
}

mf_status mf_mesh_settings_parse_stages(const char *text, mf_mesh_settings *out)
{
    const int wanted = mesh_settings_count_stages(&out->mesh) * out->chunks;
    const char *at = text;
    int n = 0;

    while (*at) {
        char *end;
        const long layers = strtol(at, &end, 10);

        if (end == at || (*end && *end != ',') || layers < (n == 0) || layers > INT16_MAX ||
            n == wanted)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "stages '%s': write how many layers each of the %d %s has: \"2,2\"",
                           text, wanted, out->chunks > 1 ? "chunks" : "stages");
        out->layers[n++] = (int)layers;
        at = end + (*end == ',');
    }
    if (n > 0 && n < wanted)
        return MF_FAIL(MF_INVALID_ARGUMENT, "stages '%s' are %d, but the mesh has %d of them", text,
                       n, wanted);
    out->n_layers = n;
    return MF_OK;
}

mf_status mf_mesh_settings_read(const mf_options *o, mf_arena *arena, mf_strategy_settings *out)
{
    mf_mesh_settings *s = MF_ARENA_NEW(arena, mf_mesh_settings);

    if (!s)
        return MF_NOMEM("a mesh");
    out->mesh = s;
    MF_TRY(mf_mesh_settings_parse_mesh(mf_options_string(o, "axes"), mf_options_string(o, "layout"),
                                       s));
    MF_TRY(mf_mesh_settings_parse_pipeline(mf_options_string(o, "pipeline"),
                                           mf_options_int(o, "chunks"), s));
    MF_TRY(mf_mesh_settings_parse_stages(mf_options_string(o, "stages"), s));
    s->exact = mf_options_bool(o, "exact");
    return MF_OK;
}

/* ---- printing ---- */

void mf_mesh_settings_print(const mf_strategy_settings *settings, const mf_setting_printer *p)
{
    const mf_mesh_settings *s = settings->mesh;
    mf_buf mesh = { 0 }, layout = { 0 }, stages = { 0 };

    mf_mesh_spec_text(&s->mesh, &mesh, &layout);
    mf_buf_str(&stages, "");
    for (int i = 0; i < s->n_layers; i++)
        mf_buf_printf(&stages, "%s%d", i > 0 ? "," : "", s->layers[i]);
    mf_setting_string(p, "axes", mesh.data ? mesh.data : "");
    mf_setting_string(p, "layout", layout.data ? layout.data : "");
    mf_setting_bool(p, "exact", s->exact);
    mf_setting_string(p, "stages", stages.data ? stages.data : "");
    mf_setting_string(p, "pipeline", PIPELINES[s->pipeline]);
    if (s->pipeline == MF_PIPELINE_INTERLEAVED)
        mf_setting_int(p, "chunks", s->chunks);
    mf_buf_deinit(&mesh);
    mf_buf_deinit(&layout);
    mf_buf_deinit(&stages);
}

/* ---- using ---- */

mf_status mf_mesh_settings_setup(const mf_mesh_settings *s, mf_mesh_setup *out)
{
    MF_TRY(mf_mesh_spec_expand(&s->mesh, &out->meshes));
    out->rules = s->mesh.rules;
    memset(out->layers, 0, sizeof out->layers);
    memcpy(out->layers, s->layers, (size_t)s->n_layers * sizeof *s->layers);
    out->pipeline = s->pipeline;
    out->chunks = s->chunks;
    out->exact = s->exact;
    out->n = out->meshes.devices;
    return MF_OK;
}
