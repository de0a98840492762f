/* SPDX-License-Identifier: Apache-2.0 */
/* variable_query.h - queries of the variables of a running training (`meshflow job vars`), which
 * arrive through the status page and are answered between two steps.
 *
 * The answer is a file of lines, each of fields with tabs between them:
 *
 *     step      57
 *     variable  NAME  TYPE  SHAPE  weight|other  STEP
 *     holder    TASK  SLICE  VERSION          of the variable above; any number
 *     error     MESSAGE                       instead of all these
 *
 * and, for a variable that was requested by name, FILE.npy with its value, written before. */
#ifndef MF_TRAIN_LOOP_VARIABLE_QUERY_H
#define MF_TRAIN_LOOP_VARIABLE_QUERY_H

#include "train/step/trainer.h"

/* Filled by mf_dist_worker_kind.holders. */
typedef struct mf_holders {
    mf_buf text;
} mf_holders;

/* task: "ps 1"; slice: "all", "[0:392, 0:128]", "elements 0:5017"; version: the step, or the update
 * of a server, that it is of. */
void mf_holders_add(mf_holders *h, const char *task, const char *slice, int64_t version);

/* Answer a pending query. The requester gets failures. Thread: the loop's. */
void mf_variable_query_answer(mf_trainer *t);

#endif
