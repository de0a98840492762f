/* SPDX-License-Identifier: Apache-2.0 */
/* graph_partition.h - a graph on several tasks, cut into one for each: what a run needs of it, with
 * _Send and _Recv where it is cut. Feeds and fetches are the own task's. */
#ifndef MF_TF_SERVER_GRAPH_PARTITION_H
#define MF_TF_SERVER_GRAPH_PARTITION_H

#include "compiler/compiler.h"

typedef struct mf_graph_partition_options {
    const int *task; /* by node id of the graph */
    int n_tasks, self;
    const char *const *devices; /* by task: "/job:ps/replica:0/task:0/device:CPU:0" */
    const uint64_t *incarnations; /* by task */
    /* Feeds come, and fetches go, one by one while it runs: through the own task's room, by keys.
     */
    bool gradual;
} mf_graph_partition_options;

typedef struct mf_graph_partition {
    mf_arena *arena; /* of names */
    mf_graph **parts; /* by task; NULL: it has nothing to do */
    int n_tasks;
    const char **feeds,
        **fetches; /* their names in the own part, or keys, as they were asked for */
    int n_feeds, n_fetches;
} mf_graph_partition;

/* Owns: mf_graph_partition_deinit(), also after a failure. */
MF_MUST mf_status mf_graph_partition_make(const mf_graph *graph, const mf_signature *sig,
                                          const mf_graph_partition_options *o,
                                          mf_graph_partition *out);
void mf_graph_partition_deinit(mf_graph_partition *p);

#endif
