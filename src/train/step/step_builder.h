/* SPDX-License-Identifier: Apache-2.0 */
/* step_builder.h - a step's graph under construction: step.c (shards, gradients, targets),
 * step_updates.c (updates). */
#ifndef MF_TRAIN_STEP_STEP_BUILDER_H
#define MF_TRAIN_STEP_STEP_BUILDER_H

#include "train/step/loss_scale.h"
#include "train/step/step.h"

/* The outputs of a shard, in one list, and how they are joined. */
typedef struct mf_step_results {
    mf_outputs list;
    mf_buf join, types; /* "'sum','concat'", "float,int32" */
} mf_step_results;

typedef struct mf_step_builder {
    mf_step_graph *s;
    mf_model *model;
    mf_graph *graph;
    mf_arena *arena;
    const mf_compile_options *options;
    mf_step_results results;
    mf_output dy; /* gradient of the sum of losses: one divided by the samples, possibly scaled */
    mf_loss_scale scale;
    mf_node *map; /* the _ShardMap */
} mf_step_builder;

static inline mf_output mf_step_f32(const mf_step_builder *b, double value)
{
    return mf_scalar(b->graph, MF_DTYPE_F32, value);
}

static inline mf_output mf_step_op2(const mf_step_builder *b, const char *op, mf_output x,
                                    mf_output y)
{
    return mf_apply(b->graph, op, MF_IN(x, y));
}

/* Result i of the map. */
static inline mf_output mf_step_joined(const mf_step_builder *b, int i)
{
    return (mf_output){ b->map, i };
}

/* ---- step_updates.c: on the sums over all shards; errors of building go to the graph ---- */

MF_MUST mf_status mf_step_update_weights(mf_step_builder *b);
void mf_step_assign_weights(mf_step_builder *b);
void mf_step_update_moving(mf_step_builder *b);
void mf_step_update_kept(mf_step_builder *b);
void mf_step_count_steps(mf_step_builder *b);

#endif
