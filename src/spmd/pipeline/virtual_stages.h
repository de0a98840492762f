/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_stages.h - assigns the nodes of an interleaved pipeline to chunks of layers.
 *
 * Chunks are assigned to meshes round-robin, so a micro-batch passes each mesh several times. Each
 * pass is scheduled separately (pipeline_schedule.h). */
#ifndef MF_SPMD_PIPELINE_VIRTUAL_STAGES_H
#define MF_SPMD_PIPELINE_VIRTUAL_STAGES_H

#include "spmd/lower/spmd_compile.h"
#include "spmd/propagate/sharding_table.h"

/* Attribute: the chunk, from 1. */
#define MF_CHUNK_ATTR "_chunk"

/* Marks the nodes of micro-batches. With one chunk per mesh it does nothing. *returns becomes true
 * if a forward node needs a value of a later chunk, or a backward node one of an earlier chunk: no
 * interleaved order satisfies that. */
MF_MUST mf_status mf_mesh_mark_chunks(mf_sharding_table *s, const mf_mesh_variables *variables,
                                      bool *returns);

#endif
