/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_stages.h - of an interleaved pipeline, to which chunk of layers each node belongs.
 *
 * Chunks of layers are dealt to the meshes in turn, so a micro-batch comes to each mesh several
 * times, and what it does there at each time is ordered apart (pipeline_schedule.h). */
#ifndef MF_SPMD_PIPELINE_VIRTUAL_STAGES_H
#define MF_SPMD_PIPELINE_VIRTUAL_STAGES_H

#include "spmd/lower/spmd_compile.h"
#include "spmd/propagate/sharding_table.h"

/* The chunk, from 1 on, as an attribute. */
#define MF_CHUNK_ATTR "_chunk"

/* Marks the nodes of micro-batches. With one chunk for each mesh it does nothing. *returns becomes
 * true where a node needs what a later chunk makes, on the way there, or an earlier one, on the way
 * back: no order of items does that. */
MF_MUST mf_status mf_mesh_mark_chunks(mf_sharding_table *s, const mf_mesh_variables *variables,
                                      bool *returns);

#endif
