/* SPDX-License-Identifier: Apache-2.0 */
/* region.h - groups nodes that run together as one plan. */
#ifndef MF_COMPILER_REGION_H
#define MF_COMPILER_REGION_H

#include "compiler/compiler.h"
#include "compiler/flow_context.h"

/* Region of every node (by id): -1 for a separate item. Regions are numbered 0..*n_regions-1.
 * `region` has room for all nodes. */
MF_MUST mf_status mf_regions_find(const mf_compile *c, const mf_contexts *contexts,
                                  mf_node *const *order, int64_t n, int *region, int *n_regions);

/* Sort the nodes of one region in place into their execution order (node_order.c). On entry inputs
 * come first. leaves: as for mf_plan_build(). */
MF_MUST mf_status mf_region_schedule(const mf_compile *c, mf_node **nodes, int64_t n,
                                     bool *const *leaves);

/* A plan for these nodes, in this order. Returns the plan's inputs and outputs as graph outputs;
 * all memory is in `arena`. `leaves[id]`: which outputs are used outside (one bool per port).
 * kernels[id]: what was prepared. */
typedef struct mf_plan_ends {
    mf_output *inputs, *outputs;
    int n_inputs, n_outputs;
} mf_plan_ends;
MF_MUST mf_status mf_plan_build(const mf_compile *c, mf_node *const *nodes, int64_t n,
                                bool *const *leaves, const mf_prepared *kernels, mf_arena *arena,
                                mf_plan **out, mf_plan_ends *ends);

#endif
