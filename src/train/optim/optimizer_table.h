/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer_table.h - the rows of the table: the nodes that each optimizer adds to the graph for
 * one weight. */
#ifndef MF_TRAIN_OPTIM_OPTIMIZER_TABLE_H
#define MF_TRAIN_OPTIM_OPTIMIZER_TABLE_H

#include "train/optim/optimizer.h"

void mf_sgd_apply(const mf_update *u); /* opt_momentum.c */
void mf_momentum_apply(const mf_update *u);
void mf_adagrad_apply(const mf_update *u); /* opt_squares.c */
void mf_rmsprop_apply(const mf_update *u);
void mf_adam_apply(const mf_update *u); /* opt_adam.c */
void mf_adamw_apply(const mf_update *u);
void mf_adam_finish(mf_updates *all);
void mf_adafactor_apply(const mf_update *u); /* opt_adafactor.c */
void mf_ftrl_apply(const mf_update *u); /* opt_ftrl.c */
void mf_lamb_apply(const mf_update *u); /* opt_lamb.c */

#endif
