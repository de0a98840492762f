/* SPDX-License-Identifier: Apache-2.0 */
/* planner.h - the best layout for a training: measure this machine, look at layouts, choose. */
#ifndef MF_PLANNER_PLANNER_H
#define MF_PLANNER_PLANNER_H

#include "planner/search.h"
#include "train/step/trainer.h"

typedef struct mf_planner_wish {
    const mf_mesh *mesh; /* NULL: all shapes of `processors` */
    const mf_layout_rules *layout; /* look at this one only; NULL: choose */
    int processors;
    /* Each processor is a machine of its own, like this one, and there are links between them;
     * else they are threads of one process, as `train --mesh` has them. */
    bool simulated;
    double latency_ns, byte_ns; /* of these links; 0: as between threads here */
    const mf_links *links; /* between processors of several processes; NULL: to be measured here */
    int hosts; /* that these processes are on, like this one; 0: one */
    int threads; /* of this process; 0: as many as there are cores */
    int64_t batch; /* samples of a step */
    int micro_batches; /* 0: any number for pipelines, one for others */
    int64_t memory; /* bytes that a processor may have; 0: any number */
    bool exact;
    const mf_history *history; /* of past trainings; NULL: none */
    const char *name; /* of this one there */
    double seconds; /* for the measurements of kernels; 0: 4 */
} mf_planner_wish;

typedef struct mf_planner_answer {
    mf_plan_result found;
    mf_links links;
    double company; /* see contention.h */
    double links_seconds, search_seconds, kernel_seconds; /* the search has the kernels' in it */
    int64_t kernels; /* that were measured */
} mf_planner_answer;

/* Owns: mf_planner_answer_deinit(), also after a failure. */
MF_MUST mf_status mf_planner_run(const mf_trainer *t, const mf_planner_wish *wish,
                                 mf_planner_answer *out);
void mf_planner_answer_deinit(mf_planner_answer *a);

/* A step takes so much longer than predicted that it should be planned anew. */
bool mf_planner_was_wrong(double predicted_ns, double measured_ns);

/* A trainer's step on so many samples. Owns: what it refers to is in the arena, or the trainer's.
 */
MF_MUST mf_status mf_planned_step_of(const mf_trainer *t, int64_t batch, mf_arena *arena,
                                     mf_planned_step *out);

#endif
