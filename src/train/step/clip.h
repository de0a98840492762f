/* SPDX-License-Identifier: Apache-2.0 */
/* clip.h - gradient clipping. */
#ifndef MF_TRAIN_STEP_CLIP_H
#define MF_TRAIN_STEP_CLIP_H

#include "train/optim/optimizer.h"

/* "value=V": every number to [-V, V]. "norm=V": each gradient scaled down to length V.
 * "global_norm=V": all of them together. Replaces the gradients; errors of building go to the
 * graph. Fails: INVALID_ARGUMENT (none, or several of the three; not positive). */
MF_MUST mf_status mf_clip(mf_graph *graph, const char *text, mf_update *updates, int n);

#endif
