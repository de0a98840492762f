/* SPDX-License-Identifier: Apache-2.0 */
/* output_dir.h - the files that the chief writes to its folder besides events: checkpoints, and the
 * ledger of used samples. */
#ifndef MF_TRAIN_CHECKPOINT_OUTPUT_DIR_H
#define MF_TRAIN_CHECKPOINT_OUTPUT_DIR_H

#include "data/ledger.h"
#include "train/checkpoint/checkpoint.h"

typedef struct mf_output_dir {
    mf_checkpoints *checkpoints; /* NULL: none */
    mf_ledger *ledger; /* NULL: none, it could not be written, or another worker writes it */
    bool handed_over; /* another worker does */
} mf_output_dir;

/* Which samples, in which order. */
typedef struct mf_output_dir_data {
    mf_dataset *set;
    const mf_iterator_options *order;
    int64_t per_epoch; /* batches */
    bool leased; /* batches are leased, so their workers are not known ahead: there is no ledger */
} mf_output_dir_data;

/* At the trainer's step. continues: existing files belong to this training. An unusable ledger is
 * logged, and training continues without it. */
MF_MUST mf_status mf_output_dir_open(mf_output_dir *o, const char *dir, int keep, mf_trainer *t,
                                     const mf_output_dir_data *data, bool continues);
/* Another worker has written until now, and may have died: entries that it did not write to the
 * ledger are added. */
MF_MUST mf_status mf_output_dir_take_over(mf_output_dir *o, const char *dir, int keep,
                                          mf_trainer *t, const mf_output_dir_data *data);
/* Another worker is the chief now. */
void mf_output_dir_hand_over(mf_output_dir *o);
/* This worker is the chief, possibly again, and has missed steps that others have done: they are
 * added. */
void mf_output_dir_catch_up(mf_output_dir *o, const char *dir, const mf_trainer *t,
                            const mf_output_dir_data *data);
/* The trainer has gone back to an earlier step: remove the entries of later ones. */
MF_MUST mf_status mf_output_dir_go_back(mf_output_dir *o, const char *dir, const mf_trainer *t,
                                        const mf_output_dir_data *data);
/* The last step used these samples, on any worker. A repeated step uses the same, which are
 * recorded already. */
void mf_output_dir_add(mf_output_dir *o, const mf_trainer *t, const mf_batch *batch);
/* Before a checkpoint, which must not be ahead of the ledger. */
void mf_output_dir_flush(mf_output_dir *o);
/* Wait until everything is written. The status of the last checkpoint. */
MF_MUST mf_status mf_output_dir_close(mf_output_dir *o);

#endif
