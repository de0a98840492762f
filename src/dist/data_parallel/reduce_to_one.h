/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_to_one.h - the first worker updates the variables, and broadcasts them to the others. */
#ifndef MF_DIST_DATA_PARALLEL_REDUCE_TO_ONE_H
#define MF_DIST_DATA_PARALLEL_REDUCE_TO_ONE_H

#include "train/loop/dist.h"
#include "train/loop/loop.h"
#include "train/step/trainer.h"

typedef struct mf_reduce_to_one mf_reduce_to_one;

/* From now on only the first worker has the optimizer's slots. */
MF_MUST mf_status mf_reduce_to_one_new(mf_trainer *t, mf_reduce_to_one **out);
void mf_reduce_to_one_free(mf_reduce_to_one *u);

/* A step: the other workers compute, and wait for the first worker's variables. */
MF_MUST mf_status mf_reduce_to_one_run(mf_reduce_to_one *u, const mf_run_options *options,
                                       const mf_loop_call *call);

#endif
