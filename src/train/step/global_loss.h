/* SPDX-License-Identifier: Apache-2.0 */
/* global_loss.h - losses that look at all samples of a step together: mining of triplets.
 *
 *   gather_step         a first map over the shards: what the model puts out, and the labels, one
 *                       behind the other; with other workers, those of all
 *   loss, gradients     by these outputs: once, and the same wherever they are computed
 *   train_step          the map of step.c; a shard's samples take their own rows of both
 *
 * So a gradient comes back to the shard it belongs to without being sent. Both maps compute the
 * same outputs; the compiler (cse) makes one computation of it. */
#ifndef MF_TRAIN_STEP_GLOBAL_LOSS_H
#define MF_TRAIN_STEP_GLOBAL_LOSS_H

#include "train/step/step.h"

/* dy: of the sum of the losses. */
MF_MUST mf_status mf_step_whole(mf_model *model, const mf_compile_options *options,
                                const char *loss, mf_output label, mf_output dy, mf_whole *out);
/* Inside of the map: the rows that belong to the samples of `like`. */
mf_output mf_step_own(const mf_model *model, mf_output like, mf_output rows);
/* Where workers do not see what samples of others have to tell (apart), neither such losses nor
 * kept rows are possible. Fails: UNIMPLEMENTED, naming what does it, and strategies that do. */
MF_MUST mf_status mf_step_check_together(const mf_step_graph *s, bool apart);

#endif
