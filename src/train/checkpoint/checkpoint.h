/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - saving and restoring training.
 *
 * A checkpoint is a TensorFlow bundle: the variables under TensorFlow's names, and under _meshflow/
 * the state that Meshflow needs to continue exactly. Taking a snapshot costs nothing: it holds
 * references, and the next update writes elsewhere (with updates without locks it is a copy). A
 * thread writes it while training continues. */
#ifndef MF_TRAIN_CHECKPOINT_CHECKPOINT_H
#define MF_TRAIN_CHECKPOINT_CHECKPOINT_H

#include "train/step/trainer.h"

typedef struct mf_snapshot mf_snapshot;

MF_MUST mf_status mf_snapshot_take(mf_trainer *t, mf_snapshot **out);
/* Of any variables: ownership of their values is transferred. */
MF_MUST mf_status mf_snapshot_of(int64_t step, const char *const *names, mf_tensor *const *values,
                                 int64_t n, mf_snapshot **out);
/* Another task has written some of the variables, or slices of them, to a bundle, which becomes
 * part of the checkpoint when that is written. The snapshot releases these variables. Fails as
 * opening a bundle does. */
MF_MUST mf_status mf_snapshot_add_part(mf_snapshot *s, const char *prefix);
bool mf_snapshot_has_parts(const mf_snapshot *s);
void mf_snapshot_free(mf_snapshot *s);
int64_t mf_snapshot_step(const mf_snapshot *s);
/* PREFIX.index and its data: complete, or nothing. Thread: any. */
MF_MUST mf_status mf_snapshot_write(const mf_snapshot *s, const char *prefix);

/* ---- a folder of checkpoints ---- */

typedef struct mf_checkpoints mf_checkpoints;

/* Start the writer thread. Creates the folder if it does not exist. */
MF_MUST mf_status mf_checkpoints_open(const char *dir, int keep, mf_checkpoints **out);
/* Write a snapshot of the trainer in the background. Waits while an earlier one is being written.
 * Failures to write are logged and counted; training need not stop for them. */
MF_MUST mf_status mf_checkpoints_save(mf_checkpoints *c, mf_trainer *t);
/* The same with a snapshot, whose ownership is transferred. */
MF_MUST mf_status mf_checkpoints_put(mf_checkpoints *c, mf_snapshot *s);
/* Wait until everything is written. The status of the last save. */
MF_MUST mf_status mf_checkpoints_wait(mf_checkpoints *c);
/* Remove checkpoints of later steps, after a roll-back to this one. Waits as well. */
MF_MUST mf_status mf_checkpoints_drop_after(mf_checkpoints *c, int64_t step);
/* Wait until everything is written, then free. The status of the last save. */
MF_MUST mf_status mf_checkpoints_close(mf_checkpoints *c);

/* Restore from the newest complete checkpoint of the folder; damaged ones are named in the log.
 * *prefix: which one, Owns: mf_free(); NULL: there is none, and nothing changed. */
MF_MUST mf_status mf_checkpoints_restore(const char *dir, mf_trainer *t, char **prefix);

/* The same with another way to restore: `restore` is tried with one checkpoint after the other. */
typedef mf_status mf_restore_fn(void *ctx, const char *prefix);
MF_MUST mf_status mf_checkpoints_try(const char *dir, mf_restore_fn *restore, void *ctx,
                                     char **prefix);

/* `where` is a prefix, or a folder, whose newest checkpoint is meant. Owns: mf_free(*prefix).
 * NOT_FOUND: none. */
MF_MUST mf_status mf_checkpoints_find(const char *where, char **prefix);
/* The steps of the folder's checkpoints, ascending. Owns: mf_free(*steps). */
MF_MUST mf_status mf_checkpoints_list(const char *dir, int64_t **steps, int64_t *n);
/* Remove a checkpoint with all of its files. */
void mf_checkpoints_remove(const char *dir, int64_t step);
/* "DIR/model.ckpt-300". Owns: mf_free(*prefix). */
MF_MUST mf_status mf_checkpoints_prefix(const char *dir, int64_t step, char **prefix);

#endif
