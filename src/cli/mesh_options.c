/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_options.c - reads --mesh, --layout and the other options of a mesh. */
#include "cli/mesh_options.h"

#include "dist/mesh/mesh_settings.h"

#include <string.h>

static mf_status mesh_options_read_pipeline(mf_args *args, mf_mesh_settings *mesh)
{
    const char *pipeline = mf_args_value(args, "pipeline"), *stages = mf_args_value(args, "stages");
    int64_t chunks = 2;

    if (mf_args_has(args, "chunks") && (!pipeline || strcmp(pipeline, "interleaved") != 0))
        return mf_args_wrong(args, "--chunks needs --pipeline interleaved");
    MF_TRY(mf_args_int(args, "chunks", 1, MF_MESH_CHUNKS, &chunks));
    if (pipeline)
        MF_TRY(mf_mesh_settings_parse_pipeline(pipeline, chunks, mesh));
    return stages ? mf_mesh_settings_parse_stages(stages, mesh) : MF_OK;
}

mf_status mf_mesh_options_read(mf_args *args, const mf_mesh_spec *chosen, mf_arena *arena,
                               mf_strategy_settings *out)
{
    const char *axes = mf_args_value(args, "mesh"), *layout = mf_args_value(args, "layout");
    mf_mesh_settings *mesh;

    *out = (mf_strategy_settings){ 0 };
    if (!axes && !chosen) {
        if (layout || mf_args_has(args, "stages") || mf_args_has(args, "exact") ||
            mf_args_has(args, "balance"))
            return mf_args_wrong(
                args, "--layout, --stages, --exact and --balance need --mesh: \"rows:2;cols:2\"");
        return MF_OK;
    }
    mesh = MF_ARENA_NEW(arena, mf_mesh_settings);
    if (!mesh)
        return MF_NOMEM("a mesh");
    MF_TRY(chosen ? mf_mesh_settings_take_mesh(chosen, mesh)
                  : mf_mesh_settings_parse_mesh(axes, layout, mesh));
    MF_TRY(mesh_options_read_pipeline(args, mesh));
    mesh->exact = mf_args_has(args, "exact");
    mf_strategy_of_mesh(mesh, out);
    out->balance = mf_args_has(args, "balance");
    return MF_OK;
}
