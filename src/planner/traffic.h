/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.h - the bytes that a processor sends and receives in a step: read off the ops that do it,
 * exactly as their kernels count. */
#ifndef MF_PLANNER_TRAFFIC_H
#define MF_PLANNER_TRAFFIC_H

#include "compiler/compiler.h"

typedef struct mf_traffic_counts {
    int64_t sent, received; /* bytes */
    int64_t collectives;
    int64_t rounds; /* of collectives that wait for each other */
    int64_t *to; /* by processor: bytes sent to it */
} mf_traffic_counts;

/* It waits for others: sending to another mesh does not. */
bool mf_node_is_collective(const mf_node *n);
/* Add what this one moves. out->to has room for all processors. */
void mf_traffic_add(const mf_node *n, mf_traffic_counts *out);
/* Of all nodes in this order, inputs first; part: by node's id, which of `out` it counts for. */
MF_MUST mf_status mf_traffic_of(mf_node *const *order, int64_t n, int64_t n_ids, const int *part,
                                mf_traffic_counts *out);

#endif
