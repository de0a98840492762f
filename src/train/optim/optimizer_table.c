/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer_table.c - the table of optimizers. Settings and their defaults are Keras's. */
#include "train/optim/optimizer_table.h"

#define RATE(value) "learning_rate: float = " value
#define ADAM RATE("0.001") ", beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7"

const mf_optimizer_kind mf_optimizers[] = {
    { "sgd", "{" RATE("0.01") "}", "steps against the gradient", mf_sgd_apply, NULL, false },
    { "momentum", "{" RATE("0.01") ", momentum: float = 0.9, nesterov: bool = false}",
      "steps that keep part of the last direction", mf_momentum_apply, NULL, false },
    { "adagrad",
      "{" RATE("0.001") ", initial_accumulator_value: float = 0.1, epsilon: float = 1e-7}",
      "by the sum of all squares so far: good for rare features", mf_adagrad_apply, NULL, false },
    { "rmsprop",
      "{" RATE("0.001") ", rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-7, "
                        "centered: bool = false}",
      "by a moving mean of squares", mf_rmsprop_apply, NULL, false },
    { "adam", "{" ADAM ", amsgrad: bool = false, lazy: bool = false}",
      "by moving means of gradient and square", mf_adam_apply, mf_adam_finish, false },
    { "adamw", "{" ADAM ", weight_decay: float = 0.004, amsgrad: bool = false, lazy: bool = false}",
      "adam with weights that decay", mf_adamw_apply, mf_adam_finish, false },
    { "adafactor",
      "{" RATE("0.001") ", beta_2_decay: float = -0.8, epsilon_1: float = 1e-30, "
                        "epsilon_2: float = 0.001, clip_threshold: float = 1.0}",
      "second moments factored by row and column, in less memory", mf_adafactor_apply, NULL, true },
    { "ftrl",
      "{" RATE("0.001") ", learning_rate_power: float = -0.5, "
                        "initial_accumulator_value: float = 0.1, "
                        "l1_regularization_strength: float = 0.0, "
                        "l2_regularization_strength: float = 0.0, "
                        "l2_shrinkage_regularization_strength: float = 0.0, beta: float = 0.0}",
      "follows the regularised leader: sparse weights", mf_ftrl_apply, NULL, false },
    { "lamb",
      "{" RATE("0.001") ", beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7}",
      "adam scaled to the size of each weight: large batches", mf_lamb_apply, NULL, true },
    { 0 },
};
