/* SPDX-License-Identifier: Apache-2.0 */
/* step_buckets.h - which results of the shards are exchanged together with other workers.
 * dist/data_parallel/gradient_allreduce.c exchanges these buckets. */
#ifndef MF_TRAIN_STEP_STEP_BUCKETS_H
#define MF_TRAIN_STEP_STEP_BUCKETS_H

#include "graph/gradients.h"
#include "train/step/step.h"

/* Set n_results, bucket and n_buckets; and set, as attributes of the map, each result's bucket and
 * the name of its weight. Needs the gradients. */
MF_MUST mf_status mf_step_fill_buckets(mf_step_graph *s, const mf_outputs *results, mf_arena *arena,
                                       mf_buf *buckets, mf_buf *names);

#endif
