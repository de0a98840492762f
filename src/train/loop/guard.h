/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - what keeps numbers that are none (NaN, infinities) out of the weights.
 *
 *   stop   a loss that is no number ends the training before anything is updated
 *   skip   a step whose loss, gradients or statistics are no numbers updates nothing but the count
 *          of steps; too many in a row, and the loop goes back (roll_back.h)
 *   off    nothing is looked at
 *
 * What is looked at are sums over all shards, which all workers have alike: so all of them decide
 * alike, and no message is needed. */
#ifndef MF_TRAIN_LOOP_GUARD_H
#define MF_TRAIN_LOOP_GUARD_H

#include "graph/gradients.h"
#include "train/optim/optimizer.h"

struct mf_trainer;

typedef enum mf_guard_kind { MF_GUARD_STOP, MF_GUARD_SKIP, MF_GUARD_OFF } mf_guard_kind;

typedef struct mf_guard {
    mf_guard_kind kind;
    int64_t in_row; /* so many steps left out in a row are too many */
    mf_output finite; /* this step's sums are numbers; empty: nobody looks */
} mf_guard;

/* "stop", "skip", "skip in_row=20", "off"; NULL: stop. Fails: NOT_FOUND, INVALID_ARGUMENT. */
MF_MUST mf_status mf_guard_parse(const char *text, mf_arena *arena, mf_guard *out);
/* All updates that are added from now on happen only if these are numbers. Errors go to the
 * graph. */
MF_MUST mf_status mf_guard_watch(mf_guard *guard, mf_updates *all, mf_outputs *sums);
/* Count what is left out. With a scale of the loss, those whose scale can still be halved do not
 * count as in a row: empty, there is none. */
void mf_guard_count(const mf_guard *guard, mf_updates *all, mf_output loss_scale);

/* ---- the counts, variables like others: checkpoints have them ---- */

/* Steps left out so far; 0 without such a guard. */
int64_t mf_guard_skipped(const struct mf_trainer *t);
/* Those up to now that are too many. */
int64_t mf_guard_skipped_in_row(const struct mf_trainer *t);
/* Is this the name of one of them? */
bool mf_guard_is_count(const char *name);

#endif
