/* SPDX-License-Identifier: Apache-2.0 */
/* sample_subset.h - an iterator that reads of each batch only some samples, wherever these are in
 * it. */
#ifndef MF_DATA_SAMPLE_SUBSET_H
#define MF_DATA_SAMPLE_SUBSET_H

#include "base/int_ranges.h"

#include <meshflow/data.h>

/* Of batches of so many samples, these rows. */
typedef struct mf_needed {
    int64_t whole;
    mf_ranges rows;
} mf_needed;

enum { MF_NEEDED = 2 }; /* sizes that batches of an epoch can have */

/* From the next batch on, only these are read, one behind the other, of batches that have one of
 * these sizes; of others all. `place` is 0 then. It takes the rows. Only where all shards are
 * taken. n 0: all is read. */
MF_MUST mf_status mf_iterator_need(mf_iterator *it, mf_needed *needed, int n);
/* An iterator that has never read others. It takes the rows, also where it fails. */
MF_MUST mf_status mf_iterator_new_needed(mf_dataset *set, const mf_iterator_options *options,
                                         mf_needed *needed, int n, mf_iterator **out);

#endif
