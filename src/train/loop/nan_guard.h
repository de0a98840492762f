/* SPDX-License-Identifier: Apache-2.0 */
/* nan_guard.h - NaN/Inf in gradients: detect with `_AllFinite`, skip the step or stop.
 *
 *   stop   a loss that is NaN/Inf ends the training before any update
 *   skip   a step whose loss, gradients or statistics have NaN/Inf updates only the step counter;
 *          after too many in a row, the loop goes back (roll_back.h)
 *   off    no check
 *
 * The guard checks sums over all shards, which are equal on all workers: so all of them make the
 * same decision, and no message is needed. */
#ifndef MF_TRAIN_LOOP_NAN_GUARD_H
#define MF_TRAIN_LOOP_NAN_GUARD_H

#include "graph/gradients.h"
#include "train/optim/optimizer.h"

struct mf_trainer;

typedef enum mf_guard_kind { MF_GUARD_STOP, MF_GUARD_SKIP, MF_GUARD_OFF } mf_guard_kind;

typedef struct mf_guard {
    mf_guard_kind kind;
    int64_t in_row; /* so many consecutive skipped steps are too many */
    mf_output finite; /* this step's sums are finite; empty: no check */
} mf_guard;

/* "stop", "skip", "skip in_row=20", "off"; NULL: stop. Fails: NOT_FOUND, INVALID_ARGUMENT. */
MF_MUST mf_status mf_guard_parse(const char *text, mf_arena *arena, mf_guard *out);
/* All updates that are added from now on depend on these being finite. Errors go to the graph. */
MF_MUST mf_status mf_guard_watch(mf_guard *guard, mf_updates *all, mf_outputs *sums);
/* Count skipped steps. With loss scaling, steps whose scale can still be halved do not count as
 * consecutive; scale empty: none. */
void mf_guard_count(const mf_guard *guard, mf_updates *all, mf_output loss_scale);

/* ---- the counts, variables like others: checkpoints have them ---- */

/* Steps skipped so far; 0 without such a guard. */
int64_t mf_guard_skipped(const struct mf_trainer *t);
/* The current number of consecutive skipped steps. */
int64_t mf_guard_skipped_in_row(const struct mf_trainer *t);
/* Is this the name of a counter? */
bool mf_guard_is_count(const char *name);

#endif
