/* SPDX-License-Identifier: Apache-2.0 */
/* replica_check.h - do all workers have the same variables? Workers that sum together and all
 * update must: where one differs, its memory or its processor is at fault.
 *
 * All workers periodically compare a hash. If all agree, each stores its values (references: the
 * next update writes elsewhere). If not, the worker that differs is named, all go back to the last
 * values that they agreed on, and the steps since then are done again. Repeated steps give the same
 * bits, so the result has the weights of a training without the fault: the wrong gradients of the
 * worker that differed are undone, too.
 *
 * With codec state, which cannot go back, workers that differ take the variables of the majority
 * and all continue, with gradients that were partly wrong since the last comparison; without a
 * majority training ends. */
#ifndef MF_TRAIN_LOOP_REPLICA_CHECK_H
#define MF_TRAIN_LOOP_REPLICA_CHECK_H

#include "train/loop/dist.h"
#include "train/step/trainer.h"

enum { MF_CHECK_STEPS = 100 }; /* the default */

typedef struct mf_replica_check {
    mf_trainer *t; /* NULL: no other worker to compare with */
    int64_t every; /* steps */
    bool anew; /* nothing is stored yet: compare after the next step */
    int64_t looked; /* the step that was compared last */
    int64_t asked; /* on a mesh: the step after which variables are gathered for it */
    bool may_go_back, goes_back; /* at all; and to stored values */
    uint32_t *sums; /* by variable, of this worker */
    uint32_t *pieces; /* buffer of checksums */
    uint64_t hash; /* of all */
    /* The last agreed state. */
    int64_t step, epoch, first;
    uint64_t agreed;
    mf_tensor *values; /* by variable */
    int times; /* roll-backs to it */
} mf_replica_check;

/* every: 0 as usual, below 0 never. */
MF_MUST mf_status mf_replica_check_init(mf_replica_check *a, mf_trainer *t, int64_t every);
void mf_replica_check_deinit(mf_replica_check *a);

/* After a rendezvous, with possibly other workers: stored values are discarded. The step is the
 * same on all. */
void mf_replica_check_forget(mf_replica_check *a);

/* Before the end of a step with variables in slices: will the check read them then? */
bool mf_replica_check_looks(mf_replica_check *a);
/* After a step. *back: the trainer is at an earlier step now, and its input must follow.
 * Collective. Fails: DATA_LOSS (no worker has the agreed state; or a worker differs repeatedly),
 * and as collectives do. */
MF_MUST mf_status mf_replica_check_step(mf_replica_check *a, bool last, bool *back);

#endif
