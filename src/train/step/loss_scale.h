/* SPDX-License-Identifier: Apache-2.0 */
/* loss_scale.h - for 16-bit floats whose smallest numbers are too large for gradients: the loss is
 * multiplied by a factor, and gradients are divided by it. The factor is dynamic: where gradients
 * have NaN/Inf the step is skipped (nan_guard.h) and the factor halved, after a number of good
 * steps it is doubled. */
#ifndef MF_TRAIN_STEP_LOSS_SCALE_H
#define MF_TRAIN_STEP_LOSS_SCALE_H

#include "train/optim/optimizer.h"
#include "train/step/precision.h"

typedef struct mf_loss_scale {
    mf_output factor; /* of this step; empty: none is used */
    mf_output good_steps; /* in a row, before this one */
    int64_t growth;
} mf_loss_scale;

/* Errors go to the graph. */
void mf_loss_scale_init(mf_loss_scale *s, mf_updates *all, const mf_precision *p);
/* Divide the gradients again. */
void mf_loss_scale_undo(const mf_loss_scale *s, mf_graph *graph, mf_update *updates, int n);
/* The factor of the next step. finite: this step's gradients were numbers. */
void mf_loss_scale_adjust(const mf_loss_scale *s, mf_updates *all, mf_output finite);

#endif
