/* SPDX-License-Identifier: Apache-2.0 */
/* graph_partition_private.h - shared by graph_partition.c and graph_partition_loops.c. */
#ifndef MF_TF_SERVER_GRAPH_PARTITION_PRIVATE_H
#define MF_TF_SERVER_GRAPH_PARTITION_PRIVATE_H

#include "base/map.h"
#include "compiler/flow_context.h"
#include "tf_server/graph_partition.h"

/* ---- loops on several tasks (graph_partition_loops.c) ---- */

/* The control loop of a task: the node that begins an iteration, and the node in its body. */
typedef struct mf_driver {
    mf_node *merge, *turn; /* NULL: not needed */
} mf_driver;

typedef struct mf_loops {
    mf_contexts *contexts; /* of the original nodes */
    mf_node **conds; /* by frame: its LoopCond; NULL: none */
    mf_driver *drivers; /* by frame and task */
    int n_frames, n_tasks;
} mf_loops;

typedef struct mf_cutting {
    const mf_graph_partition_options *o;
    mf_graph_partition *out;
    mf_graph *whole; /* the nodes that the run needs, with _Arg and _Retval */
    int *task; /* by its node ids */
    int64_t cap_task;
    mf_loops loops;
    mf_map received; /* "node:port>task", "^node>task" -> the node that receives it there */
    int edges;
} mf_cutting;

/* A task that receives values inside a loop needs the number of iterations: it gets a control loop
 * without data, driven by the condition of the real one. */
MF_MUST mf_status mf_loops_drive(mf_cutting *c, const mf_compile *w);
void mf_loops_deinit(mf_loops *l);
/* The frame of an output, or after a node; 0: none. */
int mf_loops_frame(const mf_loops *l, mf_output o);
int mf_loops_frame_after(const mf_loops *l, const mf_node *n);
/* The node after which values of this frame are received, in the whole graph; NULL: none. */
const mf_node *mf_loops_driver(const mf_loops *l, int frame, int task);

#endif
