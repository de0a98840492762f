/* SPDX-License-Identifier: Apache-2.0 */
/* variable_sharding.h - variables that are cut where they are stored, whatever becomes of what is
 * computed from them: by the rules for "weights" (all variables) and "slots" (what optimizers
 * keep). */
#ifndef MF_SPMD_PROPAGATE_VARIABLE_SHARDING_H
#define MF_SPMD_PROPAGATE_VARIABLE_SHARDING_H

#include "spmd/lower/spmd_compile.h"
#include "spmd/propagate/sharding_table.h"

/* Of those that are not known yet. */
void mf_mesh_cut_stored(const mf_sharding_table *s, const mf_layout_rules *rules,
                        const mf_mesh_variables *known);

#endif
