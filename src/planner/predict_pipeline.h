/* SPDX-License-Identifier: Apache-2.0 */
/* predict_pipeline.h - simulates a pipeline: each stage runs its items in the order of
 * spmd/pipeline/pipeline_schedule.c, and waits for other stages. A single mesh is one stage with
 * one item. */
#ifndef MF_PLANNER_PREDICT_PIPELINE_H
#define MF_PLANNER_PREDICT_PIPELINE_H

#include "compiler/compiler.h"
#include "spmd/session/mesh_session.h"

/* An item of a stage: a micro-batch, forward or backward. */
typedef struct mf_stage_item {
    double talk_ns; /* first communication, */
    double compute_ns; /* then computation: the maximum over the devices, with enough cores */
    double cores; /* that all devices of the stage can use */
} mf_stage_item;

typedef struct mf_stages {
    int n;
    int micro_batches; /* micro-batches; 0: each stage has one item */
    mf_pipeline how;
    double cores; /* shared by all stages; 0: enough for all */
    const mf_stage_item *items; /* by stage, mf_stage_items() of each, in their order */
} mf_stages;

/* Items of a stage: each micro-batch forward and backward, and the rest of the step. */
static inline int mf_stage_items(int micro_batches)
{
    return 2 * micro_batches + 1;
}

MF_MUST mf_status mf_stages_time(const mf_stages *s, double *ns);

/* The item of this stage that each node belongs to, by node id. order: inputs first. A node without
 * a micro-batch (mf_node_micro_batch) belongs to the item of its inputs, else to that of its
 * consumers. */
void mf_stage_parts(mf_node *const *order, int64_t n, const mf_stages *s, int stage, int *part);

#endif
