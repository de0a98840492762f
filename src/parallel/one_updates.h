/* SPDX-License-Identifier: Apache-2.0 */
/* one_updates.h - of all workers the first one updates, and gives the others its new variables. */
#ifndef MF_PARALLEL_ONE_UPDATES_H
#define MF_PARALLEL_ONE_UPDATES_H

#include "train/loop.h"
#include "train/team.h"
#include "train/trainer.h"

typedef struct mf_one_updates mf_one_updates;

/* From now on only the first worker keeps the optimizer's slots. */
MF_MUST mf_status mf_one_updates_new(mf_trainer *t, mf_one_updates **out);
void mf_one_updates_free(mf_one_updates *u);

/* A step: the others compute, and wait for what the first one makes of it. */
MF_MUST mf_status mf_one_updates_run(mf_one_updates *u, const mf_run_options *options,
                                     const mf_call *call);

#endif
