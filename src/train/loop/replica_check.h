/* SPDX-License-Identifier: Apache-2.0 */
/* replica_check.h - do all workers have the same variables? Workers that sum together and all
 * update must: where one differs, its memory or its processor is at fault.
 *
 * Every so many steps all compare a hash. Where all agree, each keeps its values (references: the
 * next update writes elsewhere). Where they do not, whoever differs is named, all go back to the
 * last values that they agreed on, and the steps since then are done again. Steps are the same
 * bits whenever they are done, so what comes out are the weights of a training without the fault:
 * the wrong gradients of the one that differed are undone, too.
 *
 * A codec that keeps something for the next step cannot go back: then those who differ take the
 * variables of the majority and all go on, with gradients that were partly wrong since the last
 * comparison; without a majority training ends. */
#ifndef MF_TRAIN_LOOP_REPLICA_CHECK_H
#define MF_TRAIN_LOOP_REPLICA_CHECK_H

#include "train/loop/dist.h"
#include "train/step/trainer.h"

enum { MF_CHECK_STEPS = 100 }; /* unless told */

typedef struct mf_replica_check {
    mf_trainer *t; /* NULL: there is nobody to compare with */
    int64_t every; /* steps */
    bool anew; /* nothing is kept yet: compare after the next step */
    int64_t looked; /* the step that was compared last */
    int64_t asked; /* on a mesh: the step after which variables are brought together for it */
    bool may_go_back, goes_back; /* at all; and to something that is kept */
    uint32_t *sums; /* by variable, of this worker */
    uint32_t *pieces; /* where they are put together */
    uint64_t hash; /* of all */
    /* What all agreed on last. */
    int64_t step, epoch, first;
    uint64_t agreed;
    mf_tensor *values; /* by variable */
    int times; /* that all went back to it */
} mf_replica_check;

/* every: 0 as usual, below 0 never. */
MF_MUST mf_status mf_replica_check_init(mf_replica_check *a, mf_trainer *t, int64_t every);
void mf_replica_check_deinit(mf_replica_check *a);

/* The team has met, and may be another one: what was kept is of no use. Steps are as many for all.
 */
void mf_replica_check_forget(mf_replica_check *a);

/* Before the end of a step of a team whose variables are in slices: will it look at them then? */
bool mf_replica_check_looks(mf_replica_check *a);
/* After a step. *back: the trainer stands at an earlier step now, and so shall its input.
 * Collective. Fails: DATA_LOSS (nobody has what all agreed on; or somebody differs again and
 * again), and as collectives do. */
MF_MUST mf_status mf_replica_check_step(mf_replica_check *a, bool last, bool *back);

#endif
