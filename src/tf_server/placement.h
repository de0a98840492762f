/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h - assigns each node of a graph to a task. */
#ifndef MF_TF_SERVER_PLACEMENT_H
#define MF_TF_SERVER_PLACEMENT_H

#include "graph/graph.h"
#include "tf_server/task_table.h"

typedef struct mf_place_options {
    const mf_server_tasks *tasks;
    const bool *available; /* by task: the session may use it */
    bool soft; /* soft placement: a missing device type falls back to the task's CPU */
} mf_place_options;

/* Sets task[id] for every node. The first n_placed are not moved. References and resources pull the
 * nodes that use them to their task, whatever those request; nodes may request colocation with
 * another node ("_class": "loc:@NODE"). Fails: INVALID_ARGUMENT with the node and the available
 * devices. */
MF_MUST mf_status mf_place(const mf_graph *graph, const mf_place_options *o, int *task,
                           int64_t n_placed);

#endif
