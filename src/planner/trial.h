/* SPDX-License-Identifier: Apache-2.0 */
/* trial.h - a step of a training is run for a moment on a mesh of threads of this process, on
 * made-up numbers. */
#ifndef MF_PLANNER_TRIAL_H
#define MF_PLANNER_TRIAL_H

#include "planner/predict.h"
#include "train/step/trainer.h"

typedef struct mf_trial {
    const mf_trainer *t;
    const mf_planned_step *step; /* of it */
    int threads; /* of all processors together */
    int runs; /* that are counted: at least one, then so many as long as there is time */
    double seconds; /* for all of it, once it is compiled */
} mf_trial;

typedef struct mf_trial_result {
    double middle_ns, least_ns; /* of the runs, by the clock */
    double own_ns; /* the least time that processors were at work */
    /* Of the processor that has most of it. */
    int64_t step_bytes, memory_bytes; /* the last: with variables */
} mf_trial_result;

/* setup: meshes, rules, exact and micro-batches. Blocks: yes.
 * Fails as mf_mesh_session_make() and its runs do. */
MF_MUST mf_status mf_trial_run(const mf_trial *trial, const mf_mesh_setup *setup,
                               mf_trial_result *out);

#endif
