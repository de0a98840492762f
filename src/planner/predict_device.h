/* SPDX-License-Identifier: Apache-2.0 */
/* predict_device.h - what one processor does in a step: its graph is compiled as for a run, and
 * what would run is looked at. */
#ifndef MF_PLANNER_PREDICT_DEVICE_H
#define MF_PLANNER_PREDICT_DEVICE_H

#include "planner/predict.h"
#include "planner/predict_pipeline.h"

/* Of an item of its stage. */
typedef struct mf_predicted_device_part {
    double compute_ns;
    int64_t received_bytes, collectives, rounds;
} mf_predicted_device_part;

typedef struct mf_predicted_device {
    const mf_planned_step *step;
    const mf_planned_machine *machine;
    const mf_stages *stages; /* n, turns and how */
    int stage; /* whose it is */
    int n_processors;
    mf_arena *arena;
    mf_resources *state; /* for kernels that are prepared */
    mf_predicted_processor *out; /* all but variable_bytes are set */
    mf_predicted_device_part *parts; /* mf_stage_items(); all zero */
} mf_predicted_device;

MF_MUST mf_status mf_predicted_device_predict(const mf_predicted_device *p, const mf_graph *graph);

#endif
