/* SPDX-License-Identifier: Apache-2.0 */
/* search.h - which layout is best: each is predicted, and the quickest that fits is taken.
 *
 * A layout says of each of the model's named dimensions, and of its weights, along which axes it is
 * cut. Where there are few of them all are looked at. Where there are many, a beam is: from the
 * best ones so far, all that differ by one dimension and axis, until none is better. Then axes of
 * the best are made stages of pipelines, with some numbers of micro-batches. Where processors are
 * at hand the best are tried at last, and what they took corrects what was said of the others. */
#ifndef MF_PLANNER_SEARCH_H
#define MF_PLANNER_SEARCH_H

#include "planner/history.h"
#include "planner/trial.h"

enum { MF_PLAN_DIMS = 12 };

/* Dimensions that a layout may cut. */
typedef struct mf_plan_dims {
    int n;
    char name[MF_PLAN_DIMS][MF_MESH_NAME];
    int64_t size[MF_PLAN_DIMS]; /* the largest of this name; 0: of any size ("weights") */
    int64_t layers; /* that have weights: there are no more stages */
    int64_t batch; /* samples: there are no more micro-batches */
} mf_plan_dims;

/* A layout that was looked at. */
typedef struct mf_candidate {
    mf_mesh mesh;
    mf_axes cuts[MF_PLAN_DIMS]; /* by dimension */
    mf_axes layers; /* of a pipeline: along these are its stages */
    int micro_batches; /* 0: one */
    mf_status status; /* OK, or why it is not possible */
    mf_prediction is;
    double model_ns; /* its step_ns before any correction and trial */
    int tried; /* so often: its step_ns and bytes are what that took */
    double correction; /* that its step_ns has in it, by past trainings */
    bool closely; /* of all processors, not of the first alone */
} mf_candidate;

typedef struct mf_plan_request {
    const mf_planned_step *step;
    const mf_planned_machine *machine;
    const mf_mesh *meshes; /* shapes to choose from */
    int n_meshes;
    const mf_layout_rules *layout; /* look at this one only, on the first mesh; NULL: choose */
    int64_t memory; /* bytes that a processor has; 0: any number */
    bool exact;
    const mf_history *history; /* NULL: predictions are not corrected */
    const char *name; /* of what is trained, in that history */
    int micro_batches; /* of all; 0: choose for pipelines, others have one */
    double pipeline_seconds; /* to look at pipelines; 0: 2; below 0: look at none */
    const mf_trial *trial; /* of the best layouts; NULL: none is tried */
    double trial_seconds; /* for all of them together */
    int64_t trial_memory; /* bytes; what needs more, of all processors, is not tried */
    int64_t limit; /* up to so many layouts, of all meshes together, all are looked at; 0: 300 */
} mf_plan_request;

typedef struct mf_plan_result {
    mf_plan_dims dims;
    mf_candidate *all; /* the best first; those that are not possible last */
    int64_t n, cap;
    int64_t possible; /* layouts that there are, without pipelines */
    bool exhaustive; /* all of them were looked at */
    int64_t pipelines; /* that were looked at besides */
    bool pipelines_left; /* there was no time for all that were to be */
    int trials; /* of the best */
    bool fits; /* the first one fits the memory */
} mf_plan_result;

/* Owns: mf_plan_result_deinit(), also after a failure. It is no failure that nothing fits. */
MF_MUST mf_status mf_plan_search(const mf_plan_request *request, mf_plan_result *out);
void mf_plan_result_deinit(mf_plan_result *r);

/* Bytes of the processor that has most. */
static inline int64_t mf_prediction_memory(const mf_prediction *p)
{
    return p->memory_bytes;
}

/* They differ by rules that change nothing. */
bool mf_candidate_same(const mf_candidate *a, const mf_candidate *b);

/* Its names and sizes: of what is fed (`batch`) and of variables. */
MF_MUST mf_status mf_plan_dims_find(const mf_planned_step *step, mf_plan_dims *out);
/* Cuts as these rules say, on the candidate's mesh. INVALID_ARGUMENT: no such dimension or axis. */
MF_MUST mf_status mf_candidate_take_rules(const mf_plan_dims *d, const mf_layout_rules *rules,
                                          mf_candidate *c);
/* The mesh and its layout. INVALID_ARGUMENT: more rules than a layout has. */
MF_MUST mf_status mf_candidate_spec(const mf_plan_dims *d, const mf_candidate *c,
                                    mf_mesh_spec *out);
/* Of its pipeline; 1: it is none. */
int mf_candidate_stages(const mf_candidate *c);
/* "batch:rows;hidden:cols" */
void mf_candidate_layout(const mf_plan_dims *d, const mf_candidate *c, mf_buf *out);
/* "rows:2;cols:2 batch:rows 1": with the micro-batches, as a history has it. */
void mf_candidate_name(const mf_plan_dims *d, const mf_candidate *c, mf_buf *out);
/* All shapes of so many processors with one axis or two, at most `max`; returns how many. */
int mf_plan_meshes(int processors, mf_mesh *out, int max);

#endif
