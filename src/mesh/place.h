/* SPDX-License-Identifier: Apache-2.0 */
/* place.h - which of several meshes computes what. */
#ifndef MF_MESH_PLACE_H
#define MF_MESH_PLACE_H

#include "mesh/compiled.h"
#include "mesh/sheet.h"

/* Which layers of a model each chunk has (each mesh, where it has one), unless that was decided
 * before (first[0] > 0): as many as `wanted` says, or, where that is all 0, so that the one with
 * most work has as little as possible.
 * Fails: INVALID_ARGUMENT (there are fewer layers, or others than wanted). */
MF_MUST mf_status mf_mesh_deal_layers(const mf_mesh_sheet *s, const int *wanted, int64_t *first);
/* The chunk that has this layer, from 0 on; it is mesh chunk % meshes that computes it. -1: none.
 */
int mf_mesh_chunk_of(const mf_mesh_sheet *s, const mf_mesh_variables *known, int64_t layer);
/* Fills s->where. Variables stay where they are known to be. */
MF_MUST mf_status mf_mesh_place(mf_mesh_sheet *s, const mf_mesh_variables *known);

#endif
