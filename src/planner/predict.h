/* SPDX-License-Identifier: Apache-2.0 */
/* predict.h - what a step will take under a layout: it is lowered and compiled as for a run, and
 * what would run is looked at. */
#ifndef MF_PLANNER_PREDICT_H
#define MF_PLANNER_PREDICT_H

#include "planner/link_speed.h"
#include "planner/op_times.h"
#include "spmd/lower/spmd_compile.h"

/* A step: a run of a graph, on feeds of these shapes. */
typedef struct mf_planned_step {
    const mf_graph *graph;
    mf_run_names names;
    const mf_shape *feed_shapes;
    const char *disable; /* passes that are left out; NULL: none */
} mf_planned_step;

/* Where it is to run. */
typedef struct mf_planned_machine {
    mf_op_times *times; /* of kernels on `threads` of a processor */
    mf_links links;
    int threads; /* that a processor has when it computes */
    int cores; /* that all processors share; 0: each has cores of its own */
    double company; /* how many times as long kernels take in a step; 0: once */
} mf_planned_machine;

typedef struct mf_prediction {
    double step_ns, compute_ns, talk_ns; /* in all; kernels; what is done together */
    double wait_ns; /* stages of a pipeline for each other (the bubble) */
    /* Of the processor that has most of it. */
    int64_t sent_bytes, received_bytes, link_bytes; /* a step's; the most from one to another */
    int64_t variable_bytes, activation_bytes, memory_bytes; /* the last: both together */
    int64_t collectives, rounds;
} mf_prediction;

/* What each processor sends, receives and holds, for those who compare it with counters. */
typedef struct mf_predicted_processor {
    double compute_ns;
    int64_t sent_bytes, received_bytes, link_bytes, variable_bytes, activation_bytes;
    int64_t collectives, rounds;
} mf_predicted_processor;

/* setup: meshes, rules, micro-batches and exact; of the processors [first, first + n) the most
 * counts, the others are taken to be like them. Of several meshes the first of each is looked at
 * instead, unless n is all of them or `all` is asked for. all: NULL, or room for those n.
 * Fails as mf_mesh_session_new() and its runs do: the layout is not possible. */
MF_MUST mf_status mf_predict_step(const mf_planned_step *step, const mf_planned_machine *machine,
                                  const mf_mesh_setup *setup, mf_prediction *out,
                                  mf_predicted_processor *all);

#endif
