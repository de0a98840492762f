/* SPDX-License-Identifier: Apache-2.0 */
/* planning.h - what `plan` and `train --auto` share: a wish from the command line, and the answer
 * as a table. */
#ifndef MF_CLI_PLANNING_H
#define MF_CLI_PLANNING_H

#include "cli/job.h"
#include "planner/planner.h"

/* What the command line asks of the planner, with the mesh and layout that `wish` points to. */
typedef struct mf_planning_wish {
    mf_planner_wish wish;
    mf_mesh mesh;
    mf_layout_rules layout;
} mf_planning_wish;

/* --mesh, --layout, --processors, --simulate, --memory, --exact, --threads, --latency, --bandwidth,
 * --micro-batches. Default: as many processors as cores. Fails as a wrong call, or with
 * INVALID_ARGUMENT (mesh or layout). The struct must not move: it points into itself. */
MF_MUST mf_status mf_planning_read(mf_args *args, mf_planning_wish *out);
/* The best layout for this model, whose graph gets its step. Owns: mf_planner_answer_deinit(), also
 * after a failure. */
MF_MUST mf_status mf_planning_run(mf_model *model, const mf_compile_options *compile,
                                  const mf_planner_wish *wish, mf_planner_answer *out);

/* What `train --auto` has chosen. All zero: nothing. */
typedef struct mf_chosen {
    mf_mesh_spec spec; /* the mesh with its layout */
    mf_buf mesh, layout; /* the same as text, to be shown */
    int micro_batches; /* the same; 0: not said */
    mf_buf name; /* both, as a history has them */
    mf_prediction is;
    double correction; /* that its time has in it, see search.h */
} mf_chosen;

/* For which training. */
typedef struct mf_planning_call {
    const mf_job *job; /* its own model stays as it is */
    mf_args *args;
    int64_t batch;
    int micro_batches; /* 0: as the command line says */
    int workers, hosts; /* processes that have the processors, and where; 0: this one */
    const mf_links *links; /* between them */
} mf_planning_call;

/* Past trainings count. Fails: RESOURCE_EXHAUSTED (--memory: nothing fits). */
MF_MUST mf_status mf_planning_choose(const mf_planning_call *call, mf_chosen *out);
/* Where several workers begin, until one of them has chosen: nothing is cut. */
MF_MUST mf_status mf_planning_start(const mf_planning_call *call, mf_chosen *out);
/* What its steps have taken, for the plannings to come. That it could not be kept is warned of. */
void mf_planning_remember(const mf_planning_call *call, const mf_chosen *chosen, double step_ns);
void mf_chosen_deinit(mf_chosen *c);

void mf_planning_print(const mf_planner_answer *a, const mf_planner_wish *wish, mf_buf *out);
void mf_planning_print_json(const mf_planner_answer *a, const mf_planner_wish *wish, mf_buf *out);

#endif
