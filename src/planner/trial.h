/* SPDX-License-Identifier: Apache-2.0 */
/* trial.h - runs a step of a training on a mesh of threads of this process, on synthetic values. */
#ifndef MF_PLANNER_TRIAL_H
#define MF_PLANNER_TRIAL_H

#include "planner/predict.h"
#include "train/step/trainer.h"

typedef struct mf_trial {
    const mf_trainer *t;
    const mf_planned_step *step; /* of the trainer */
    int threads; /* of all devices together */
    int runs; /* measured runs: at least one, at most this number */
    double seconds; /* budget after compilation */
} mf_trial;

typedef struct mf_trial_result {
    double middle_ns, least_ns; /* wall-clock time of the runs: median, minimum */
    double own_ns; /* minimum of the total busy time of the devices */
    /* The maximum over the devices. */
    int64_t step_bytes, memory_bytes; /* the last: with variables */
} mf_trial_result;

/* setup: meshes, rules, exact and micro-batches. Blocks: yes.
 * Fails as mf_mesh_session_make() and its runs do. */
MF_MUST mf_status mf_trial_run(const mf_trial *trial, const mf_mesh_setup *setup,
                               mf_trial_result *out);

#endif
