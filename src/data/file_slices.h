/* SPDX-License-Identifier: Apache-2.0 */
/* file_slices.h - the order of an epoch when data is sliced by file.
 *
 * The files of a set are dealt out to streams, as many as a batch has shards, so that streams have
 * about equally many samples; a stream has the same files in every epoch. In an epoch each stream
 * takes its files in an order of their own, and each file's samples in one of theirs. Shard k of
 * every batch takes the next samples of stream k; where that has run dry, of the one that has most
 * left. So the order follows from seed, epoch, files, shards and batch; workers do not show in it.
 */
#ifndef MF_DATA_FILE_SLICES_H
#define MF_DATA_FILE_SLICES_H

#include "data/dataset.h"

/* INVALID_ARGUMENT: a number that is no mf_slicing. */
MF_MUST mf_status mf_slicing_check(mf_slicing slice);

typedef struct mf_slices mf_slices;

/* Owns: mf_slices_free(). The set must outlive it. */
MF_MUST mf_status mf_slices_new(const mf_dataset *set, int64_t streams, mf_slices **out);
void mf_slices_free(mf_slices *s);

/* All samples of an epoch, as batches of so many take them, into order[0 .. count). in_turn: a
 * batch is not of all streams but of one; the b-th of the training, counted from 0, of stream b
 * modulo their number. Thread: one at a time. */
void mf_slices_order(mf_slices *s, uint64_t seed, uint64_t epoch, int64_t batch, bool in_turn,
                     int64_t *order);

/* The files of a stream: *n of them, as numbers in the set. */
const int64_t *mf_slices_files(const mf_slices *s, int64_t stream, int64_t *n);
/* Other samples, files or streams have another one. Not negative. */
int64_t mf_slices_fingerprint(const mf_slices *s);

#endif
