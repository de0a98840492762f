/* SPDX-License-Identifier: Apache-2.0 */
/* predict_pipeline.h - how long a pipeline takes: its stages do one thing after the other, in the
 * order of spmd/pipeline/pipeline_schedule.c, and wait for each other. A mesh alone is a stage with
 * one thing to do. */
#ifndef MF_PLANNER_PREDICT_PIPELINE_H
#define MF_PLANNER_PREDICT_PIPELINE_H

#include "compiler/compiler.h"
#include "spmd/session/mesh_session.h"

/* What a stage does at a time: a micro-batch forwards or backwards. */
typedef struct mf_stage_item {
    double talk_ns; /* at first, */
    double compute_ns; /* then of the processor that has most, if it has its cores alone */
    double cores; /* that all its processors could use */
} mf_stage_item;

typedef struct mf_stages {
    int n;
    int turns; /* micro-batches; 0: there are none, a stage has one item */
    mf_pipeline how;
    double cores; /* that all share; 0: everybody has enough */
    const mf_stage_item *items; /* by stage, mf_stage_items() for each, in their order */
} mf_stages;

/* Of a stage: its micro-batches forwards and backwards, and what is left. */
static inline int mf_stage_items(int turns)
{
    return 2 * turns + 1;
}

MF_MUST mf_status mf_stages_time(const mf_stages *s, double *ns);

/* Which item of this stage each node belongs to, by its id. order: inputs first. What was not said
 * (mf_node_turn) belongs to what it needs, or else to what needs it. */
void mf_stage_parts(mf_node *const *order, int64_t n, const mf_stages *s, int stage, int *part);

#endif
