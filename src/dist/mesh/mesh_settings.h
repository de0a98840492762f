/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_settings.h - the settings of the strategy mesh, parsed and checked. */
#ifndef MF_DIST_MESH_MESH_SETTINGS_H
#define MF_DIST_MESH_MESH_SETTINGS_H

#include "dist/strategy_settings.h"
#include "spmd/session/mesh_session.h"

typedef struct mf_mesh_settings {
    mf_mesh_spec mesh; /* with its layout rules */
    bool exact; /* shard no dimension that is summed over */
    mf_pipeline pipeline;
    int chunks; /* of layers on each stage of an interleaved pipeline; else 1 */
    int layers[MF_MESH_CHUNKS]; /* n_layers of them: of each stage, or chunk if there are several */
    int n_layers; /* 0: each stage gets about the same work */
} mf_mesh_settings;

/* One setting after the other, in this order. INVALID_ARGUMENT says what is wrong with the text.
 * The mesh and its layout rules (NULL: none); all other settings get their defaults. */
MF_MUST mf_status mf_mesh_settings_parse_mesh(const char *mesh, const char *layout,
                                              mf_mesh_settings *out);
/* The same of a spec that was parsed, or chosen, before. */
MF_MUST mf_status mf_mesh_settings_take_mesh(const mf_mesh_spec *mesh, mf_mesh_settings *out);
/* "1f1b", "gpipe", "interleaved" with this number of chunks, "zero-bubble". */
MF_MUST mf_status mf_mesh_settings_parse_pipeline(const char *name, int64_t chunks,
                                                  mf_mesh_settings *out);
/* "2,2": how many layers each stage has, or each chunk of an interleaved pipeline. */
MF_MUST mf_status mf_mesh_settings_parse_stages(const char *text, mf_mesh_settings *out);

/* All of them. Owns: the struct is in the arena. */
MF_MUST mf_status mf_mesh_settings_read(const mf_options *o, mf_arena *arena,
                                        mf_strategy_settings *out);
void mf_mesh_settings_print(const mf_strategy_settings *s, const mf_setting_printer *p);

/* Fills meshes, rules, layers, pipeline, chunks, exact and n: all devices are in this process.
 * Fails as mf_mesh_spec_expand(). */
MF_MUST mf_status mf_mesh_settings_setup(const mf_mesh_settings *s, mf_mesh_setup *out);

#endif
