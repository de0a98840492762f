/* SPDX-License-Identifier: Apache-2.0 */
/* predict.h - predicts the time, traffic and memory of a step under a layout. The step is lowered
 * and compiled as for a run, and the resulting program is analysed. */
#ifndef MF_PLANNER_PREDICT_H
#define MF_PLANNER_PREDICT_H

#include "planner/link_speed.h"
#include "planner/op_times.h"
#include "spmd/lower/spmd_compile.h"

/* A step: a run of a graph on feeds of these shapes. */
typedef struct mf_planned_step {
    const mf_graph *graph;
    mf_run_names names;
    const mf_shape *feed_shapes;
    const char *disable; /* disabled compiler passes; NULL: none */
} mf_planned_step;

/* The machine that the step runs on. */
typedef struct mf_planned_machine {
    mf_op_times *times; /* of kernels with `threads` threads */
    mf_links links;
    int threads; /* of a device */
    int cores; /* shared by all devices; 0: each device has its own */
    double slowdown; /* slowdown of kernels in a step, see contention.h; 0: none */
} mf_planned_machine;

typedef struct mf_prediction {
    double step_ns, compute_ns, talk_ns; /* total; kernels; communication */
    double wait_ns; /* pipeline bubble */
    /* The maximum over the devices. */
    int64_t sent_bytes, received_bytes, link_bytes; /* of a step; the last: from one device to
                                                       another */
    int64_t variable_bytes, activation_bytes, memory_bytes; /* the last: both together */
    int64_t collectives, rounds;
} mf_prediction;

/* Traffic and memory of each device, to be compared with counters. */
typedef struct mf_mesh_device_prediction {
    double compute_ns;
    int64_t sent_bytes, received_bytes, link_bytes, variable_bytes, activation_bytes;
    int64_t collectives, rounds;
} mf_mesh_device_prediction;

/* setup: meshes, rules, micro-batches and exact. Predicts the devices [first, first + n) and takes
 * their maximum; the others are assumed to be like them. Of several meshes, only the first device
 * of each is predicted, unless n is the number of all devices or `all` is given. all: NULL, or n
 * structs. Fails as mf_mesh_session_new() and its runs do: the layout is not possible. */
MF_MUST mf_status mf_predict_step(const mf_planned_step *step, const mf_planned_machine *machine,
                                  const mf_mesh_setup *setup, mf_prediction *out,
                                  mf_mesh_device_prediction *all);

#endif
