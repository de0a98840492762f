/* SPDX-License-Identifier: Apache-2.0 */
/* input_autotune.h - how many of a task's threads make batches, and how many compute.
 *
 * It is decided by what is measured: where steps wait for batches, a thread goes from computing to
 * making batches; where nothing is waited for, one comes back. If steps are not faster then, that
 * is undone, and not tried again for a while. None of it changes a result. */
#ifndef MF_TRAIN_LOOP_INPUT_AUTOTUNE_H
#define MF_TRAIN_LOOP_INPUT_AUTOTUNE_H

#include "train/step/trainer.h"

typedef struct mf_input_autotune {
    bool fixed; /* somebody has decided: nothing is changed */
    int input; /* threads that make batches */
    int64_t since, waited_ns; /* of the time at hand: when it began; waiting for batches */
    int64_t steps; /* in it */
    int trial; /* threads that went to making batches just now, to see whether it helps; or 0 */
    double before; /* steps in a second before the trial */
    int pause, patience; /* times until the next trial; after one that does not help */
} mf_input_autotune;

/* input: threads that make batches; 0: one, and more if that is too slow. */
void mf_input_autotune_init(mf_input_autotune *b, mf_trainer *t, int input);
/* A step is done, before which a batch was waited for. */
MF_MUST mf_status mf_input_autotune_step(mf_input_autotune *b, mf_trainer *t, mf_iterator *it,
                                         int64_t waited_ns);
/* Somebody wants so many threads to compute; they are not taken away again. */
void mf_input_autotune_fix(mf_input_autotune *b, mf_trainer *t, int threads);

#endif
