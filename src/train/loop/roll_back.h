/* SPDX-License-Identifier: Apache-2.0 */
/* roll_back.h - after too many consecutive steps whose gradients had NaN/Inf (nan_guard.h), weights
 * go back to an earlier checkpoint, and training continues with the next batch.
 *
 * Steps give the same bits whenever they are done. So batches that led to weights without finite
 * gradients would do so again, and are not repeated: the batches between the checkpoint and the end
 * of the row are skipped. No step is done twice, so this ends. If the row continues after that, the
 * checkpoint did not help: the next time an older one is used, until there is none. */
#ifndef MF_TRAIN_LOOP_ROLL_BACK_H
#define MF_TRAIN_LOOP_ROLL_BACK_H

#include "train/checkpoint/checkpoint.h"

/* After a step, by all workers at once: the chief gives the folder, others NULL. Does it once for
 * each step (mf_train_progress.rolled_back). Checkpoints newer than the restored one are removed.
 * Fails: FAILED_PRECONDITION (no earlier checkpoint), and as
 * collectives do. */
MF_MUST mf_status mf_roll_back_if_due(mf_trainer *t, const char *dir, mf_checkpoints *checkpoints);

#endif
