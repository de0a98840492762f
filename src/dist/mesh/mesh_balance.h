/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_balance.h - how much of what is cut each place along an axis of a mesh gets, as the speeds
 * of its processors show. */
#ifndef MF_DIST_MESH_MESH_BALANCE_H
#define MF_DIST_MESH_MESH_BALANCE_H

#include "spmd/layout/mesh_layout.h"

typedef struct mf_mesh_balance {
    int64_t looked, pause; /* the step of the last look, and steps until the next */
    int64_t *busy; /* by processor: nanoseconds at work, as seen last; NULL: never */
} mf_mesh_balance;

void mf_mesh_balance_init(mf_mesh_balance *b);
void mf_mesh_balance_deinit(mf_mesh_balance *b);
/* Is it time, after this step? Where nothing can be gained by it, it never is. */
bool mf_mesh_balance_is_due(const mf_mesh_balance *b, const mf_meshes *meshes, int64_t step);
/* Everything is counted from 0 again. */
void mf_mesh_balance_restart(mf_mesh_balance *b, int64_t step);
/* busy: by processor, in all. *out: the mesh with better shares; false: those that there are will
 * do, for the slowest would not be done 15 % earlier. */
MF_MUST mf_status mf_mesh_balance_look(mf_mesh_balance *b, const mf_meshes *meshes,
                                       const mf_layout_rules *rules, int64_t step,
                                       const int64_t *busy, mf_mesh *out, bool *better);

#endif
