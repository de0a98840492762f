/* SPDX-License-Identifier: Apache-2.0 */
/* restore.h - restores the variables of a graph from a checkpoint. */
#ifndef MF_CLI_RESTORE_H
#define MF_CLI_RESTORE_H

#include "cli/feed.h"

#include <meshflow/session.h>

/* A run that assigns every variable that is in the checkpoint. */
typedef struct mf_restore {
    mf_feeds feeds; /* the values */
    mf_feeds assign; /* names only: the assigning nodes */
} mf_restore;

/* Adds nodes to `graph`, before a session is created, that assign its variables (VariableV2,
 * VarHandleOp) from the tensors of the same name in the checkpoint `prefix`. Variables that it
 * lacks stay uninitialised. Fails: NOT_FOUND (no checkpoint, or none of the variables is in it),
 * DATA_LOSS. */
MF_MUST mf_status mf_restore_add(mf_args *args, mf_graph *graph, const char *prefix,
                                 mf_restore *out);
/* Runs it. Fails: INVALID_ARGUMENT naming the variable (type or shape differ). */
MF_MUST mf_status mf_restore_run(const mf_restore *restore, mf_session *session);
void mf_restore_deinit(mf_restore *restore);

#endif
