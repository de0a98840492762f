/* SPDX-License-Identifier: Apache-2.0 */
/* planning.h - shared by `plan` and `train --auto`: options of the planner, and its result as a
 * table. */
#ifndef MF_CLI_PLANNING_H
#define MF_CLI_PLANNING_H

#include "cli/job.h"
#include "planner/planner.h"

/* The planner's options from the command line, with the mesh and layout that `opts` points to. */
typedef struct mf_planning_options {
    mf_planner_options opts;
    mf_mesh mesh;
    mf_layout_rules layout;
} mf_planning_options;

/* --mesh, --layout, --devices, --simulate, --memory, --exact, --threads, --latency, --bandwidth,
 * --micro-batches. Default: as many devices as cores. Fails as a wrong call, or with
 * INVALID_ARGUMENT (mesh or layout). The struct must not move: it points into itself. */
MF_MUST mf_status mf_planning_read(mf_args *args, mf_planning_options *out);
/* Plans this model, to whose graph the step is added. Owns: mf_planner_answer_deinit(), also after
 * a failure. */
MF_MUST mf_status mf_planning_run(mf_model *model, const mf_compile_options *compile,
                                  const mf_planner_options *opts, mf_planner_answer *out);

/* The choice of `train --auto`. Zero-initialized: none. */
typedef struct mf_chosen {
    mf_mesh_spec spec; /* the mesh with its layout */
    mf_buf mesh, layout; /* the same as text, to be shown */
    int micro_batches; /* of the choice; 0: not chosen */
    mf_buf name; /* its key in the history */
    mf_prediction is;
    double correction; /* factor in is.step_ns, see search.h */
} mf_chosen;

/* The training to plan. */
typedef struct mf_planning_call {
    const mf_job *job; /* its model is not changed */
    mf_args *args;
    int64_t batch;
    int micro_batches; /* 0: from the command line */
    int workers, hosts; /* processes of the mesh, and their hosts; 0: this one */
    const mf_links *links; /* between the workers */
} mf_planning_call;

/* Uses the history of past trainings. Fails: RESOURCE_EXHAUSTED (nothing fits --memory). */
MF_MUST mf_status mf_planning_choose(const mf_planning_call *call, mf_chosen *out);
/* The mesh on which several workers start, before the chief has planned: nothing is sharded. */
MF_MUST mf_status mf_planning_start(const mf_planning_call *call, mf_chosen *out);
/* Records the measured step time in the history. A failure is logged. */
void mf_planning_remember(const mf_planning_call *call, const mf_chosen *chosen, double step_ns);
void mf_chosen_deinit(mf_chosen *c);

void mf_planning_print(const mf_planner_answer *a, const mf_planner_options *opts, mf_buf *out);
void mf_planning_print_json(const mf_planner_answer *a, const mf_planner_options *opts,
                            mf_buf *out);

#endif
