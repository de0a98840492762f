/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_options.h - the options that say on which mesh a model runs. */
#ifndef MF_CLI_MESH_OPTIONS_H
#define MF_CLI_MESH_OPTIONS_H

#include "base/buf.h"
#include "cli/command.h"

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
          .help = "layers of each pipeline stage, e.g. '2,2', with the layout 'layers:AXIS' "      \
                  "(default: balanced by work)" },                                                 \
    {                                                                                              \
        .name = "exact", .group = MF_GROUP_DISTRIBUTION, .scope = MF_OPTION_JOB,                   \
        .help =                                                                                    \
            "do not shard dimensions that are summed over: the result has the bits of one device"  \
    }

/* The strategy that they are short for, with this mesh and layout; without a mesh nothing is
 * written. Fails as a wrong call. */
MF_MUST mf_status mf_mesh_options_write(mf_args *args, const char *mesh, const char *layout,
                                        mf_buf *out);

#endif
