/* SPDX-License-Identifier: Apache-2.0 */
/* zero_update.h - updates of slices of a weight that everybody has whole: where what an optimizer
 * keeps is cut, and the weight is not, or less (ZeRO 1 and 2). */
#ifndef MF_SPMD_LOWER_ZERO_UPDATE_H
#define MF_SPMD_LOWER_ZERO_UPDATE_H

#include "spmd/lower/spmd_compile.h"
#include "spmd/propagate/sharding_table.h"

/* An op that updates the variable that is its first input, with slots behind it. */
bool mf_mesh_is_update(const mf_node *n);
/* Updates whose slots lie otherwise than the weight work on a copy that lies as they do, for a
 * moment; what becomes of it is assigned to the weight. */
MF_MUST mf_status mf_mesh_update_slices(mf_compile *c, const mf_mesh_variables *known);
/* Gradients should lie as what they update is stored. */
void mf_relayout_request_slices(const mf_sharding_table *s);

#endif
