/* SPDX-License-Identifier: Apache-2.0 */
/* variables.h - all variables of a graph, read and assigned through any session that runs it.
 *
 * Nodes are added to the graph for that, so the location of the variables does not matter. */
#ifndef MF_TRAIN_STEP_VARIABLES_H
#define MF_TRAIN_STEP_VARIABLES_H

#include "graph/graph.h"
#include "train/checkpoint/checkpoint.h"

/* One row for each variable, in the order of the graph; strings live in the graph's arena. */
typedef struct mf_graph_variables {
    int n;
    const char **names; /* in checkpoints: that of the node */
    const char **read; /* fetches: the values */
    const char **ready; /* fetches: are they initialized? */
    const char **feed; /* fed with values, */
    const char **assign; /* these targets assign them */
    const char *step; /* fetch: "global_step"; NULL: none */
    mf_tensor **results; /* space for one result each */
} mf_graph_variables;

MF_MUST mf_status mf_graph_variables_init(mf_graph_variables *v, mf_graph *graph);
void mf_graph_variables_deinit(mf_graph_variables *v);

/* *missing: the first uninitialized one; NULL: none. */
MF_MUST mf_status mf_graph_variables_missing(mf_graph_variables *v, mf_session *s,
                                             const char **missing);
/* From a checkpoint. NOT_FOUND naming a variable that it lacks. */
MF_MUST mf_status mf_graph_variables_restore(mf_graph_variables *v, mf_session *s,
                                             const char *prefix);
MF_MUST mf_status mf_graph_variables_snapshot(mf_graph_variables *v, mf_session *s, int64_t step,
                                              mf_snapshot **out);
/* NOT_FOUND: no variable counts steps. */
MF_MUST mf_status mf_graph_variables_step(mf_graph_variables *v, mf_session *s, int64_t *step);

#endif
