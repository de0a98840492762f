/* SPDX-License-Identifier: Apache-2.0 */
/* op_costs.h - costs of a run for one device, added up by op type. */
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
    bool returns; /* a micro-batch returns to an earlier mesh during its forward pass */
    int64_t together; /* number of collectives in a run: the same on all devices */
} mf_mesh_costs;

MF_MUST mf_status mf_mesh_costs_init(mf_mesh_costs *c);
void mf_mesh_costs_deinit(mf_mesh_costs *c);
/* The row of this op type; NULL: out of memory. */
mf_mesh_cost *mf_mesh_costs_of(mf_mesh_costs *c, const char *op);
/* By received bytes, then by work, both descending. */
void mf_mesh_costs_sort(mf_mesh_costs *c);

#endif
