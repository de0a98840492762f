/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_timeline.h - the timeline of the stages of a pipeline, as text. */
#ifndef MF_CLI_MESH_TIMELINE_H
#define MF_CLI_MESH_TIMELINE_H

#include "base/buf.h"

#include <meshflow/mesh.h>

/* For each stage its idle time, compared with the ideal, and its last step. Prints nothing if the
 * mesh has one stage. */
MF_MUST mf_status mf_timeline_print(const mf_strategy *strategy, mf_buf *out);

#endif
