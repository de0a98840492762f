/* SPDX-License-Identifier: Apache-2.0 */
/* predict_device.h - predicts one device: compiles its graph as for a run, and analyses the result.
 */
#ifndef MF_PLANNER_PREDICT_DEVICE_H
#define MF_PLANNER_PREDICT_DEVICE_H

#include "planner/predict.h"
#include "planner/predict_pipeline.h"

/* One item of the device's stage. */
typedef struct mf_predicted_device_part {
    double compute_ns;
    int64_t received_bytes, collectives, rounds;
} mf_predicted_device_part;

typedef struct mf_predicted_device {
    const mf_planned_step *step;
    const mf_planned_machine *machine;
    const mf_stages *stages; /* n, turns and how */
    int stage; /* stage of the device */
    int n_devices;
    mf_arena *arena;
    mf_resources *state; /* resources for kernels */
    mf_mesh_device_prediction *out; /* all fields but variable_bytes are set */
    mf_predicted_device_part *parts; /* mf_stage_items() structs, zero at first */
} mf_predicted_device;

MF_MUST mf_status mf_predicted_device_predict(const mf_predicted_device *p, const mf_graph *graph);

#endif
