/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_view.h - samples of another set, in an order given by a table. */
#ifndef MF_DATA_DATASET_VIEW_H
#define MF_DATA_DATASET_VIEW_H

#include "data/dataset.h"

/* Sample i is sample table[i] of `inner`. Takes ownership of the table (mf_calloc), even on
 * failure. */
MF_MUST mf_status mf_view_new(mf_dataset *inner, int64_t count, int64_t *table, mf_dataset **out);

#endif
