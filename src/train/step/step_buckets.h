/* SPDX-License-Identifier: Apache-2.0 */
/* step_buckets.h - which results of the shards travel together when there are other workers. */
#ifndef MF_TRAIN_STEP_STEP_BUCKETS_H
#define MF_TRAIN_STEP_STEP_BUCKETS_H

#include "graph/gradients.h"
#include "train/step/step.h"

/* Sets n_results, bucket and n_buckets; and writes, as attributes of the map, each result's bucket
 * and the name of the weight whose gradient it is. The gradients are known. */
MF_MUST mf_status mf_step_fill_buckets(mf_step_graph *s, const mf_outputs *results, mf_arena *arena,
                                       mf_buf *buckets, mf_buf *names);

#endif
