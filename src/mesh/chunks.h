/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.h - of an interleaved pipeline, to which chunk of layers each node belongs.
 *
 * Chunks of layers are dealt to the meshes in turn, so a micro-batch comes to each mesh several
 * times, and what it does there at each time is ordered apart (schedule.h). */
#ifndef MF_MESH_CHUNKS_H
#define MF_MESH_CHUNKS_H

#include "mesh/compiled.h"
#include "mesh/sheet.h"

/* The chunk, from 1 on, as an attribute. */
#define MF_CHUNK_ATTR "_chunk"

/* Marks the nodes of micro-batches. With one chunk for each mesh it does nothing. *returns becomes
 * true where a node needs what a later chunk makes, on the way there, or an earlier one, on the way
 * back: no order of items does that. */
MF_MUST mf_status mf_mesh_mark_chunks(mf_mesh_sheet *s, const mf_mesh_variables *variables,
                                      bool *returns);

#endif
