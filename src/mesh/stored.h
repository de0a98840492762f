/* SPDX-License-Identifier: Apache-2.0 */
/* stored.h - variables that are cut where they are stored, whatever becomes of what is computed
 * from them: by the rules for "weights" (all variables) and "slots" (what optimizers keep). */
#ifndef MF_MESH_STORED_H
#define MF_MESH_STORED_H

#include "mesh/compiled.h"
#include "mesh/sheet.h"

/* Of those that are not known yet. */
void mf_mesh_cut_stored(const mf_mesh_sheet *s, const mf_layout_rules *rules,
                        const mf_mesh_variables *known);

#endif
