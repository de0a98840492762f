/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_setup.h - what the settings of the strategy mesh say. */
#ifndef MF_JOB_MESH_SETUP_H
#define MF_JOB_MESH_SETUP_H

#include "mesh/session.h"

struct mf_options;

/* Fills meshes, rules, layers, pipeline, chunks, exact and n: all processors are here.
 * INVALID_ARGUMENT says what is wrong. */
MF_MUST mf_status mf_mesh_setup_read(const struct mf_options *settings, mf_mesh_setup *out);

#endif
