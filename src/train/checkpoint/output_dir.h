/* SPDX-License-Identifier: Apache-2.0 */
/* output_dir.h - what the chief of a training writes to its folder besides events: checkpoints, and
 * the ledger of used samples. */
#ifndef MF_TRAIN_CHECKPOINT_OUTPUT_DIR_H
#define MF_TRAIN_CHECKPOINT_OUTPUT_DIR_H

#include "data/ledger.h"
#include "train/checkpoint/checkpoint.h"

typedef struct mf_output_dir {
    mf_checkpoints *checkpoints; /* NULL: nothing is written */
    mf_ledger *ledger; /* NULL: none, it could not be written, or another worker writes it */
    bool handed_over; /* another worker does */
} mf_output_dir;

/* Which samples, in which order. */
typedef struct mf_output_dir_data {
    mf_dataset *set;
    const mf_iterator_options *order;
    int64_t per_epoch; /* batches */
    bool leased; /* who takes which batch is not known ahead: there is no ledger */
} mf_output_dir_data;

/* At the trainer's step. goes_on: what is there belongs to this training. A ledger that cannot be
 * used is said, and training goes on without it. */
MF_MUST mf_status mf_output_dir_open(mf_output_dir *o, const char *dir, int keep, mf_trainer *t,
                                     const mf_output_dir_data *data, bool goes_on);
/* Another worker has written until now, and may have died over it: what it did not write of the
 * ledger is added. */
MF_MUST mf_status mf_output_dir_take_over(mf_output_dir *o, const char *dir, int keep,
                                          mf_trainer *t, const mf_output_dir_data *data);
/* Another worker is the chief now. */
void mf_output_dir_hand_over(mf_output_dir *o);
/* We are the chief, perhaps again, and have missed steps that others have done: they are added. */
void mf_output_dir_catch_up(mf_output_dir *o, const char *dir, const mf_trainer *t,
                            const mf_output_dir_data *data);
/* The trainer stands at an earlier step again: what was written of later ones goes. */
MF_MUST mf_status mf_output_dir_go_back(mf_output_dir *o, const char *dir, const mf_trainer *t,
                                        const mf_output_dir_data *data);
/* The step that was just done used these samples, whoever of the team has taken them. One that is
 * done once more uses the same, and they stand there already. */
void mf_output_dir_add(mf_output_dir *o, const mf_trainer *t, const mf_batch *batch);
/* Before a checkpoint, which may not know of more than the ledger. */
void mf_output_dir_flush(mf_output_dir *o);
/* Waits for what is being written. The status of the last checkpoint. */
MF_MUST mf_status mf_output_dir_close(mf_output_dir *o);

#endif
