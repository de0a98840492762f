/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_options.h - the options of a mesh. */
#ifndef MF_CLI_MESH_OPTIONS_H
#define MF_CLI_MESH_OPTIONS_H

#include "cli/command.h"
#include "dist/strategy_settings.h"
#include "spmd/layout/mesh_layout.h"

#define MF_MESH_OPTIONS                                                                            \
    { .name = "mesh",                                                                              \
      .value = "AXES",                                                                             \
      .group = MF_GROUP_DISTRIBUTION,                                                              \
      .scope = MF_OPTION_JOB,                                                                      \
      .help = "shard the model over a mesh of devices, e.g. 'rows:2;cols:2'; see "                 \
              "docs/guides/mesh.md" },                                                             \
        { .name = "layout",                                                                        \
          .value = "RULES",                                                                        \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "shard dimensions along mesh axes, e.g. 'batch:rows;hidden:cols'" },             \
        { .name = "stages",                                                                        \
          .value = "LAYERS",                                                                       \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "number of layers in each pipeline stage, e.g. '2,2'; needs a layout "           \
                  "with 'layers:AXIS' (default: balanced by work)" },                              \
    {                                                                                              \
        .name = "exact", .group = MF_GROUP_DISTRIBUTION, .scope = MF_OPTION_JOB,                   \
        .help = "do not shard dimensions that an op sums over; together with --shards 1, "         \
                "the result is bit-identical to that of one device"                                \
    }

/* The strategy that --mesh, --layout, --stages, --exact, --balance, --pipeline and --chunks stand
 * for; out->kind is NULL without a mesh. chosen: instead of --mesh and --layout; NULL: none. Fails
 * as a wrong call, or with INVALID_ARGUMENT (a value). Owns: what *out points to is in the arena.
 */
MF_MUST mf_status mf_mesh_options_read(mf_args *args, const mf_mesh_spec *chosen, mf_arena *arena,
                                       mf_strategy_settings *out);

#endif
