/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_settings.h - what the settings of the strategy mesh say. */
#ifndef MF_DIST_MESH_MESH_SETTINGS_H
#define MF_DIST_MESH_MESH_SETTINGS_H

#include "spmd/session/mesh_session.h"

struct mf_options;

/* Fills meshes, rules, layers, pipeline, chunks, exact and n: all processors are here.
 * INVALID_ARGUMENT says what is wrong. */
MF_MUST mf_status mf_mesh_setup_read(const struct mf_options *settings, mf_mesh_setup *out);

#endif
