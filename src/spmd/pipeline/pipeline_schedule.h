/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_schedule.h - in which order a stage of a pipeline does what it has to do. */
#ifndef MF_SPMD_PIPELINE_PIPELINE_SCHEDULE_H
#define MF_SPMD_PIPELINE_PIPELINE_SCHEDULE_H

#include "spmd/session/mesh_session.h"

/* How many micro-batches a stage has on their way before the first comes back. */
int mf_pipeline_ahead(mf_pipeline how, int stages, int stage, int64_t turns);
/* When it does one of them, forwards or backwards, from 0 on. */
int mf_pipeline_place(int64_t turn, bool back, int64_t turns, int64_t ahead);

/* ---- all orders ---- */

typedef struct mf_pipeline_plan {
    mf_pipeline how;
    int stages;
    int chunks; /* of layers that each stage has; 1 unless interleaved */
    int64_t turns; /* micro-batches */
} mf_pipeline_plan;

typedef enum mf_pipeline_way {
    MF_PIPELINE_FORWARDS,
    MF_PIPELINE_BACKWARDS, /* zero bubble: only what leads to earlier layers; else all of it */
    MF_PIPELINE_WEIGHTS, /* zero bubble: the rest of the way back */
    MF_PIPELINE_WAYS,
} mf_pipeline_way;

/* What a stage does at a time: a micro-batch, through one of its chunks. Both count from 0. */
typedef struct mf_pipeline_item {
    mf_pipeline_way way;
    int chunk;
    int64_t turn;
} mf_pipeline_item;

/* How many of them a stage has. */
int64_t mf_pipeline_items(const mf_pipeline_plan *p);
/* In their order; `out` has room for mf_pipeline_items(). No stage ever waits for what waits for
 * it. */
void mf_pipeline_order(const mf_pipeline_plan *p, int stage, mf_pipeline_item *out);
/* Which part of a step a stage is idle, if all chunks take the same time, the way back twice that
 * of the way there (half of it for weights), and nothing else any. Of interleaved ones: where
 * micro-batches are a multiple of the stages; else it is less than it will be. */
double mf_pipeline_idle(const mf_pipeline_plan *p);

/* Order the micro-batches (nodes with _turn; of several chunks with _chunk, see virtual_stages.h)
 * of a processor's graph, which is stage `stage`. turns of `plan` follow from the graph: one
 * without micro-batches stays as it is. */
MF_MUST mf_status mf_mesh_schedule(mf_graph *graph, const mf_pipeline_plan *plan, int stage);

#endif
