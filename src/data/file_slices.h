/* SPDX-License-Identifier: Apache-2.0 */
/* file_slices.h - the order of an epoch when data is sliced by file.
 *
 * The files of a set are assigned to as many streams as a batch has shards, so that streams have
 * about the same number of samples; a stream has the same files in every epoch. In each epoch every
 * stream shuffles its files, and the samples of each file. Shard k of every batch takes the next
 * samples of stream k or, if that is exhausted, of the stream with the most samples left. So the
 * order depends on seed, epoch, files, shards and batch, but not on the workers. */
#ifndef MF_DATA_FILE_SLICES_H
#define MF_DATA_FILE_SLICES_H

#include "data/dataset.h"

/* Fails: INVALID_ARGUMENT (not an mf_slicing). */
MF_MUST mf_status mf_slicing_check(mf_slicing slice);

typedef struct mf_slices mf_slices;

/* Owns: mf_slices_free(). The set must outlive it. */
MF_MUST mf_status mf_slices_new(const mf_dataset *set, int64_t streams, mf_slices **out);
void mf_slices_free(mf_slices *s);

/* All samples of an epoch, in the order in which batches of `batch` samples take them, into order[0
 * .. count). in_turn: a batch is taken from one stream; batch b of the training, from 0, from
 * stream b modulo their number. Thread: one at a time. */
void mf_slices_order(mf_slices *s, uint64_t seed, uint64_t epoch, int64_t batch, bool in_turn,
                     int64_t *order);

/* The *n files of a stream, as indices in the set. */
const int64_t *mf_slices_files(const mf_slices *s, int64_t stream, int64_t *n);
/* Identifies samples, files and streams. Not negative. */
int64_t mf_slices_fingerprint(const mf_slices *s);

#endif
