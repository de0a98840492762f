/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h - how many threads read batches.
 *
 * Whether a training is bound by its input shows in the time that the loop waits for it: then input
 * gets another thread, as long as that helps; where nearly nothing is waited for, it gives one
 * back. Nothing of this shows in results. */
#ifndef MF_TRAIN_PACE_H
#define MF_TRAIN_PACE_H

#include <meshflow/data.h>

typedef struct mf_pace {
    int threads; /* that read now */
    int least, most; /* that may */
    int change; /* what was done at the last look: +1, -1, 0 */
    double before; /* the part of the time that was waited then */
    int64_t pause; /* steps between two looks */
    int64_t steps, begun_ns, waited_ns; /* since the last look: steps; then: time, waited so far */
} mf_pace;

/* threads: as many, always; 0: as many as it takes. */
void mf_pace_init(mf_pace *p, int threads);
/* A look: this part of the time was waited for input. p->threads becomes what there should be. */
void mf_pace_look(mf_pace *p, double waited);
/* A step was done: have a look now and then, and let the iterator follow. */
MF_MUST mf_status mf_pace_step(mf_pace *p, mf_iterator *it, int64_t step);

#endif
