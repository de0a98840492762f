/* SPDX-License-Identifier: Apache-2.0 */
/* device_memory.h - the memory of a device. */
#ifndef MF_PLANNER_DEVICE_MEMORY_H
#define MF_PLANNER_DEVICE_MEMORY_H

#include "spmd/lower/spmd_compile.h"

/* Bytes of all variables in this sharding, as mf_mesh_session_counts() counts them. */
int64_t mf_memory_of_variables(const mf_graph *graph, const mf_mesh_variables *v,
                               const mf_meshes *meshes, int device);

#endif
