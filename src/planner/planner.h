/* SPDX-License-Identifier: Apache-2.0 */
/* planner.h - finds the best mesh and layout for a training: measures this machine, predicts
 * layouts, chooses one. */
#ifndef MF_PLANNER_PLANNER_H
#define MF_PLANNER_PLANNER_H

#include "planner/search.h"
#include "train/step/trainer.h"

typedef struct mf_planner_options {
    const mf_mesh *mesh; /* NULL: all shapes of `devices` */
    const mf_layout_rules *layout; /* predict this one only; NULL: choose */
    int devices;
    /* Each device is a separate machine like this one, connected by links; else devices are threads
     * of one process, as with `train --mesh`. */
    bool simulated;
    double latency_ns, byte_ns; /* of these links; 0: as between threads here */
    const mf_links *links; /* between devices of several processes; NULL: measure them here */
    int hosts; /* hosts of these processes, like this one; 0: one */
    int threads; /* of this process; 0: the number of cores */
    int64_t batch; /* samples of a step */
    int micro_batches; /* 0: chosen for pipelines, one for others */
    int64_t memory; /* bytes of each device; 0: unlimited */
    bool exact;
    const mf_history *history; /* of past trainings; NULL: none */
    const char *name; /* key of this training in the history */
    double seconds; /* budget for measuring kernels; 0: 4 */
} mf_planner_options;

typedef struct mf_planner_answer {
    mf_plan_result found;
    mf_links links;
    double slowdown; /* see contention.h */
    double links_seconds, search_seconds, kernel_seconds; /* search_seconds includes kernel_seconds
                                                           */
    int64_t kernels; /* measured */
} mf_planner_answer;

/* Owns: mf_planner_answer_deinit(), also after a failure. */
MF_MUST mf_status mf_planner_run(const mf_trainer *t, const mf_planner_options *opts,
                                 mf_planner_answer *out);
void mf_planner_answer_deinit(mf_planner_answer *a);

/* True if a step takes so much longer than predicted that planning again is worthwhile. */
bool mf_planner_was_wrong(double predicted_ns, double measured_ns);

/* The step of a trainer on a batch of this size. Owns: borrows from the arena and the trainer. */
MF_MUST mf_status mf_planned_step_of(const mf_trainer *t, int64_t batch, mf_arena *arena,
                                     mf_planned_step *out);

#endif
