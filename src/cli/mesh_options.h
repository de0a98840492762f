/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_options.h - the options of a mesh. */
#ifndef MF_CLI_MESH_OPTIONS_H
#define MF_CLI_MESH_OPTIONS_H

#include "cli/command.h"
#include "dist/strategy_settings.h"
#include "spmd/layout/mesh_layout.h"

#define MF_MESH_OPTIONS                                                                            \
    { "mesh", "AXES",                                                                              \
      "shard weights and computation over the devices of a mesh: 'rows:2;cols:2'; "                \
      "docs/guides/mesh.md",                                                                       \
      0, false },                                                                                  \
        { "layout", "RULES",                                                                       \
          "which dimensions are sharded along which axes: 'batch:rows;hidden:cols'", 0, false },   \
        { "stages", "LAYERS",                                                                      \
          "layers of each pipeline stage (layout 'layers:AXIS'): '2,2'; default: balanced by "     \
          "their work",                                                                            \
          0, false },                                                                              \
    {                                                                                              \
        "exact", NULL,                                                                             \
            "on a mesh: shard no dimension that is summed over, which gives the bits of one "      \
            "device",                                                                              \
            0, false                                                                               \
    }

/* The strategy that --mesh, --layout, --stages, --exact, --balance, --pipeline and --chunks stand
 * for; out->kind is NULL without a mesh. chosen: instead of --mesh and --layout; NULL: none. Fails
 * as a wrong call, or with INVALID_ARGUMENT (a value). Owns: what *out points to is in the arena.
 */
MF_MUST mf_status mf_mesh_options_read(mf_args *args, const mf_mesh_spec *chosen, mf_arena *arena,
                                       mf_strategy_settings *out);

#endif
