/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_placement.h - which of several meshes computes what. */
#ifndef MF_SPMD_PROPAGATE_MESH_PLACEMENT_H
#define MF_SPMD_PROPAGATE_MESH_PLACEMENT_H

#include "spmd/lower/spmd_compile.h"
#include "spmd/propagate/sharding_table.h"

/* Which layers of a model each chunk has (each mesh, where it has one), unless that was decided
 * before (first[0] > 0): as many as `wanted` says, or, where that is all 0, so that the one with
 * most work has as little as possible.
 * Fails: INVALID_ARGUMENT (there are fewer layers, or others than wanted). */
MF_MUST mf_status mf_mesh_deal_layers(const mf_sharding_table *s, const int *wanted,
                                      int64_t *first);
/* The chunk that has this layer, from 0 on; it is mesh chunk % meshes that computes it. -1: none.
 */
int mf_mesh_chunk_of(const mf_sharding_table *s, const mf_mesh_variables *known, int64_t layer);
/* Fills s->where. Variables stay where they are known to be. */
MF_MUST mf_status mf_mesh_place(mf_sharding_table *s, const mf_mesh_variables *known);

#endif
