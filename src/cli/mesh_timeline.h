/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_timeline.h - what the stages of a pipeline did when, in text. */
#ifndef MF_CLI_MESH_TIMELINE_H
#define MF_CLI_MESH_TIMELINE_H

#include "base/buf.h"

#include <meshflow/mesh.h>

/* For each stage how long it was idle, against the ideal, and its last step. Nothing where the mesh
 * is one. */
MF_MUST mf_status mf_timeline_print(const mf_strategy *strategy, mf_buf *out);

#endif
