/* SPDX-License-Identifier: Apache-2.0 */
/* prune_weights.h - pruning during training. There are no masks: a pruned weight is zero, and a
 * weight that was zero before a step is zero after it, regardless of the optimizer. So workers,
 * servers and checkpoints need to share only weights. */
#ifndef MF_TRAIN_STEP_PRUNE_WEIGHTS_H
#define MF_TRAIN_STEP_PRUNE_WEIGHTS_H

#include "train/optim/optimizer.h"

/* "magnitude sparsity=0.9 begin=0 end=1000 every=100 first=0 scope=global only='dense*'", or
 * "hold only='dense*'". */
typedef struct mf_prune {
    bool holds; /* no further weights become zero */
    bool global; /* all weights are compared with each other, not those of each layer */
    const char *only; /* pattern of names; in the arena */
    double first, last; /* shares of zeros at `begin` and at `end` */
    int64_t begin, end, every; /* steps */
    bool end_given, every_given; /* else they have defaults */
} mf_prune;

/* Fails: NOT_FOUND, INVALID_ARGUMENT. */
MF_MUST mf_status mf_prune_parse(const char *text, mf_arena *arena, mf_prune *out);
/* As mf_prune_parse() reads it. */
void mf_prune_text(const mf_prune *prune, mf_buf *out);

/* Behind the updates of a step: "magnitude sparsity=0.9 begin=0 end=1000 every=100 first=0
 * scope=global only='dense*'", or "hold only='dense*'"; NULL: nothing. Kernels are meant, not
 * biases and tables. Fails: NOT_FOUND, INVALID_ARGUMENT. */
MF_MUST mf_status mf_prune_add(const char *text, mf_update *updates, int n);
/* Does the rule compare all weights? NULL: no. Fails in the same way. */
MF_MUST mf_status mf_prune_is_global(const char *text, mf_arena *arena, bool *out);

#endif
