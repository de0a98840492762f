/* SPDX-License-Identifier: Apache-2.0 */
/* sample_order.h - the order in which the samples of a training reach the loop, and which shards a
 * worker reads. */
#ifndef MF_TRAIN_LOOP_SAMPLE_ORDER_H
#define MF_TRAIN_LOOP_SAMPLE_ORDER_H

#include "train/step/trainer.h"

/* Check that training continues in the order that t->sliced records, and record it.
 * FAILED_PRECONDITION: it began in another order, naming the difference, so its position in the
 * epoch is meaningless. */
MF_MUST mf_status mf_input_check_order(mf_trainer *t, const mf_dataset *set,
                                       const mf_iterator_options *order);

/* Workers whose shards are separate files get the files that are local to them, if the strategy
 * allows it. patterns: see data/locality.h. Collective. */
MF_MUST mf_status mf_input_take_near(mf_trainer *t, const mf_dataset *set,
                                     const mf_iterator_options *order, const char *patterns);

#endif
