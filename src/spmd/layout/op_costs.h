/* SPDX-License-Identifier: Apache-2.0 */
/* op_costs.h - what ops of a run cost a processor, added up by kind. */
#ifndef MF_SPMD_LAYOUT_OP_COSTS_H
#define MF_SPMD_LAYOUT_OP_COSTS_H

#include "base/map.h"
#include "base/mem.h"

#include <meshflow/mesh.h>

typedef struct mf_mesh_costs {
    mf_arena *arena;
    mf_mesh_cost **list;
    int64_t n, cap;
    mf_map kinds; /* by op */
    bool returns; /* a micro-batch goes back to an earlier mesh before its gradients do */
    int64_t together; /* things that processors do together in a run: the same for all of them */
} mf_mesh_costs;

MF_MUST mf_status mf_mesh_costs_init(mf_mesh_costs *c);
void mf_mesh_costs_deinit(mf_mesh_costs *c);
/* The row of this kind; NULL: no memory. */
mf_mesh_cost *mf_mesh_costs_of(mf_mesh_costs *c, const char *op);
/* Most received bytes first, then most work. */
void mf_mesh_costs_sort(mf_mesh_costs *c);

#endif
