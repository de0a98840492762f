/* SPDX-License-Identifier: Apache-2.0 */
/* critical_path.h - of what ran, the chain of nodes, each needing the one before, that took
 * longest: no number of threads and devices makes a run shorter than that. */
#ifndef MF_CLI_CRITICAL_PATH_H
#define MF_CLI_CRITICAL_PATH_H

#include "base/buf.h"
#include "graph/graph.h"
#include "observe/trace.h"

typedef struct mf_critical_node {
    const mf_node *node;
    int64_t ns; /* all its executions together */
} mf_critical_node;

typedef struct mf_critical_path {
    mf_critical_node *nodes; /* those that took any time, in the order in which they ran */
    int64_t n;
    int64_t ns; /* of the chain */
    int64_t all_ns; /* of all that ran */
    int64_t n_ran; /* nodes that ran */
} mf_critical_path;

/* What passes have put together counts for the node whose name it has; what came out of a function
 * counts for the call. Owns: mf_critical_path_deinit(), also after a failure; nodes are the
 * graph's. */
MF_MUST mf_status mf_critical_path_find(const mf_graph *graph, mf_trace *trace,
                                        mf_critical_path *out);
void mf_critical_path_deinit(mf_critical_path *p);
void mf_critical_path_text(const mf_critical_path *p, mf_buf *out);
/* {"seconds":..., "all_seconds":..., "nodes":[{"name":..., "op":..., "seconds":...}]} */
void mf_critical_path_json(const mf_critical_path *p, mf_buf *out);

#endif
