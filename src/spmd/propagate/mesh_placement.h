/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_placement.h - places the nodes of a graph on several meshes. */
#ifndef MF_SPMD_PROPAGATE_MESH_PLACEMENT_H
#define MF_SPMD_PROPAGATE_MESH_PLACEMENT_H

#include "spmd/lower/spmd_compile.h"
#include "spmd/propagate/sharding_table.h"

/* Assigns the layers of a model to chunks (to meshes if each has one chunk), unless that was
 * decided before (first[0] > 0). `wanted` is the number of layers of each chunk; if it is all 0,
 * the largest work of a chunk is minimized. Fails: INVALID_ARGUMENT (too few layers, or another
 * total than wanted). */
MF_MUST mf_status mf_mesh_assign_layers(const mf_sharding_table *s, const int *wanted,
                                        int64_t *first);
/* The chunk of this layer, from 0; mesh chunk % meshes computes it. -1: none. */
int mf_mesh_chunk_of(const mf_sharding_table *s, const mf_mesh_variables *known, int64_t layer);
/* Fills s->where. Variables in `known` keep their mesh. */
MF_MUST mf_status mf_mesh_place(mf_sharding_table *s, const mf_mesh_variables *known);

#endif
