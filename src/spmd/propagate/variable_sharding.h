/* SPDX-License-Identifier: Apache-2.0 */
/* variable_sharding.h - splits stored variables by the rules "weights" (all variables) and "slots"
 * (optimizer slots), independently of how values computed from them are split. */
#ifndef MF_SPMD_PROPAGATE_VARIABLE_SHARDING_H
#define MF_SPMD_PROPAGATE_VARIABLE_SHARDING_H

#include "spmd/lower/spmd_compile.h"
#include "spmd/propagate/sharding_table.h"

/* Variables in `known` keep their layout. */
void mf_mesh_cut_stored(const mf_sharding_table *s, const mf_layout_rules *rules,
                        const mf_mesh_variables *known);

#endif
