/* SPDX-License-Identifier: Apache-2.0 */
/* spmd_compile.h - the device graphs of a run, and the layout of variables. */
#ifndef MF_SPMD_LOWER_SPMD_COMPILE_H
#define MF_SPMD_LOWER_SPMD_COMPILE_H

#include "compiler/compiler.h"
#include "spmd/layout/op_costs.h"
#include "spmd/session/mesh_session.h"

/* Layouts of variables: decided once, for all runs. */
typedef struct mf_mesh_variables {
    mf_arena *arena;
    mf_map layouts; /* name -> mf_mesh_variable */
    int64_t first_layer[MF_MESH_CHUNKS]; /* first layer of each mesh or chunk; 0: not decided yet */
} mf_mesh_variables;

typedef struct mf_mesh_variable {
    const char *name;
    mf_dtype dtype;
    int mesh;
    mf_layout layout;
    mf_axes stored; /* see mf_mesh_value */
    mf_shape shape;
} mf_mesh_variable;

MF_MUST mf_status mf_mesh_variables_init(mf_mesh_variables *v);
void mf_mesh_variables_deinit(mf_mesh_variables *v);
/* Adds variables of the graph that have no layout yet. Their names and updates decide it; the runs
 * that follow do not matter. */
MF_MUST mf_status mf_mesh_variables_add(mf_mesh_variables *v, const mf_mesh_setup *setup,
                                        const mf_graph *graph);

/* The graphs of the local devices for a run of `graph`, and its costs (mf_mesh_lower). Owns: the
 * caller frees the graphs, even after a failure. */
MF_MUST mf_status mf_mesh_compile(const mf_graph *graph, const mf_signature *sig,
                                  const mf_mesh_setup *setup, const mf_mesh_variables *variables,
                                  mf_graph **graphs, int64_t *receives, mf_mesh_costs *costs);

#endif
