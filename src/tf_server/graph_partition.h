/* SPDX-License-Identifier: Apache-2.0 */
/* graph_partition.h - splits the part of a graph that a run needs into one graph per task, with
 * _Send and _Recv on edges between tasks. Feeds and fetches belong to the local task. */
#ifndef MF_TF_SERVER_GRAPH_PARTITION_H
#define MF_TF_SERVER_GRAPH_PARTITION_H

#include "compiler/compiler.h"

typedef struct mf_graph_partition_options {
    const int *task; /* by node id of the graph */
    int n_tasks, self;
    const char *const *devices; /* by task: "/job:ps/replica:0/task:0/device:CPU:0" */
    const uint64_t *incarnations; /* by task */
    /* Partial run: feeds arrive and fetches leave during the run, through the local task's
     * rendezvous table. */
    bool gradual;
} mf_graph_partition_options;

typedef struct mf_graph_partition {
    mf_arena *arena; /* of names */
    mf_graph **parts; /* by task; NULL: no nodes */
    int n_tasks;
    const char **feeds,
        **fetches; /* their names in the local part, or keys, in the order of the request */
    int n_feeds, n_fetches;
} mf_graph_partition;

/* Owns: mf_graph_partition_deinit(), even after a failure. */
MF_MUST mf_status mf_graph_partition_make(const mf_graph *graph, const mf_signature *sig,
                                          const mf_graph_partition_options *o,
                                          mf_graph_partition *out);
void mf_graph_partition_deinit(mf_graph_partition *p);

#endif
