/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_schedule.h - the order of the micro-batches on a pipeline stage. */
#ifndef MF_SPMD_PIPELINE_PIPELINE_SCHEDULE_H
#define MF_SPMD_PIPELINE_PIPELINE_SCHEDULE_H

#include "spmd/session/mesh_session.h"

/* Number of forward passes that a stage runs before its first backward pass. */
int mf_pipeline_ahead(mf_pipeline how, int stages, int stage, int64_t micro_batches);
/* Position of the forward or backward pass of a micro-batch, from 0. */
int mf_pipeline_place(int64_t micro_batch, bool back, int64_t micro_batches, int64_t ahead);

/* ---- all schedules ---- */

typedef struct mf_pipeline_plan {
    mf_pipeline how;
    int stages;
    int chunks; /* chunks of layers per stage; 1 unless interleaved */
    int64_t micro_batches; /* micro-batches */
} mf_pipeline_plan;

typedef enum mf_pipeline_way {
    MF_PIPELINE_FORWARDS,
    MF_PIPELINE_BACKWARDS, /* zero bubble: only gradients that earlier layers need; otherwise all */
    MF_PIPELINE_WEIGHTS, /* zero bubble: the gradients of weights */
    MF_PIPELINE_WAYS,
} mf_pipeline_way;

/* One item of a stage: one pass of a micro-batch through a chunk. Both count from 0. */
typedef struct mf_pipeline_item {
    mf_pipeline_way way;
    int chunk;
    int64_t micro_batch;
} mf_pipeline_item;

/* Number of items of a stage. */
int64_t mf_pipeline_items(const mf_pipeline_plan *p);
/* The items of a stage in order; `out` has room for mf_pipeline_items(). The orders of all stages
 * together never deadlock. */
void mf_pipeline_order(const mf_pipeline_plan *p, int stage, mf_pipeline_item *out);
/* Fraction of a step during which a stage is idle, if all chunks take the same time, a backward
 * pass takes twice as long as a forward pass (half of it for weights), and communication is free.
 * For interleaved schedules the number of micro-batches should be a multiple of the stages;
 * otherwise the result is a lower bound. */
double mf_pipeline_idle(const mf_pipeline_plan *p);

/* Orders the micro-batches (nodes with _turn; with _chunk if there are several chunks, see
 * virtual_stages.h) of a device graph of stage `stage`. The number of micro-batches is taken from
 * the graph; a graph without them is not changed. */
MF_MUST mf_status mf_mesh_schedule(mf_graph *graph, const mf_pipeline_plan *plan, int stage);

#endif
