/* SPDX-License-Identifier: Apache-2.0 */
/* input_autotune.h - how many of a task's threads make batches, and how many compute.
 *
 * Decided by measurements: where steps wait for batches, a thread moves from computing to making
 * batches; where nothing waits, one moves back. If steps are not faster then, the move is undone,
 * and not tried again for a while. No result depends on it. */
#ifndef MF_TRAIN_LOOP_INPUT_AUTOTUNE_H
#define MF_TRAIN_LOOP_INPUT_AUTOTUNE_H

#include "train/step/trainer.h"

typedef struct mf_input_autotune {
    bool fixed; /* set by the user: not tuned */
    int input; /* threads that make batches */
    int64_t since, waited_ns; /* of the current period: its begin; time spent waiting for batches */
    int64_t steps; /* in it */
    int trial; /* threads that just moved to making batches, as a trial; or 0 */
    double before; /* steps in a second before the trial */
    int pause, patience; /* periods until the next trial; after a trial without gain */
} mf_input_autotune;

/* input: threads that make batches; 0: one, and more if that is too slow. */
void mf_input_autotune_init(mf_input_autotune *b, mf_trainer *t, int input);
/* A step is done, before which a batch was waited for. */
MF_MUST mf_status mf_input_autotune_step(mf_input_autotune *b, mf_trainer *t, mf_iterator *it,
                                         int64_t waited_ns);
/* The user requests so many threads for computing; tuning does not change them. */
void mf_input_autotune_fix(mf_input_autotune *b, mf_trainer *t, int threads);

#endif
