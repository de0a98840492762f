/* SPDX-License-Identifier: Apache-2.0 */
/* sample_order.h - how the samples of a training come to the loop: in which order, and whose shards
 * are whose. */
#ifndef MF_TRAIN_LOOP_SAMPLE_ORDER_H
#define MF_TRAIN_LOOP_SAMPLE_ORDER_H

#include "train/step/trainer.h"

/* Training goes on in this order; t->sliced becomes what it is. FAILED_PRECONDITION: it was begun
 * in another one, naming the difference, so its place in the epoch means nothing. */
MF_MUST mf_status mf_input_check_order(mf_trainer *t, const mf_dataset *set,
                                       const mf_iterator_options *order);

/* Workers whose shards have files of their own take those that they have near, where the team lets
 * them. patterns: see data/locality.h. Collective. */
MF_MUST mf_status mf_input_take_near(mf_trainer *t, const mf_dataset *set,
                                     const mf_iterator_options *order, const char *patterns);

#endif
