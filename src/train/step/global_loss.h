/* SPDX-License-Identifier: Apache-2.0 */
/* global_loss.h - losses over all samples of a step together: triplet mining.
 *
 *   gather_step         a first map over the shards: the model's outputs, and the labels,
 *   concatenated; with other workers, those of all
 *   loss, gradients     of these outputs: once, and equal on all workers
 *   train_step          the map of step.c; a shard's samples take their own rows of both
 *
 * So a gradient returns to its shard without being sent. Both maps compute the same outputs; the
 * compiler (cse) makes one computation of it. */
#ifndef MF_TRAIN_STEP_GLOBAL_LOSS_H
#define MF_TRAIN_STEP_GLOBAL_LOSS_H

#include "train/step/step.h"

/* dy: of the sum of the losses. */
MF_MUST mf_status mf_step_whole(mf_model *model, const mf_compile_options *options,
                                const char *loss, mf_output label, mf_output dy, mf_whole *out);
/* Inside of the map: the rows that belong to the samples of `like`. */
mf_output mf_step_own(const mf_model *model, mf_output like, mf_output rows);
/* Where workers do not have the outputs of others' samples (apart), neither such losses nor kept
 * rows are possible. Fails: UNIMPLEMENTED, naming the cause, and strategies that support it. */
MF_MUST mf_status mf_step_check_together(const mf_step_graph *s, bool apart);

#endif
