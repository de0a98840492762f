/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.h - bytes that a device sends and receives in a step, from the attributes of its
 * communication ops, counted as their kernels count. */
#ifndef MF_PLANNER_TRAFFIC_H
#define MF_PLANNER_TRAFFIC_H

#include "compiler/compiler.h"

typedef struct mf_traffic_counts {
    int64_t sent, received; /* bytes */
    int64_t collectives;
    int64_t rounds; /* collectives on the longest path */
    int64_t *to; /* by device: bytes sent to it */
} mf_traffic_counts;

/* True if the node waits for other devices; sending to another mesh does not. */
bool mf_node_is_collective(const mf_node *n);
/* Adds the traffic of this node. out->to has an element for each device. */
void mf_traffic_add(const mf_node *n, mf_traffic_counts *out);
/* Of all nodes in this order, inputs first; part: by node id, the element of `out` to add to. */
MF_MUST mf_status mf_traffic_of(mf_node *const *order, int64_t n, int64_t n_ids, const int *part,
                                mf_traffic_counts *out);

#endif
