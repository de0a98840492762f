/* SPDX-License-Identifier: Apache-2.0 */
/* sample_subset.h - an iterator that reads only some rows of each batch. */
#ifndef MF_DATA_SAMPLE_SUBSET_H
#define MF_DATA_SAMPLE_SUBSET_H

#include "base/int_ranges.h"

#include <meshflow/data.h>

/* The rows to read of batches of `whole` samples. */
typedef struct mf_needed {
    int64_t whole;
    mf_ranges rows;
} mf_needed;

enum { MF_NEEDED = 2 }; /* maximum number of batch sizes in an epoch */

/* From the next batch on, only these rows are read and packed, for batches of one of these sizes;
 * other batches are read completely. `place` is then 0. Takes ownership of the rows. Requires that
 * all shards are taken. n 0: all rows are read. */
MF_MUST mf_status mf_iterator_need(mf_iterator *it, mf_needed *needed, int n);
/* An iterator that reads only these rows from the start. Takes ownership of the rows, even on
 * failure. */
MF_MUST mf_status mf_iterator_new_needed(mf_dataset *set, const mf_iterator_options *options,
                                         mf_needed *needed, int n, mf_iterator **out);

#endif
