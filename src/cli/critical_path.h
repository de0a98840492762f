/* SPDX-License-Identifier: Apache-2.0 */
/* critical_path.h - the chain of dependent nodes of a run that took longest. No number of threads
 * and devices makes the run shorter than this chain. */
#ifndef MF_CLI_CRITICAL_PATH_H
#define MF_CLI_CRITICAL_PATH_H

#include "base/buf.h"
#include "graph/graph.h"
#include "observe/trace.h"

typedef struct mf_critical_node {
    const mf_node *node;
    int64_t ns; /* of all executions of the node */
} mf_critical_node;

typedef struct mf_critical_path {
    mf_critical_node *nodes; /* nodes with a measured time, in the order of execution */
    int64_t n;
    int64_t ns; /* of the chain */
    int64_t all_ns; /* of all nodes */
    int64_t n_ran; /* executed nodes */
} mf_critical_path;

/* A node made by a pass counts for the node whose name it has; a node of a function counts for the
 * call. Owns: mf_critical_path_deinit(), also after a failure; nodes are borrowed from the graph.
 */
MF_MUST mf_status mf_critical_path_find(const mf_graph *graph, mf_trace *trace,
                                        mf_critical_path *out);
void mf_critical_path_deinit(mf_critical_path *p);
void mf_critical_path_text(const mf_critical_path *p, mf_buf *out);
/* {"seconds":..., "all_seconds":..., "nodes":[{"name":..., "op":..., "seconds":...}]} */
void mf_critical_path_json(const mf_critical_path *p, mf_buf *out);

#endif
