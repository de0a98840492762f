/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_balance.h - the share of a split dimension for each place along a mesh axis, by the measured
 * speeds of its devices. */
#ifndef MF_DIST_MESH_MESH_BALANCE_H
#define MF_DIST_MESH_MESH_BALANCE_H

#include "spmd/layout/mesh_layout.h"

typedef struct mf_mesh_balance {
    int64_t looked, pause; /* the step of the last check, and steps until the next */
    int64_t *busy; /* by device: nanoseconds at work, as seen last; NULL: never */
} mf_mesh_balance;

void mf_mesh_balance_init(mf_mesh_balance *b);
void mf_mesh_balance_deinit(mf_mesh_balance *b);
/* Is a check due after this step? Never where no gain is possible. */
bool mf_mesh_balance_is_due(const mf_mesh_balance *b, const mf_meshes *meshes, int64_t step);
/* Everything is counted from 0 again. */
void mf_mesh_balance_restart(mf_mesh_balance *b, int64_t step);
/* busy: by device, in total. *out: the mesh with better shares; false: the current ones are good
 * enough, as the slowest device would not finish 15 % earlier. */
MF_MUST mf_status mf_mesh_balance_look(mf_mesh_balance *b, const mf_meshes *meshes,
                                       const mf_layout_rules *rules, int64_t step,
                                       const int64_t *busy, mf_mesh *out, bool *better);

#endif
