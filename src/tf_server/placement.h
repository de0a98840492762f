/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h - on which task each node of a graph runs. */
#ifndef MF_TF_SERVER_PLACEMENT_H
#define MF_TF_SERVER_PLACEMENT_H

#include "graph/graph.h"
#include "tf_server/task_table.h"

typedef struct mf_place_options {
    const mf_server_tasks *tasks;
    const bool *available; /* by task: the session may use it */
    bool soft; /* a kind of device that a task does not have may be its processor instead */
} mf_place_options;

/* task[id], for every node. The first n_placed are what they were. References and resources pull
 * the nodes that use them to their task, whatever those say; nodes may ask for another's place
 * ("_class": "loc:@NODE"). INVALID_ARGUMENT naming the node and what there is. */
MF_MUST mf_status mf_place(const mf_graph *graph, const mf_place_options *o, int *task,
                           int64_t n_placed);

#endif
