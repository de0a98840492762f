/* SPDX-License-Identifier: Apache-2.0 */
/* roll_back.h - after too many steps in a row whose gradients were no numbers (guard.h), weights
 * go back, and data go on: those of an earlier checkpoint, and the next batch.
 *
 * Steps are the same bits whenever they are done. So batches that led to weights without gradients
 * lead there again, and are not done again: what lies between the checkpoint and the end of the row
 * is left out. No step is ever done twice, so this comes to an end. Where the row goes on after
 * that, the checkpoint was no good: the next time an older one is taken, until there is none. */
#ifndef MF_TRAIN_LOOP_ROLL_BACK_H
#define MF_TRAIN_LOOP_ROLL_BACK_H

#include "train/checkpoint/checkpoint.h"

/* After a step, by all workers at once: the chief has the folder, others NULL. Newer checkpoints
 * than the one that is taken are removed. Fails: FAILED_PRECONDITION (there is none from before),
 * and as collectives do. */
MF_MUST mf_status mf_roll_back_if_due(mf_trainer *t, const char *dir, mf_checkpoints *checkpoints);

#endif
