/* SPDX-License-Identifier: Apache-2.0 */
/* zero_update.h - sharded updates of replicated weights (ZeRO 1 and 2): slots are split along axes
 * that do not split their weight. */
#ifndef MF_SPMD_LOWER_ZERO_UPDATE_H
#define MF_SPMD_LOWER_ZERO_UPDATE_H

#include "spmd/lower/spmd_compile.h"
#include "spmd/propagate/sharding_table.h"

/* True for an op that updates its first input, a variable, whose slots are the inputs after it. */
bool mf_mesh_is_update(const mf_node *n);
/* Updates whose slots have another layout than the weight work on a temporary copy with the slots'
 * layout, which is then assigned to the weight. */
MF_MUST mf_status mf_mesh_update_slices(mf_compile *c, const mf_mesh_variables *known);
/* Gradients prefer the stored layout of what they update. */
void mf_relayout_request_slices(const mf_sharding_table *s);

#endif
